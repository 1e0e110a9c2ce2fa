"""Real-time mode is refused in our words where PySpark cannot ask for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import headgate as hg
from headgate.spark.versions.real_time import require_real_time


@pytest.mark.parametrize("version", ["4.0.5", "4.1.4"])
def test_an_older_spark_says_what_to_do(version: str) -> None:
    session: Any = SimpleNamespace(version=version)
    with pytest.raises(
        hg.UnsupportedSpark, match=rf"Spark 4\.2 or newer, and this is {version}: use trigger"
    ):
        require_real_time(session)


@pytest.mark.needs_spark("4.2")
@pytest.mark.parametrize("version", ["4.2.0", "4.3.0"])
def test_a_newer_one_is_taken(version: str) -> None:
    session: Any = SimpleNamespace(version=version)
    require_real_time(session)
