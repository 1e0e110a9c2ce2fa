"""A gate that adds no column: what follows sees the rows as they came."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

import headgate as hg
from headgate.store.ledger.audit import audit
from tests.spark.conftest import records

POLICIES = {
    "uniform": {},
    "classes": {"keep": "route = 'r0'"},
    "groups": {"policy": hg.GroupRates("route", {"r1": 0.5})},
    "concept": {"policy": hg.ConceptDriven("route")},
    "history": {"policy": hg.ConceptDriven("route", counts="history")},
}


def rows(count: int) -> list[dict[str, object]]:
    return [{"id": i, "route": f"r{i % 4}", "fare": 1.0} for i in range(count)]


@pytest.mark.parametrize(
    "which",
    [
        pytest.param(name, marks=[pytest.mark.needs_spark("4.1")] if name == "history" else [])
        for name in POLICIES
    ],
)
def test_a_stream_without_weights_keeps_the_same_rows_and_its_books(
    which: str, file_stream, run_all, tmp_path: Path
) -> None:
    source = file_stream()
    source.add(rows(400))
    kept = {}
    for weight in (True, False):
        control = tmp_path / f"control-{weight}"
        gate = hg.gate("g", rate=0.5, control=control, weight=weight, **POLICIES[which])
        frame = source.frame().transform(gate)
        assert ("_weight" in frame.columns) == weight
        kept[weight] = sorted(r.id for r in run_all(frame, checkpoint=f"checkpoint-{weight}"))
        (record,) = records(control, "g")
        assert (record.arrived, record.kept) == (400, len(kept[weight]))
        assert record.origin in ("plan", "start"), "the rate that rows really met is still seen"
        assert all(a.complete for a in audit(control))
    assert kept[True] == kept[False]
    assert 0 < len(kept[False]) < 400


@pytest.mark.parametrize("which", ["uniform", "classes", "groups", "concept"])
def test_a_batch_frame_without_weights(spark, which: str) -> None:
    frame = spark.createDataFrame(rows(400))  # type: ignore[type-var]
    gated = frame.transform(hg.gate("g", rate=0.5, weight=False, **POLICIES[which]))
    assert gated.columns == frame.columns
    assert 0 < gated.count() < 400


def test_equal_rows_of_different_plans_stay_equal(spark) -> None:
    frame = spark.createDataFrame(rows(200))  # type: ignore[type-var]
    found = {}
    for weight in (True, False):
        few, all_of_them = (
            frame.transform(hg.gate(name, rate=rate, weight=weight))
            for name, rate in (("few", 0.5), ("all", 1.0))
        )
        found[weight] = few.union(all_of_them).dropDuplicates().count()
    assert found[False] == 200
    assert found[True] > 250, "with another weight a row is another row"


def test_a_gate_without_weights_behind_one_with_is_refused(spark) -> None:
    weighted = spark.range(10).transform(hg.gate("first", rate=0.5))
    with pytest.raises(hg.BadArgument, match=r"weight=False.*\['first'\].*drop the column '_weight'"):
        weighted.transform(hg.gate("second", rate=0.5, weight=False))
    plain = weighted.drop("_weight").transform(hg.gate("second", rate=0.5, weight=False))
    assert plain.columns == ["id"]


def test_estimates_need_the_column_and_name_it(spark) -> None:
    plain = spark.range(100).transform(hg.gate("g", rate=0.5, weight=False))
    with pytest.raises(AnalysisException, match="_weight"):
        plain.agg(hg.mean("id"))
    assert plain.agg(hg.mean("id", weight=F.lit(2.0)).alias("m")).first().m.rows > 0


@pytest.mark.parametrize("weight", [None, "w", 1])
def test_weight_is_yes_or_no(weight: object) -> None:
    with pytest.raises(hg.BadArgument, match=r"weight=.*True adds the column '_weight'"):
        hg.gate("g", rate=0.5, weight=weight)  # type: ignore[arg-type]
