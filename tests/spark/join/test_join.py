"""`hg.join` on real streams, against a join by brute force."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import headgate as hg
from headgate.spark.join.call import ROCKSDB
from headgate.spark.loop.loop import ControlLoop
from headgate.store.ledger.audit import audit
from headgate.store.ledger.records import Record
from tests.harness.late_worker import run_stateful
from tests.harness.session_settings import with_settings
from tests.spark.conftest import FileStream, forget_last_commit, records

SETS = "id bigint, at timestamp, items array<bigint>, topic string, worth double"
START = datetime(2026, 1, 1, tzinfo=UTC)
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
DEFAULT = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
#: Behind the last batch Spark runs one without rows where a watermark has moved. It costs as much as
#: another, and would be the one that runs again. Joins with it: `tests/spark/loop/test_namesakes.py`.
JOINS = {PROVIDER: ROCKSDB[1], "spark.sql.streaming.noDataMicroBatches.enabled": "false"}


@pytest.fixture(autouse=True)
def state_store(spark: SparkSession) -> Iterator[None]:
    """The join needs RocksDB; other tests keep what they had."""
    with with_settings(spark, JOINS):
        yield


def _at(second: float) -> str:
    return (START + timedelta(seconds=second)).isoformat().replace("+00:00", "Z")


def _rows(
    rng: np.random.Generator, n: int, first_id: int, since: float, until: float
) -> list[dict[str, Any]]:
    found = []
    for i, second in enumerate(np.sort(rng.uniform(since, until, n))):
        items = rng.choice(40, size=int(rng.integers(0, 7)), replace=False, p=_popular(40))
        found.append(
            {
                "id": first_id + i,
                "at": _at(float(np.round(second, 3))),
                "items": [int(x) for x in items],
                "topic": str(rng.choice(["a", "b", "c"])),
                "worth": float(rng.choice([1.0, 5.0])),
            }
        )
    return found


def _popular(n: int) -> np.ndarray:
    weights = 1.0 / np.arange(1, n + 1)
    return weights / weights.sum()


def _second(row: dict[str, Any]) -> float:
    return (datetime.fromisoformat(row["at"].replace("Z", "+00:00")) - START).total_seconds()


def _brute(
    left: list[dict[str, Any]],
    right: list[dict[str, Any]],
    test: Callable[[dict[str, Any], dict[str, Any]], bool],
    within: tuple[float, float],
) -> list[tuple[int, int]]:
    """Every pair, in Python: a left row waits within[0] for right ones, a right row within[1].

    Times are read and sets made once a row, and not once a pair: there are millions of pairs.
    """
    found = []
    ours, theirs = ([(_second(row), _with_sets(row)) for row in side] for side in (left, right))
    for (at, a), (then, b) in itertools.product(ours, theirs):
        if -within[1] - 1e-9 <= then - at <= within[0] + 1e-9 and test(a, b):
            found.append((a["id"], b["id"]))
    return sorted(found)


def _with_sets(row: dict[str, Any]) -> dict[str, Any]:
    if "items" not in row:
        return row
    return {**row, "items": frozenset(row["items"]) - {None}}


def _overlap(k: int) -> Callable[[dict[str, Any], dict[str, Any]], bool]:
    return lambda a, b: len(a["items"] & b["items"]) >= k


class Streams:
    """Two streams of files, and all rows that were put into them."""

    def __init__(self, file_stream: Callable[..., Any], seed: int = 1, schema: str = SETS) -> None:
        self.left, self.right = file_stream(schema, "left"), file_stream(schema, "right")
        self.rng = np.random.default_rng(seed)
        self.rows: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])

    def add(
        self, n: int, since: float, until: float, more: Sequence[list[dict[str, Any]]] = ((), ())
    ) -> None:
        """One batch for each side; more of them, which are in no pair, are not among its rows."""
        for side, stream in enumerate((self.left, self.right)):
            rows = _rows(self.rng, n, 100_000 * side + len(self.rows[side]), since, until)
            self.rows[side].extend(rows)
            stream.add([*rows, *more[side]])

    def frames(self, delay: str = "1 minute") -> tuple[DataFrame, DataFrame]:
        """Both, with watermarks."""
        return (
            self.left.frame().withWatermark("at", delay),
            self.right.frame().withWatermark("at", delay),
        )


@pytest.fixture
def streams(file_stream: Callable[..., Any]) -> Streams:
    return _filled(Streams(file_stream), batches=3)


def _filled(streams: Streams, batches: int) -> Streams:
    for batch in range(batches):
        streams.add(120, 10.0 * batch, 10.0 * (batch + 1))
    return streams


def _pairs(rows: list[Any]) -> list[tuple[int, int]]:
    return sorted((r["id_left"], r["id_right"]) for r in rows)


CONDITIONS = {
    "overlap": (hg.overlap("items", at_least=2), _overlap(2)),
    "subset": (hg.subset("items"), lambda a, b: a["items"] <= b["items"]),
    "superset": (hg.superset("items"), lambda a, b: a["items"] >= b["items"]),
    "equal": (hg.equal("topic"), lambda a, b: a["topic"] == b["topic"]),
    "predicate": (
        hg.predicate(
            lambda a, b: (a["worth"] > b["worth"]) & (a["id"] % 3 == b["id"] % 3), ["worth", "id"]
        ),
        lambda a, b: a["worth"] > b["worth"] and a["id"] % 3 == b["id"] % 3,
    ),
}


#: A Spark query each: the others differ in what is compared, which tests without Spark show; and sets
#: that overlap are compared in full across a restart, below.
_EVERY_TIME = ("predicate",)


def _is_the_full_join(found: list[tuple[int, int]], wanted: Any, control: Path) -> None:
    assert found == wanted
    assert len(found) == len(set(found)) > 50, "each pair once"
    kept = records(control, "join")
    assert all(r.kept == r.arrived and r.found.measures["completeness"] == 1.0 for r in kept)
    assert sum(r.found.measures["pairs"] for r in kept) == len(found)
    assert all(x.balanced and x.complete for x in audit(control))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in _EVERY_TIME else pytest.mark.long, id=name)
        for name in CONDITIONS
    ],
)
def test_below_capacity_the_result_is_the_full_join(streams, run_all, control: Path, name: str) -> None:
    condition, test = CONDITIONS[name]
    left, right = streams.frames()
    joined = hg.join(left, right, on=condition, within=("15 seconds", "6 seconds"), time="at",
                     budget="2 cores", hold="5 minutes", control=control)  # fmt: skip
    _is_the_full_join(_pairs(run_all(joined)), _brute(*streams.rows, test, (15.0, 6.0)), control)


@pytest.mark.matrix
def test_inner_products_of_maps_and_of_vectors(file_stream, run_all, control: Path) -> None:
    schema = "id bigint, at timestamp, weights map<string,double>, vector array<double>"
    streams = Streams(file_stream, schema=schema)
    rng = np.random.default_rng(3)
    rows: list[list[dict[str, Any]]] = [[], []]
    for batch in range(2):
        for side, stream in enumerate((streams.left, streams.right)):
            new = []
            for i in range(60):
                words = rng.choice(12, size=3, replace=False)
                weights = {f"w{w}": float(np.round(rng.uniform(0, 1), 3)) for w in words}
                vector = [float(x) for x in np.round(rng.normal(size=4), 3)]
                number = 100_000 * side + 60 * batch + i
                new.append(
                    {"id": number, "at": _at(10 * batch + i / 6), "weights": weights, "vector": vector}
                )
            rows[side].extend(new)
            stream.add(new)

    def sparse(a: dict[str, Any], b: dict[str, Any]) -> bool:
        return sum(v * b["weights"].get(k, 0.0) for k, v in a["weights"].items()) >= 0.7001

    def dense(a: dict[str, Any], b: dict[str, Any]) -> bool:
        return float(np.dot(a["vector"], b["vector"])) >= 2.00005

    for name, column, threshold, test in (
        ("sparse", "weights", 0.7001, sparse),
        ("dense", "vector", 2.00005, dense),
    ):
        left, right = streams.frames()
        joined = hg.join(left, right, on=hg.inner_product(column, at_least=threshold), name=name,
                         within="20 seconds", time="at", hold="5 minutes", control=control)  # fmt: skip
        found = _pairs(run_all(joined, checkpoint=name))
        assert found == _brute(rows[0], rows[1], test, (20.0, 20.0))
        assert found


@dataclass(frozen=True)
class Budgeted:
    """What a join with a fixed budget found, by batch; and of the last one, which ran again."""

    streams: Streams
    found: dict[int, list[tuple[int, int]]]
    again: list[tuple[int, int]]
    kept: list[Record]


def _with_budget(streams: Streams, control: Path, **more: Any) -> DataFrame:
    left, right = streams.frames()
    return hg.join(left, right, on=hg.overlap("items", at_least=3), within="20 seconds", time="at",
                   budget=12_000, control=control, basic_window="5 seconds", seed=5, **more)  # fmt: skip


@pytest.fixture(scope="module")
def budgeted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Budgeted:
    """One run for what is said of the choice: four batches, and the last of them once more."""
    folder = tmp_path_factory.mktemp("budgeted")
    streams = Streams(lambda schema, name: FileStream(spark, folder / name, schema))
    _filled(streams, batches=4)
    control, checkpoint, seen = folder / "control", folder / "cp", []

    def run() -> dict[int, list[tuple[int, int]]]:
        seen.append({})
        writer = _with_budget(streams, control).writeStream.foreachBatch(
            lambda frame, batch: seen[-1].update({batch: _pairs(frame.collect())})
        )
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        run_stateful(writer.start, checkpoint)
        ControlLoop.of(spark).drain()
        return seen[-1]

    with with_settings(spark, JOINS):
        found = run()
        kept = records(control, "join")
        last = forget_last_commit(checkpoint)
        again = run()
    assert list(again) == [last] == [max(found)]
    return Budgeted(streams, found, again[last], kept)


def test_a_fixed_budget_makes_the_comparisons_that_pay(budgeted: Budgeted) -> None:
    full = set(_brute(*budgeted.streams.rows, _overlap(3), (20.0, 20.0)))
    found = {pair for pairs in budgeted.found.values() for pair in pairs}
    kept = budgeted.kept
    assert found < full, "a part of the full join, and nothing else"
    made, wanted = sum(r.kept for r in kept), sum(r.arrived for r in kept)
    assert all(r.kept <= 1.1 * 12_000 for r in kept)
    assert made < 0.5 * wanted
    assert len(found) / len(full) > 1.3 * made / wanted, "better than comparisons at random"
    estimate = len(found) + sum(r.found.measures["pairs_missed"] for r in kept)
    assert 0.5 * len(full) < estimate < 2.0 * len(full)
    last = kept[-1]
    assert last.state == "shedding"
    assert 0.0 < last.found.measures["completeness"] < 1.0
    assert last.found.measures["completeness_error"] > 0.0
    assert last.found.windows
    assert sum(w[1] for w in last.found.windows) == last.found.measures["pairs"]


@pytest.mark.every_spark
@pytest.mark.matrix
def test_a_replayed_batch_makes_the_same_comparisons(budgeted: Budgeted) -> None:
    """In another query, with the same plan and seed: the choice follows no clock."""
    assert budgeted.again == budgeted.found[max(budgeted.found)] != []
    last = budgeted.kept[-1]
    assert last.kept < last.arrived, "and it was one"


def test_utility_moves_the_choice_to_what_is_worth_more(
    budgeted: Budgeted, run_all, control: Path
) -> None:
    streams = budgeted.streams
    worth = {r["id"]: r["worth"] for side in streams.rows for r in side}
    plain = [pair for pairs in budgeted.found.values() for pair in pairs]
    found = _pairs(run_all(_with_budget(streams, control, utility="worth", name="worth")))
    shares = [np.mean([max(worth[a], worth[b]) == 5.0 for a, b in each]) for each in (found, plain)]
    assert shares[0] > shares[1]
    last = records(control, "worth")[-1]
    assert last.found.measures["utility"] > last.found.measures["pairs"]


def test_late_rows_are_counted_and_not_joined_and_windows_leave_the_state(
    file_stream, run_all, control: Path
) -> None:
    """With lists of matches, which say the same as pairs."""
    streams = Streams(file_stream)
    for batch in range(6):
        # Behind the watermark, which is at 179 s then, and close to rows that are in the state still.
        late = _rows(streams.rng, 20, 900, 150.0, 160.0) if batch == 4 else []
        streams.add(40, 60.0 * batch, 60.0 * (batch + 1), (late, []))
    left, right = streams.frames("1 second")
    joined = hg.join(left, right, on=hg.overlap("items", at_least=1), within="60 seconds", time="at",
                     hold="5 minutes", output="lists", control=control)  # fmt: skip
    lists = run_all(joined)
    found = sorted((row["id"], match["id"]) for row in lists for match in row["matches"])
    assert len(lists) < len(found)
    kept = records(control, "join")
    assert [r.found.measures["late_rows"] for r in kept] == [0, 0, 0, 0, 20, 0]
    assert found == _brute(*streams.rows, _overlap(1), (60.0, 60.0))
    blocks = [r.found.measures["blocks"] for r in kept]
    # Two minutes of two streams in windows of 3 s, at two shards of which one side is at both.
    assert blocks[-1] <= 1.2 * max(blocks[2:4])


def test_nulls_and_empty_sets_strings_times_of_other_names_and_suffixes(
    file_stream, run_all, control: Path
) -> None:
    left = file_stream("id bigint, published timestamp, keywords array<string>", "a")
    right = file_stream("id bigint, `seen.at` timestamp, tags array<string>", "b")
    left.add([
        {"id": 1, "published": _at(0), "keywords": None},
        {"id": 2, "published": None, "keywords": ["covid", "ä"]},
        {"id": 3, "published": _at(0), "keywords": []},
        {"id": 4, "published": _at(0), "keywords": ["covid", None, "covid", "win", "ä"]},
        {"id": 5, "published": _at(0), "keywords": ["covid", "covid", None]},
    ])  # fmt: skip
    right.add([{"id": 9, "seen.at": _at(5), "tags": ["ä", "covid", None]}])
    joined = hg.join(
        left.frame().withWatermark("published", "1 minute"),
        right.frame().withWatermark("`seen.at`", "1 minute"),
        on=hg.overlap("keywords", "tags", at_least=2),
        within="1 minute",
        time=("published", "seen.at"),
        suffixes=("_bbc", "_fox"),
        control=control,
    )
    (row,) = run_all(joined)  # duplicates and nulls are no common items
    assert (row["id_bbc"], row["id_fox"], row["keywords"], row["tags"]) == (
        4,
        9,
        ["covid", None, "covid", "win", "ä"],
        ["ä", "covid", None],
    )
    assert row["published"].astimezone(UTC) == START


def test_counts_say_the_same_as_pairs_also_of_nulls_and_of_duplicates(
    file_stream, run_all, control: Path
) -> None:
    """Sets of numbers, which reach the kernels as they are."""
    streams, base = Streams(file_stream), {"topic": "a", "worth": 1.0}
    streams.add(120, 0.0, 10.0)
    nothing = [
        (None, _at(15)),
        ([0, 1], None),
        ([], _at(15)),
        ([0, 0, 0], _at(15)),
        ([0, None], _at(15)),
    ]
    some = [
        [{"id": 900, "at": _at(15), "items": [0, None, 0, 1], **base}],
        [{"id": 100_900, "at": _at(16), "items": [1, 0, None], **base}],
    ]
    unmatched = [
        {"id": 901 + i, "at": at, "items": items, **base} for i, (items, at) in enumerate(nothing)
    ]
    streams.add(120, 10.0, 20.0, ([*some[0], *unmatched], some[1]))
    for rows, new in zip(streams.rows, some, strict=True):
        rows.extend(new)
    left, right = streams.frames()
    joined = hg.join(left, right, on=hg.overlap("items", at_least=2), within="10 seconds", time="at",
                     output="counts", control=control)  # fmt: skip
    found = run_all(joined)
    assert sum(r["pairs"] for r in found) == len(_brute(*streams.rows, _overlap(2), (10.0, 10.0)))
    assert all(r["estimate"] == r["pairs"] and r["stderr"] == 0.0 for r in found)
    assert all(r["completeness"] == 1.0 for r in found)


@pytest.mark.matrix
def test_a_restart_goes_on_with_windows_pay_offs_and_the_store_of_its_checkpoint(
    file_stream, spark, run_all, control: Path, tmp_path: Path
) -> None:
    """Below capacity, so the result of both runs is the full join; between them another query runs."""
    streams, checkpoint, sink = Streams(file_stream), tmp_path / "cp", tmp_path / "sink"

    def make(*columns: str) -> DataFrame:
        left, right = streams.frames()
        left, within = left.select(*columns or "*"), ("30 seconds", "12 seconds")
        return hg.join(left, right, on=hg.overlap("items", at_least=2), within=within, time="at",
                       budget="2 cores", hold="5 minutes", control=control)  # fmt: skip

    def run(joined: DataFrame) -> list[tuple[int, int]]:
        writer = joined.writeStream.format("parquet").option("path", str(sink))
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        run_stateful(writer.start, checkpoint)
        ControlLoop.of(spark).drain()
        return _pairs(spark.read.parquet(str(sink)).collect())

    streams.add(80, 0.0, 10.0)
    run(make())
    later = make()
    spark.conf.set(PROVIDER, DEFAULT)
    counted = streams.left.frame().groupBy().count()
    assert run_all(counted, "complete", "counted")[0]["count"] == 80
    assert list((tmp_path / "counted" / "state").rglob("*.delta")), "not RocksDB"
    streams.add(80, 10.0, 20.0)
    streams.add(80, 20.0, 30.0)
    found = run(later)
    _is_the_full_join(found, _brute(*streams.rows, _overlap(2), (30.0, 12.0)), control)
    kept = records(control, "join")
    assert sum(r.found.measures["left_rows"] for r in kept) == len(streams.rows[0])
    assert sum(r.found.measures["right_rows"] for r in kept) == len(streams.rows[1])
    assert max(r.found.measures["blocks"] for r in kept[1:]) > kept[0].found.measures["blocks"]
    streams.add(20, 30.0, 31.0)
    spark.conf.set(*ROCKSDB)
    with pytest.raises(StreamingQueryException, match="windows of another join"):
        run(make("id", "at", "items", "worth", "topic"))  # the stored rows have the topic in front


BAD = {
    "a set is not a string": ({"on": hg.overlap("topic", at_least=1)}, "is a string, not a set"),
    "equality of sets": ({"on": hg.equal("items")}, "single values"),
    "a product of strings": ({"on": hg.inner_product("topic", at_least=1)}, "map from item to weight"),
    "no such column": ({"on": hg.overlap("nothing", at_least=1)}, "no such column"),
    "no condition": ({"on": "items"}, "no condition"),
    "negative window": ({"within": "-5 seconds"}, "within"),
    "empty basic window": ({"basic_window": "0 seconds"}, "basic_window"),
    "basic window too long": ({"basic_window": "2 hours"}, "longer than the window"),
    "time is no timestamp": ({"time": "id"}, "not a timestamp"),
    "unknown output": ({"output": "json"}, "one of 'pairs', 'lists', 'counts'"),
    "outer join": ({"how": "left"}, "cannot be told from"),
    "budget in words": ({"budget": "two cores"}, '"2 cores"'),
    "negative budget": ({"budget": -1}, "above 0"),
    "negative target": ({"hold": "-2 seconds"}, "hold"),
    "utility of an array": ({"utility": "items"}, "column of numbers"),
    "equal suffixes": ({"suffixes": ("", "")}, "two columns named"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_use_is_told_at_the_call(streams, control: Path, what: str) -> None:
    changes, message = BAD[what]
    left, right = streams.frames()
    given: dict[str, Any] = {
        "on": hg.overlap("items", at_least=2),
        "within": "1 hour",
        "time": "at",
        "control": control,
    }
    with pytest.raises(hg.HeadgateError, match=message):
        hg.join(left, right, **{**given, **changes})


def test_the_sessions_state_store_is_not_touched(streams, spark, control: Path) -> None:
    """The setting is the whole session's: the user's to choose, and told so."""
    spark.conf.set(PROVIDER, DEFAULT)
    left, right = streams.frames()
    with pytest.raises(hg.BadArgument, match=r"needs RocksDB: spark\.conf\.set\(.*RocksDBStateStore"):
        hg.join(left, right, on=hg.overlap("items", at_least=2), within="1 hour", time="at",
                control=control)  # fmt: skip
    assert spark.conf.get(PROVIDER) == DEFAULT


def test_a_stream_without_a_watermark_is_refused(streams, control: Path) -> None:
    left, _ = streams.frames()
    with pytest.raises(hg.BadArgument, match=r"right.withWatermark\(\"at\""):
        hg.join(left, streams.right.frame(), on=hg.overlap("items", at_least=2), within="1 hour",
                time="at", control=control)  # fmt: skip


def test_batch_frames_are_refused(streams, control: Path) -> None:
    left, _ = streams.frames()
    with pytest.raises(hg.WrongKindOfFrame, match="not a stream"):
        hg.join(left, streams.right.batch(), on=hg.overlap("items", at_least=2), within="1 hour",
                time="at", control=control)  # fmt: skip


def test_columns_of_different_kinds_are_refused(streams, spark, control: Path) -> None:
    left, right = streams.frames()
    words = right.withColumn("items", F.transform("items", lambda x: x.cast("string")))
    with pytest.raises(hg.BadArgument, match="cast one"):
        hg.join(left, words, on=hg.overlap("items", at_least=2), within="1 hour", time="at",
                control=control)  # fmt: skip
