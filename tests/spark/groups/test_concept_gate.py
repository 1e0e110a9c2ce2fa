"""`ConceptDriven` on Spark: every group of every window keeps its share, whatever the batch brings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import functions as F

import headgate as hg
from headgate.policies.by_group.counted import is_counted
from headgate.spark.loop.loop import ControlLoop
from headgate.spark.versions.aggregates import has_heaviest
from tests.harness.session_settings import FEW_ROWS, with_settings
from tests.spark.conftest import FileStream, forget_last_commit, records
from tests.spark.groups.skewed_rides import SCHEMA, filled
from tests.spark.groups.skewed_rides import policy as _policy
from tests.spark.groups.skewed_rides import rides as rides
from tests.spark.groups.skewed_rides import row as _row
from tests.spark.groups.skewed_rides import skewed as _skewed


def _routes(rows: list[Any]) -> Counter[str]:
    return Counter(row["route"] for row in rows)


@dataclass(frozen=True)
class Drawn:
    """What a gate kept of four batches; and of the last one, which ran again with other partitions."""

    stream: FileStream
    control: Path
    checkpoint: Path
    kept: dict[int, list[Any]]
    again: list[Any]

    @property
    def rows(self) -> list[Any]:
        return [row for batch in self.kept.values() for row in batch]


@pytest.fixture(scope="module")
def drawn(spark, tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    """One run for what is said of its rows, its ledger, its backfill and its replay."""
    folder = tmp_path_factory.mktemp("drawn")
    stream = filled(FileStream(spark, folder / "in", SCHEMA), batches=4)
    control, checkpoint, seen = folder / "control", folder / "checkpoint", []

    def sink(frame: Any, batch: int) -> None:
        ControlLoop.of(spark).drain()  # each batch meets what was learned from the one before
        seen[-1][batch] = frame.collect()

    def run() -> dict[int, list[Any]]:
        seen.append({})
        gate = hg.gate("fares", policy=_policy(), rate=0.05, control=control)
        writer = stream.frame().transform(gate).writeStream.foreachBatch(sink)
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        writer.start().awaitTermination()
        ControlLoop.of(spark).drain()
        return seen[-1]

    kept = run()
    forget_last_commit(checkpoint)
    with with_settings(spark, {"spark.sql.shuffle.partitions": "5"}):
        again = run()
    assert (sorted(kept), list(again)) == ([0, 1, 2, 3], [3])
    return Drawn(stream, control, checkpoint, kept, again[3])


def _every_group_is_there(kept: list[Any], stream: FileStream, control: Path) -> None:
    given = stream.batch().collect()
    everything = _routes(given)
    for route, rows in everything.items():
        weight = sum(row["_weight"] for row in kept if row["route"] == route)
        assert weight == pytest.approx(rows, abs=1e-3), route
    assert all(r.balanced for r in records(control, "fares"))
    panes = {(row["route"], row["dropoff"]) for row in given}
    assert {(row["route"], row["dropoff"]) for row in kept} == panes
    assert 0.04 < len(kept) / sum(everything.values()) < 0.075
    assert all(is_counted(row["_weight"]) or row["_weight"] == 1.0 for row in kept)


@pytest.mark.every_spark
@pytest.mark.matrix
def test_every_group_of_every_batch_keeps_rows_and_weights_add_up(drawn: Drawn) -> None:
    _every_group_is_there(drawn.rows, drawn.stream, drawn.control)


@pytest.mark.matrix
def test_every_group_of_every_partition_keeps_rows_and_weights_add_up(
    file_stream, run_all, control: Path
) -> None:
    stream = filled(file_stream(SCHEMA), batches=2)
    gate = hg.gate("fares", policy=_policy(counts="partition"), rate=0.05, control=control)
    _every_group_is_there(run_all(stream.frame().transform(gate)), stream, control)


def test_the_level_comes_from_the_batch_before_and_the_ledger_says_what_the_groups_were(
    drawn: Drawn,
) -> None:
    first, *later = records(drawn.control, "fares")
    assert first.plan.level is None
    levels = [r.plan.level for r in later]
    assert levels
    assert all(level is not None and level > 5 for level in levels)
    for record in (first, *later):
        assert record.found.measures["groups"] == 10
        assert record.found.measures["one_row_each"] == pytest.approx(10 / record.arrived)
        assert record.found.measures["groups_yielded"] == 0


def test_a_group_that_bursts_is_capped_in_the_same_batch_and_a_new_one_is_not_lost(
    file_stream, each_batch, control: Path
) -> None:
    stream, kept = file_stream(SCHEMA), []
    burst = [_row(20_000 + i, "burst") for i in range(8000)] + [_row(30_000, "new")]
    for rows in (_skewed(0, 2000), _skewed(10_000, 2000) + burst):
        stream.add(rows)
    gate = hg.gate("fares", policy=hg.ConceptDriven("route"), rate=0.05, control=control)
    each_batch(stream.frame().transform(gate), lambda frame, number: kept.extend(frame.collect()))
    assert records(control, "fares")[-1].plan.level is not None, (
        "made of what the first batch's report said"
    )
    found = _routes(kept)
    assert found["new"] == 1
    assert 5 <= found["burst"] <= 40, "kept like any other group, not 5 % of 8,000"
    assert sum(r["_weight"] for r in kept if r["route"] == "burst") == pytest.approx(8000, abs=0.1)


@pytest.mark.every_spark
@pytest.mark.matrix
def test_a_replayed_batch_keeps_the_same_rows_with_other_partitions(drawn: Drawn) -> None:
    """Killed before the commit, started with another number of shuffle partitions."""
    assert {row["id"] for row in drawn.again} == {row["id"] for row in drawn.kept[3]} != set()


def test_backfill_gives_the_shed_rows_of_a_drawing_gate(spark, drawn: Drawn) -> None:
    load = lambda paths: spark.read.schema(SCHEMA).json(paths)  # noqa: E731
    shed = hg.backfill(spark, "fares", drawn.control, hg.file_rows(load, drawn.checkpoint)).collect()
    ids, kept = [row["id"] for row in shed], {row["id"] for row in drawn.rows}
    assert len(ids) == len(set(ids))
    assert set(ids) | kept == {r["id"] for r in drawn.stream.batch().collect()}
    assert not set(ids) & kept
    assert set(shed[0].asDict()) == {"id", "route", "town", "fare", "dropoff", "_batch"}


@pytest.mark.parametrize("streaming", [True, False])
def test_nulls_are_groups_and_columns_do_not_mix(
    file_stream, run_all, control: Path, streaming: bool
) -> None:
    stream = file_stream(SCHEMA)
    rows = [_row(i, "a", town="b") for i in range(2000)]
    rows += [_row(3000, None, town="a"), _row(3001, "a", town=None), _row(3002, None, town=None)]
    rows += [{**_row(3003, "late"), "dropoff": None}]
    stream.add(rows)
    policy = _policy(by=("route", "town"))
    if streaming:
        kept = run_all(stream.frame().transform(hg.gate("g", policy=policy, rate=0.02, control=control)))
    else:
        kept = stream.batch().transform(hg.gate("g", policy=policy, rate=0.02)).collect()
    assert {3000, 3001, 3002, 3003} <= {row["id"] for row in kept}
    assert len(kept) < 60


def test_late_rows_are_drawn_in_their_own_pane(file_stream, run_all, control: Path) -> None:
    stream = file_stream(SCHEMA)
    stream.add(_skewed(0, 2000, minute=40))
    stream.add([*_skewed(10_000, 2000, minute=40), _row(50_000, "r0", minute=1)])
    kept = run_all(
        stream.frame().withWatermark("dropoff", "1 hour").transform(
            hg.gate("fares", policy=_policy(), rate=0.05, control=control)
        )
    )  # fmt: skip
    assert 50_000 in {row["id"] for row in kept}, "the only row of its pane, whatever r0 has elsewhere"


def test_holistic_aggregates_run_behind_the_gate_on_a_stream(
    spark, rides, run_all, control: Path
) -> None:
    calm = rides.frame().withWatermark("dropoff", "1 minute").transform(
        hg.gate("fares", policy=_policy(), rate=0.05, control=control)
    )  # fmt: skip
    window = F.window("dropoff", "30 minutes", "10 minutes")
    aggregates = calm.groupBy(window, "route").agg(
        F.median("fare").alias("median"),
        F.percentile("fare", 0.9).alias("p90"),
        F.collect_list("id").alias("ids"),
        F.approx_count_distinct("town").alias("towns"),
        hg.mean("fare").alias("mean"),
        hg.count().alias("count"),
    )
    with with_settings(spark, FEW_ROWS):
        found = run_all(aggregates, "complete")
    assert {row["route"] for row in found} == {f"r{k}" for k in range(10)}
    exact = rides.batch().groupBy(window, "route").agg(F.count(F.lit(1)).alias("n")).collect()
    counts = {(row["window"]["start"], row["route"]): row["n"] for row in exact}
    for row in found:
        assert row["count"]["estimate"] == counts[row["window"]["start"], row["route"]]
        assert row["count"]["stderr"] == 0.0


def test_an_aggregation_of_the_users_own_in_pandas_sees_weights(rides, control: Path) -> None:
    @F.pandas_udf("double")
    def weighted(fare: pd.Series, weight: pd.Series) -> float:
        return float((fare * weight).sum() / weight.sum())

    calm = rides.batch().transform(hg.gate("fares", policy=_policy(), rate=0.05))
    found = {r["route"]: r["m"] for r in calm.groupBy("route").agg(
        weighted("fare", "_weight").alias("m")).collect()}  # fmt: skip
    native = {r["route"]: r["m"]["estimate"] for r in calm.groupBy("route").agg(
        hg.mean("fare").alias("m")).collect()}  # fmt: skip
    assert found == pytest.approx(native)


@pytest.mark.parametrize("draw", ["fixed", "coin"])
def test_a_batch_frame_is_drawn_in_two_native_passes(rides, draw: str) -> None:
    frame = rides.batch()
    calm = frame.transform(hg.gate("fares", policy=_policy(draw=draw), rate=0.05))
    everything, kept = _routes(frame.collect()), calm.collect()
    weights = Counter[str]()
    for row in kept:
        weights[row["route"]] += row["_weight"]
    assert len(kept) == pytest.approx(0.05 * sum(everything.values()), rel=0.3)
    if draw == "fixed":
        assert {r: round(w, 3) for r, w in weights.items()} == {
            r: float(n) for r, n in everything.items()
        }
    else:
        assert sum(weights.values()) == pytest.approx(sum(everything.values()), rel=0.2)
        assert not any(is_counted(row["_weight"]) for row in kept)
    plan = calm._jdf.queryExecution().executedPlan().toString()
    assert "Python" not in plan
    assert "Arrow" not in plan


@pytest.mark.parametrize(
    "rule",  # senate is what the other tests have, and neyman asks for more than sizes
    ["neyman", *(pytest.param(r, marks=pytest.mark.long) for r in ("proportional", "congress", "sqrt"))],
)
def test_every_allocation_keeps_about_the_budget_on_a_stream(
    file_stream, run_all, control: Path, rule: str
) -> None:
    policy = _policy(allocation=rule, value="fare" if rule == "neyman" else None)
    stream = filled(file_stream(SCHEMA), batches=3)
    run_all(stream.frame().transform(hg.gate("fares", policy=policy, rate=0.1, control=control)))
    for record in records(control, "fares"):
        assert record.kept / record.arrived == pytest.approx(0.1, rel=0.25), record.batch


@pytest.mark.parametrize("rule", ["proportional", "congress", "sqrt"])
def test_every_allocation_keeps_about_the_budget_of_a_batch_frame(spark, rides, rule: str) -> None:
    with with_settings(spark, FEW_ROWS):
        frame = rides.batch()
        kept = frame.transform(hg.gate("fares", policy=_policy(allocation=rule), rate=0.1)).count()
        assert kept / frame.count() == pytest.approx(0.1, rel=0.25)


@pytest.mark.parametrize("overflow", ["exceed", "smallest", "random"])
@pytest.mark.parametrize("streaming", [True, False])
def test_more_groups_than_budget_is_told(
    spark,
    file_stream,
    each_batch,
    control: Path,
    overflow: str,
    streaming: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    stream = file_stream(SCHEMA)

    def add(batch: int) -> None:  # 300 groups of one row, 100 of seven: one row of each is 40 %
        first = 10_000 * batch
        rows = [_row(first + i, f"s{i}") for i in range(300)]
        rows += [_row(first + 1000 + i, f"l{i % 100}") for i in range(700)]
        stream.add(rows)

    policy = hg.ConceptDriven("route", overflow=overflow)
    if not streaming:
        for batch in range(3):
            add(batch)
        calm = stream.batch().transform(hg.gate("g", policy=policy, rate=0.05))
        kept = _routes(calm.collect())
        assert len(kept) == (400 if overflow == "exceed" else 150)
        assert ("250 groups without a row" in caplog.text) == (overflow != "exceed")
        if overflow == "random":
            total = calm.agg(hg.count().alias("n")).collect()[0]["n"]
            assert total["low"] < 3000 < total["high"], "the lucky stand for the others"
        if overflow == "smallest":
            assert sum(name.startswith("l") for name in kept) == 100
        return
    for batch in range(2):
        add(batch)
    calm = stream.frame().transform(hg.gate("g", policy=policy, rate=0.05, control=control))
    with with_settings(spark, FEW_ROWS):  # the second plan is made of what the first batch's report said
        each_batch(calm, lambda kept, number: kept.write.format("noop").mode("append").save())
    last = records(control, "g")[-1]
    assert last.found.measures["one_row_each"] == pytest.approx(0.4)
    if overflow == "exceed":
        assert last.kept == 400
        assert last.found.measures["groups_yielded"] == 0
    else:
        assert last.kept <= 110
        assert last.found.measures["groups_yielded"] >= 290
        # A Spark that cannot find the largest groups (4.0) tells their number alone.
        assert len(last.found.groups) == (20 if has_heaviest(spark) else 0)
        assert all(name.startswith("yielded ") for name in last.found.groups)
    assert "more groups than budget" in last.why


@pytest.mark.matrix
@pytest.mark.needs_spark("4.1")
def test_a_plan_from_history_lists_the_heavy_groups_and_keeps_the_rest(
    rides, run_all, control: Path
) -> None:
    policy = hg.ConceptDriven("route", counts="history")
    kept = run_all(rides.frame().transform(hg.gate("fares", policy=policy, rate=0.1, control=control)))
    last = records(control, "fares")[-1]
    assert 1 < len(last.plan.exceptions) <= 10
    assert last.plan.default == 1.0
    rates = sorted(last.plan.exceptions.values())
    assert rates[0] < 0.05 < 0.9 < rates[-1], "heavy groups are cut, rare ones are not"
    assert last.kept / last.arrived == pytest.approx(0.1, rel=0.3)
    assert {row["route"] for row in kept} == {f"r{k}" for k in range(10)}


def test_an_accuracy_alone_says_how_much(spark, rides, run_all, control: Path) -> None:
    wish = hg.Accuracy("fare", within=0.2, least_rows=5)
    policy = hg.ConceptDriven("route", accuracy=wish)
    with with_settings(spark, FEW_ROWS):
        kept = run_all(rides.frame().transform(hg.gate("fares", policy=policy, control=control)))
    frame = rides.batch()
    assert 0.02 < len(kept) / frame.count() < 0.6
    calm = frame.transform(hg.gate("fares", policy=policy))
    exact = {r["route"]: r["m"] for r in frame.groupBy("route").agg(F.mean("fare").alias("m")).collect()}
    found = calm.groupBy("route").agg(hg.mean("fare").alias("m")).collect()
    wrong = [r["route"] for r in found if abs(r["m"]["estimate"] / exact[r["route"]] - 1) > 0.2]
    assert len(wrong) <= 1, wrong
    assert len(calm.collect()) < len(kept), (
        "four batches each reach the accuracy; one batch needs it once"
    )


def test_a_window_that_many_batches_fill_needs_its_rows_once(
    file_stream, each_batch, control: Path
) -> None:
    """A batch of half a minute owes a sixtieth of what the window needs."""
    stream = file_stream(SCHEMA)
    for batch in range(5):
        rows = [_row(1000 * batch + i, "r", minute=30 * batch / 60 + i / 1000 / 2) for i in range(1000)]
        stream.add(rows)
    wish = hg.Accuracy("fare", within=0.05)
    policy = hg.ConceptDriven("route", window="30 minutes", time="dropoff", accuracy=wish)
    gated = stream.frame().transform(hg.gate("fares", policy=policy, control=control))
    each_batch(gated, lambda frame, _: frame.write.format("noop").mode("append").save())
    # cv of 0..9 is 0.64: (1.96 * 0.64 / 0.05)**2 = 630 rows a window, a sixtieth a batch.
    kept = [record.kept for record in records(control, "fares")]
    assert all(300 < rows < 450 for rows in kept[:2]), (
        "how much of a window a batch is, is not known yet"
    )
    assert all(8 <= rows <= 14 for rows in kept[2:]), kept


def test_an_idle_gate_keeps_everything_and_learns_the_groups(
    file_stream, run_all, control: Path
) -> None:
    stream = filled(file_stream(SCHEMA), batches=2)
    gate = hg.gate("fares", policy=_policy(), hold="1 hour", control=control)
    kept = run_all(stream.frame().transform(gate))
    assert len(kept) == stream.batch().count()
    assert {row["_weight"] for row in kept} == {1.0}
    assert all(r.found.measures["groups"] == 10 and r.shed == 0 for r in records(control, "fares"))


def test_a_crowd_of_groups_is_warned_of(rides, caplog: pytest.LogCaptureFixture) -> None:
    frame = rides.batch().withColumn("route", F.col("id").cast("string"))
    with caplog.at_level("WARNING", "headgate"):
        frame.transform(hg.gate("fares", policy=_policy(), rate=0.05)).count()
    assert "as many groups as rows" in caplog.text


def test_an_empty_batch_frame(rides) -> None:
    frame = rides.batch().where("id < 0")
    assert frame.transform(hg.gate("fares", policy=_policy(), rate=0.05)).count() == 0


def test_two_gates_in_a_row_multiply_their_weights(rides) -> None:
    calm = rides.batch().transform(hg.gate("one", policy=_policy(), rate=0.5))
    calm = calm.transform(hg.gate("two", rate=0.5))
    weights = {row["_weight"] for row in calm.collect()}
    assert not any(is_counted(w) for w in weights if w > 2.0)
    assert max(weights) > 3.0


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"by": "rout"}, "no such column"),
        ({"by": "tags"}, "maps"),
        ({"time": "fare"}, "not a timestamp"),
        ({"time": "when"}, "no such column"),
        ({"allocation": "neyman", "value": "town"}, "not a number"),
        ({"accuracy": hg.Accuracy("town", within=0.02)}, "not a number"),
        ({"accuracy": hg.Accuracy("far", within=0.02)}, "no such column"),
    ],
)
def test_columns_that_cannot_serve_are_refused_at_the_call(rides, given: Any, says: str) -> None:
    frame = rides.frame().withColumn("tags", F.create_map("route", "town"))
    with pytest.raises((hg.BadArgument, hg.UnknownColumn), match=says):
        frame.transform(hg.gate("fares", policy=_policy(**given), rate=0.5))


def test_real_data_replayed_through_a_stream_has_the_note_s_accuracy(spark, tmp_path: Path) -> None:
    """Google's job events, 2 % asked for: no job missing, next to no error, little more than asked."""
    from headgate_lab.figures.cod.data import source_of, stream_of
    from headgate_lab.figures.cod.policies import OURS
    from headgate_lab.figures.cod.replay import replay

    source = source_of("gcm_real_job")
    if source.made:
        pytest.skip("the task events are not beside the project")
    found = replay(spark, stream_of(source), OURS, 0.02, tmp_path)
    assert found["missing_share"] == 0.0
    assert found["relative_error"] < 0.001
    assert found["kept_share"] < 1.3 * 0.02


