"""Kept and repaid rows are what came in, as multisets: random rows, plans, groups and batches."""

from __future__ import annotations

from collections import Counter
from functools import reduce

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headgate.core.plan import Plan
from headgate.spark.backfill.parts import shed_of
from headgate.spark.backfill.reread import Reread, counted_again, mismatches
from headgate.spark.gate.shape import SCRATCH, GateShape
from headgate.store.ledger.records import Evidence, Record

_RATES = st.sampled_from([0.0, 1e-6, 0.25, 0.5, 0.999, 1.0])
_ROW = st.tuples(
    st.one_of(st.none(), st.integers(0, 5)),
    st.one_of(st.none(), st.sampled_from(["a", "b", "", "A", "\u00e9", "e\u0301", "\x00", "x" * 300])),
    st.one_of(st.none(), st.just(float("nan")), st.floats(allow_nan=False)),
)
_SHAPES = st.sampled_from(
    [
        GateShape(("id", "route", "fare"), 7),
        GateShape(("id",), 3, classes=("route = 'a'", "fare > 0")),
        GateShape(("route", "fare"), 1, columns=("id",)),
    ]
)


@st.composite
def _batches(draw: st.DrawFn) -> list[tuple[list[tuple[object, ...]], Plan]]:
    batches = []
    for _ in range(draw(st.integers(1, 3))):
        rows = draw(st.lists(_ROW, max_size=25))
        groups = draw(st.dictionaries(st.integers(0, 5), _RATES, max_size=3))
        batches.append((rows, Plan(draw(_RATES), groups)))
    return batches


def _counted(frame: DataFrame) -> Counter[str]:
    return Counter(str(tuple(row)) for row in frame.collect())


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(batches=_batches(), shape=_SHAPES)
def test_kept_and_repaid_rows_are_the_input(spark, batches, shape: GateShape) -> None:
    schema = "id bigint, route string, fare double"
    parts, inputs = {}, []
    for batch, (rows, plan) in enumerate(batches):
        if shape.classes:  # groups by class are numbered from 1 on
            plan = Plan(plan.default, {k: r for k, r in plan.exceptions.items() if k in (1, 2)})
        if not shape.classes and not shape.columns:
            plan = Plan(plan.default)
        frame = spark.createDataFrame(rows, schema)
        inputs.append(frame.withColumn("_batch", F.lit(batch)))
        judged, kept = shape.judged(spark, frame, plan, batch)
        bare = Record("g", "q", batch, 0, 0, 0, plan, shape.digest)
        parts[batch] = Reread(bare, shape, judged, kept)
    shed = [shed_of(part) for part in parts.values()]
    kept_rows = [
        p.frame.where(p.kept).drop(*SCRATCH).withColumn("_batch", F.lit(b)) for b, p in parts.items()
    ]
    together = reduce(DataFrame.unionByName, [*shed, *kept_rows])
    assert _counted(together) == _counted(reduce(DataFrame.unionByName, inputs))
    first = parts[0]
    seen = counted_again(first)
    true = Record(
        "g", "q", 0, seen.arrived, seen.kept, seen.arrived - seen.kept, first.record.plan, shape.digest,
        evidence=Evidence(fingerprint=seen.fingerprint),
    )  # fmt: skip
    good = Reread(true, shape, first.frame, first.kept)
    assert mismatches({0: good}) == {}
    if seen.arrived:  # one row more than was recorded is noticed before anything is handed on
        assert mismatches({0: Reread(true, shape, first.frame.union(first.frame), first.kept)})
