"""The bench of what error bars cost, in small: every way runs and is told as a ratio."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.progress import Progress

from headgate_lab.bench.coverage.cost import measure


@pytest.mark.long
def test_every_way_has_its_price(spark: SparkSession, tmp_path: Path) -> None:
    with Progress(disable=True) as progress:
        result = measure(spark, tmp_path, progress, 20_000, 1)
    ways = ("plain", "careful", "pooled", "by", "earlier", "together")
    assert list(result["ratios"]) == [f"{way}_vs_weighted" for way in ways]
    assert all(ratio > 0.0 for ratio in result["ratios"].values())
    assert set(result["context"]["seconds"]) == {"weighted", *ways}
    assert (result["context"]["groups"], result["context"]["windows"]) == (200, 10)
