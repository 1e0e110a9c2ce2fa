"""What a rescue sheds: each attempt a subset of the one before, the worst class first; and for whom."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headgate as hg
from headgate.core.plan import SCALE, Plan, threshold
from headgate.core.rescue import SAFE_SINKS, Rescue, kind_of_sink, within

rates = st.floats(0.0, 1.0)
plans = st.builds(Plan, rates, st.dictionaries(st.integers(1, 4), rates, max_size=4))
HASHES = st.lists(st.tuples(st.integers(0, SCALE - 1), st.integers(0, 5)), min_size=1, max_size=60)


def _kept(plan: Plan, rows: list[tuple[int, int]]) -> set[tuple[int, int]]:
    return {(hashed, group) for hashed, group in rows if hashed < threshold(plan.rate_of(group))}


@given(plans, st.floats(0.01, 0.99), rates, st.integers(0, 4), HASHES)
def test_every_attempt_keeps_a_subset_of_the_one_before(
    plan: Plan, keep: float, least: float, classes: int, rows: list[tuple[int, int]]
) -> None:
    rescue = Rescue("noop", keep=keep)
    before = _kept(plan, rows)
    for times in range(1, 9):
        kept = _kept(rescue.tightened(plan, times, least, classes), rows)
        assert kept <= before
        before = kept


@given(plans, plans, HASHES)
def test_a_bound_makes_any_plan_a_subset(plan: Plan, bound: Plan, rows: list[tuple[int, int]]) -> None:
    assert _kept(within(plan, bound), rows) <= _kept(bound, rows) & _kept(plan, rows)


@given(plans, st.floats(0.01, 0.99), st.integers(0, 4))
def test_no_rate_above_the_least_lasts(plan: Plan, keep: float, classes: int) -> None:
    """Or a batch could fail for ever for want of shedding: 1,000 attempts are enough at any share."""
    ended = Rescue("noop", keep=keep).tightened(plan, 1000, 0.05, classes)
    groups = range(1, classes + 1) if classes else plan.exceptions
    assert all(rate <= 0.05 + 1e-12 for rate in (ended.default, *map(ended.rate_of, groups)))


def test_rates_fall_in_proportion_and_not_below_the_least() -> None:
    plan, rescue = Plan(0.8, {7: 0.4, 8: 0.005}, {7: "a"}), Rescue("files")
    once, twice = (rescue.tightened(plan, times, least=0.01) for times in (1, 2))
    assert (once.default, once.exceptions) == (0.2, {7: 0.1, 8: 0.005})
    assert (twice.default, twice.exceptions) == (0.05, {7: 0.025, 8: 0.005})
    assert once.labels == plan.labels
    assert rescue.tightened(plan, 0, least=0.01) is plan


def test_the_worst_class_yields_first_and_a_better_one_only_when_nothing_of_it_is_left() -> None:
    plan = Plan(1.0, {1: 1.0, 2: 1.0})
    found = [Rescue("files").tightened(plan, times, 0.01, classes=2) for times in range(1, 6)]
    assert [(p.default, p.rate_of(2), p.rate_of(1)) for p in found] == [
        (0.25, 1.0, 1.0),
        (0.0, 0.25, 1.0),
        (0.0, 0.0, 0.25),
        (0.0, 0.0, 0.0625),
        (0.0, 0.0, 0.015625),
    ]


def test_a_class_that_overload_has_shed_already_costs_no_attempt() -> None:
    plan = Plan(0.0, {1: 0.5})
    assert Rescue("files").tightened(plan, 1, 0.01, classes=1).rate_of(1) == 0.125


@pytest.mark.parametrize(
    ("described", "kind"),
    [
        ("FileSink[file:/data/out]", "files"),
        ("DeltaSink[s3a://lake/t]", "delta"),
        ("ForeachBatchSink", "overwrites"),
        ("MemorySink", "memory"),
        ("NoopTable", "noop"),
        ("org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaTable@1f", None),
        ("org.apache.spark.sql.execution.streaming.ConsoleTable$@1", None),
        ("ForeachWriterTable(org.apache.spark.sql.PythonForeachWriter@1)", None),
        ("", None),
    ],
)
def test_sinks_are_known_by_how_spark_describes_them(described: str, kind: str | None) -> None:
    assert kind_of_sink(described) == kind
    assert kind is None or kind in SAFE_SINKS


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sink": "kafka"}, "stay in the topic.*'overwrites'"),
        ({"sink": "foreachBatch"}, "say sink='overwrites'"),
        ({"sink": "iceberg"}, "fewer rows than the table has"),
        ({"sink": "my table"}, "'my table'.*give one of 'delta', 'files'"),
        ({"sink": None}, "give one of"),
        ({"sink": ["files"]}, "give one of"),
        ({"sink": "files", "keep": 1.0}, "between 0 and 1"),
        ({"sink": "files", "keep": True}, "between 0 and 1"),
        ({"sink": "files", "keep": float("nan")}, "between 0 and 1"),
        ({"sink": "files", "whole": 0}, "1 or more"),
        ({"sink": "files", "whole": 1.5}, "1 or more"),
    ],
)
def test_bad_terms_are_refused_where_they_are_given(given: dict[str, Any], said: str) -> None:
    with pytest.raises(hg.BadArgument, match=said):
        Rescue(**given)


def test_a_gate_takes_a_rescue_and_nothing_else_for_one() -> None:
    with pytest.raises(hg.BadArgument, match=r"rescue=True: give hg.Rescue"):
        hg.gate("g", rate=0.5, rescue=True)  # type: ignore[arg-type]
    with pytest.raises(hg.BadArgument, match=r"rescue= is the gate's"):
        hg.ValueClasses(("a",), rescue=Rescue("files"))  # type: ignore[call-arg]


def test_it_travels_as_json() -> None:
    rescue = Rescue("overwrites", keep=0.5, whole=1)
    assert Rescue.from_json(json.loads(json.dumps(rescue.to_json()))) == rescue
    assert Rescue.from_json(None) is None
    with pytest.raises(hg.SnapshotError):
        Rescue.from_json({"sink": "files", "hope": 1})