def test_equal_rows_are_drawn_one_by_one(spark, control: Path, file_stream, run_all) -> None:
    """Thousands of equal rows under one hash would be kept or shed together, and bias every mean."""
    stream = file_stream(SCHEMA)
    same, other = {**_row(1, "r"), "fare": 1.0}, {**_row(2, "r"), "fare": 10.0}
    stream.add([same] * 2700 + [other] * 300)
    kept = run_all(
        stream.frame().transform(
            hg.gate("fares", policy=hg.ConceptDriven("route"), rate=0.3, control=control)
        )
    )
    assert len(kept) == pytest.approx(900, rel=0.05)
    mean = sum(row["fare"] * row["_weight"] for row in kept) / sum(row["_weight"] for row in kept)
    assert mean == pytest.approx(1.9, rel=0.12)


@pytest.mark.parametrize("odd", ["NaN", "Infinity"])
def test_what_is_no_finite_number_does_not_hide_the_spread_of_its_group(rides, odd: str) -> None:
    frame = rides.batch().withColumn("fare", F.expr(f"if(id = 7, double('{odd}'), fare)"))
    policy = hg.ConceptDriven("route", accuracy=hg.Accuracy("fare", within=0.1))
    kept = _routes(frame.transform(hg.gate("fares", policy=policy)).collect())
    assert kept["r0"] > 100


def test_groups_inside_structs_are_told_apart_by_their_nulls(rides) -> None:
    frame = rides.batch().where("route = 'r0'")
    frame = frame.withColumn("pair", F.expr("if(id = 5, struct(null, 1), struct(1, null))"))
    kept = frame.transform(hg.gate("g", policy=hg.ConceptDriven("pair"), rate=0.01)).collect()
    assert 5 in {row["id"] for row in kept}
