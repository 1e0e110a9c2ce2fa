"""Arrow functions on a Spark that has none, and schemas as each PySpark makes them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql.types import DoubleType, StructField, StructType, TimestampType

import headgate as hg
from headgate.core.plan import Plan
from headgate.spark.groups.task import Known, Sampling, weigher
from headgate.spark.versions import arrow
from headgate.spark.versions.arrow import arrow_schema, over_pandas
from headgate.spark.versions.supported import SparkVersion

SCHEMA = StructType([StructField("at", TimestampType()), StructField("x", DoubleType())])


def test_timestamps_cross_over_in_utc() -> None:
    assert arrow_schema(SCHEMA).field("at").type == pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("4.0.5", {"timestamp_utc": True}),
        ("4.1.4", {"timestamp_utc": True}),
        ("4.2.1", {"timezone": "UTC"}),
        ("4.3.0", {"timezone": "UTC"}),
    ],
)
def test_each_pyspark_is_asked_in_its_own_words(
    monkeypatch: pytest.MonkeyPatch, version: str, said: dict[str, Any]
) -> None:
    heard: list[dict[str, Any]] = []

    def make(schema: StructType, **given: Any) -> pa.Schema:
        heard.append(given)
        return pa.schema([])

    monkeypatch.setattr("pyspark.sql.pandas.types.to_arrow_schema", make)
    arrow_schema(SCHEMA, SparkVersion.read(version))
    assert heard == [said]


def _batches() -> list[tuple[pa.Array, ...]]:
    """Keys and hashes over all of 64 bits, and values with nulls and NaN."""
    chance = random.Random(7)
    keys = [chance.choice([-(2**63), 2**63 - 1, 0, 3, 2**53 + 1]) for _ in range(400)]
    hashes = [chance.randrange(2**62) | 1 for _ in keys]
    values = [chance.choice([None, float("nan"), 1e6, chance.random()]) for _ in keys]
    parts = [pa.array(keys), pa.array(hashes), pa.array(values, pa.float64())]
    return [tuple(part[at : at + 150] for part in parts) for at in (0, 150, 300)]


def test_over_pandas_every_row_has_the_same_weight_to_the_bit() -> None:
    sampling = Sampling("neyman", 1, "exceed", "fixed", seed=5, valued=True, alone=True)
    weigh = weigher(sampling, Known(Plan(0.3)))
    truth = list(weigh(iter(_batches())))
    series = [tuple(column.to_pandas() for column in batch) for batch in _batches()]
    found = list(over_pandas(weigh)(iter(series)))
    assert [len(part) for part in found] == [len(part) for part in truth]
    weights = np.concatenate([part["w"].to_numpy() for part in found])
    expected = np.concatenate([part.field("w").to_numpy(zero_copy_only=False) for part in truth])
    assert (weights == expected).all()
    assert 0 < (weights > 0).sum() < len(weights)
    reports = [said for part in found for said in part["about"] if said is not None]
    assert [list(r) for r in reports] == [truth[0].field("about")[0].as_py()]


def test_a_partition_without_rows_calls_nothing() -> None:
    weigh = weigher(Sampling("senate", 1, "exceed", "fixed", seed=5), Known(Plan(0.3)))
    none: Iterator[tuple[pd.Series, ...]] = iter(())
    assert list(over_pandas(weigh)(none)) == []


def test_a_drawing_gate_keeps_the_same_rows_on_spark_4_0(
    monkeypatch: pytest.MonkeyPatch, file_stream: Any, run_all: Callable[..., Any], tmp_path: Path
) -> None:
    """The way over pandas, on whatever Spark this is."""
    stream = file_stream()
    for batch in range(2):
        rows = [{"id": 1000 * batch + i, "route": f"r{i % 7}", "fare": i / 3} for i in range(500)]
        stream.add(rows)

    def kept(where: str) -> set[tuple[Any, ...]]:
        policy = hg.ConceptDriven("route", allocation="neyman", value="fare")
        gate = hg.gate("g", rate=0.2, policy=policy, control=tmp_path / where)
        return {tuple(row) for row in run_all(stream.frame().transform(gate), checkpoint=f"c-{where}")}

    usual = kept("usual")
    monkeypatch.setattr(arrow, "version_of", lambda spark: SparkVersion(4, 0))
    assert kept("older") == usual
    assert 100 < len(usual) < 400
