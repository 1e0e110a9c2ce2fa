"""The connector of each Spark."""

from __future__ import annotations

import pytest

from headgate.spark.versions.kafka import connector_of, stand_in_of, token_provider
from headgate.spark.versions.supported import NEWEST, SparkVersion


@pytest.mark.parametrize(
    ("version", "stand_in"),
    [("4.0.5", "4.0.4"), ("4.1.4", "4.1.3"), ("4.2.1", "4.2.0"), ("4.3.0", "4.2.0"), ("4.9.0", "4.2.0")],
)
def test_a_stand_in_is_of_the_same_line_or_of_the_one_before(version: str, stand_in: str) -> None:
    given = SparkVersion.read(version)
    assert connector_of(given).endswith(f":{version}")
    assert token_provider(given).endswith(f":{version}")
    assert stand_in_of(given)[0].endswith(f":{stand_in}")


def test_without_pyspark_the_newest_is_meant() -> None:
    assert connector_of(None).endswith(f":{NEWEST}.0")
    assert stand_in_of(None) == stand_in_of(NEWEST)
