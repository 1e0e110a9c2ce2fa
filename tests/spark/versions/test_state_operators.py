"""Operators with state over Connect."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import headgate as hg
from headgate.spark.versions.state_operators import require_state_operators


def test_a_join_over_connect_needs_4_1() -> None:
    old: Any = SimpleNamespace(version="4.0.5")
    says = r"join 'j' over Connect needs Spark 4\.1 or newer, and this is 4\.0\.5: give it .* classic"
    with pytest.raises(hg.UnsupportedSpark, match=says):
        require_state_operators(old, "join 'j'", connect=True)
    require_state_operators(old, "join 'j'", connect=False)


@pytest.mark.needs_spark("4.1")
def test_a_newer_one_has_them() -> None:
    require_state_operators(SimpleNamespace(version="4.1.4"), "join 'j'", connect=True)  # type: ignore[arg-type]
