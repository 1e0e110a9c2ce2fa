"""`hg.sic`: conserved through every operator, in batches and in streams, as the plain code has it."""

from __future__ import annotations

import functools
import json
import math
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import headgate as hg
from headgate.errors import BadArgument, UnknownColumn
from headgate.spark import sic
from headgate_lab.papers.themis.sic import derived_sic, window_sics
from tests.harness.session_settings import FEW_ROWS, with_settings

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "at timestamp, id string, value double, tags array<string>, _sic double"
SPAN = 12.0


def near(value: Any) -> Any:
    return pytest.approx(value, rel=1e-12, abs=1e-15)


def made(count: int, seed: int) -> list[dict[str, Any]]:
    """Readings of 4 ids with unequal worth; id `d` only in the first half; some values are equal."""
    rows = []
    for i in range(count):
        at = round(i * SPAN / count, 3)
        name = "abcd"[(i * 7 + seed) % (4 if at < SPAN / 2 else 3)]
        value = None if i % 9 == seed else float((i * 37 + seed) % 11)
        rows.append({"at": at, "id": name, "value": value, "tags": ["x", "y", "z"][: i % 4]})
        rows[-1]["_sic"] = (1 + i % 5) / 400
    return rows


ROWS, RIGHT = made(120, seed=1), made(72, seed=2)
ROWS[3]["id"] = RIGHT[3]["id"] = None
for _row in RIGHT[::5]:
    _row["id"] = "stranger"
WINDOWS = [(4, 2), (5, 2), (3, None), (1.5, 0.4), (1, 3)]


def _in_windows(frame: DataFrame, size: float = 2) -> DataFrame:
    return sic.windows(frame, "at", size)


def _two_outputs(frame: DataFrame) -> DataFrame:
    none = sic.shared(F.count_if(F.col("value") > 1e9)).alias("none")
    found = frame.groupBy(F.window("at", "3 seconds")).agg(
        F.min("value").alias("low"), F.max("value").alias("high"), sic.shared(2), none
    )
    return found.select("window", F.explode(F.array("low", "high")).alias("value"), "_sic", "none")


def _filtered(frame: DataFrame) -> DataFrame:
    doubled = frame.where("value >= 5").withColumn("value", F.col("value") * 2)
    return doubled.groupBy(F.window("at", "3 seconds")).agg(sic.total())


def _conditional(frame: DataFrame) -> DataFrame:
    large = F.expr("avg(value) FILTER (WHERE value >= 5)").alias("large")
    return frame.groupBy(F.window("at", "3 seconds")).agg(large, sic.total())


def _joined(alone: str) -> Callable[[DataFrame, DataFrame], DataFrame]:
    return lambda a, b: sic.join(_in_windows(a), _in_windows(b.drop("tags")), on="id", alone=alone)


def _slid(size: float, slide: float | None) -> Callable[[DataFrame, DataFrame], DataFrame]:
    return lambda a, b: sic.windows(a, "at", size, slide).groupBy("window").agg(sic.total())


QUERIES: dict[str, Callable[[DataFrame, DataFrame], DataFrame]] = {
    "aggregate": lambda a, b: a.groupBy(F.window("at", "3 seconds"), "id").agg(
        F.avg("value"), sic.total()
    ),
    "two outputs": lambda a, b: _two_outputs(a),
    **{f"windows {size} {slide}": _slid(size, slide) for size, slide in WINDOWS},
    "top 3": lambda a, b: sic.top(_in_windows(a), 3, "value"),
    "least 3": lambda a, b: sic.top(_in_windows(a), 3, "value", least=True),
    "top 100": lambda a, b: sic.top(_in_windows(a), 100, "value"),
    "join shared": _joined("shared"),
    "join lost": _joined("lost"),
    "explode": lambda a, b: sic.explode(a, "tags", "tag"),
    "distinct": lambda a, b: sic.distinct(_in_windows(a, 3), ["window", "id"]),
    "filter": lambda a, b: _filtered(a),
    "conditional": lambda a, b: _conditional(a),
    "union": lambda a, b: a.unionByName(b).selectExpr("at", "value * 2 AS twice", "_sic"),
}


#: Streams are slow; these are the same plans as others with other numbers, or Spark's own.
ONLY_BATCHES = ("windows 4 2", "windows 3 None", "windows 1.5 0.4", "least 3", "top 100", "filter")


def _told(frames: dict[str, DataFrame]) -> DataFrame:
    """All results in one frame, so that one stream serves every test."""
    parts = [f.select(F.lit(name).alias("query"), F.to_json(F.struct("*")).alias("row"))
             for name, f in frames.items()]  # fmt: skip
    return functools.reduce(DataFrame.union, parts)


@pytest.fixture(scope="module", autouse=True)
def _small(spark: SparkSession) -> Iterator[None]:
    with with_settings(spark, FEW_ROWS):
        yield


@pytest.fixture(scope="module")
def results(
    spark: SparkSession, _small: None, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[list[dict[str, Any]]]]:
    """What every query gives: as a batch, and as a stream of two files with windows across them."""
    folder = tmp_path_factory.mktemp("sic")
    batch, stream = [], []
    for name, rows in (("left", ROWS), ("right", RIGHT)):
        half = len(rows) // 2 - 3
        # Lets the windows before it close; no query may filter it out, or time stands still.
        far = {"at": 1002.0, "id": "far", "value": 10.0, "tags": ["far"], "_sic": 0.0}
        (folder / name).mkdir()
        for number, part in enumerate((rows[:half], [*rows[half:], far])):
            path = folder / name / f"{number}.json"
            path.write_text("".join(json.dumps(stored(row)) + "\n" for row in part))
            os.utime(path, (number + 1, number + 1))  # read in this order
        batch.append(spark.read.schema(SCHEMA).json(str(folder / name)).where("not id <=> 'far'"))
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        stream.append(reader.json(str(folder / name)))
    found: dict[str, list[list[dict[str, Any]]]] = {name: [[], []] for name in QUERIES}
    for row in _told({name: q(*batch) for name, q in QUERIES.items()}).collect():
        found[row.query][0].append(json.loads(row.row))
    # A watermark for each: Spark loses one that comes into two unions of the same query.
    marked = {
        name: query(*[frame.withWatermark("at", "1 second") for frame in stream])
        for name, query in QUERIES.items()
        if name not in ONLY_BATCHES
    }
    writer = _told(marked).writeStream
    writer = writer.format("memory").queryName("sic_results").outputMode("append")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    for row in spark.table("sic_results").collect():
        found[row.query][1].append(json.loads(row.row))
    for name, kinds in found.items():
        kinds[1] = [row for row in kinds[1] if row.get("id") != "far" and start_s(row, 0.0) < 500]
        if name in ONLY_BATCHES:
            kinds.pop()
    return found


def stored(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "at": (BEGIN + timedelta(seconds=row["at"])).isoformat()}


def second(text: str) -> float:
    return round((datetime.fromisoformat(text) - BEGIN).total_seconds(), 6)


def start_s(row: dict[str, Any], default: float | None = None) -> float:
    if "window" not in row and default is not None:
        return second(row["at"]) if "at" in row else default
    return second(row["window"]["start"])


def worth_of(rows: list[dict[str, Any]]) -> float:
    return math.fsum(row["_sic"] for row in rows)


def by_window(rows: list[dict[str, Any]], size: float) -> dict[float, list[dict[str, Any]]]:
    groups = defaultdict(list)
    for row in rows:
        groups[row["at"] // size * size].append(row)
    return dict(groups)


def test_an_aggregate_is_worth_what_went_in(results: Any) -> None:
    for found in results["aggregate"]:
        assert worth_of(found) == near(worth_of(ROWS))
        for row in found:
            mine = [r["_sic"] for r in by_window(ROWS, 3)[start_s(row)] if r["id"] == row.get("id")]
            assert row["_sic"] == near(derived_sic(mine, outputs=1))


def test_several_outputs_of_a_group_share(results: Any) -> None:
    for found in results["two outputs"]:
        assert len(found) == 8
        assert worth_of(found) == near(worth_of(ROWS))
        assert {row["none"] for row in found} == {0.0}
        for row in found:
            mine = [r["_sic"] for r in by_window(ROWS, 3)[start_s(row)]]
            assert row["_sic"] == near(derived_sic(mine, outputs=2))


@pytest.mark.parametrize(("size", "slide"), WINDOWS)
def test_windows_are_the_plain_codes(results: Any, size: float, slide: float | None) -> None:
    ends, worth = window_sics([r["at"] for r in ROWS], [r["_sic"] for r in ROWS], size, slide)
    want = {round(float(end) - size, 6): w for end, w in zip(ends, worth, strict=True)}
    for found in results[f"windows {size} {slide}"]:
        assert {start_s(row): row["_sic"] for row in found} == near(want)
        if slide is None or slide <= size:
            assert worth_of(found) == near(worth_of(ROWS))
        else:
            assert worth_of(found) < 0.5 * worth_of(ROWS)  # two of three seconds are in no window


millis = st.integers(1, 5000)
cases = st.lists(st.tuples(millis, millis), min_size=8, max_size=8)


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cases=cases, times=st.lists(st.integers(-20_000, 20_000), min_size=1, max_size=20))
def test_any_sliding_window(spark: SparkSession, cases: list[tuple[int, int]], times: list[int]) -> None:
    cases = [(min(size, 60 * slide), slide) for size, slide in cases]  # no more copies than a test needs
    worth = [(1 + i % 3) / 7 for i in range(len(times))]
    rows = [(1000 * t, w) for t, w in zip(times, worth, strict=True)]
    plain = spark.createDataFrame(rows, "t bigint, _sic double").coalesce(1)
    frame = plain.select(F.timestamp_micros("t").alias("at"), "t", "_sic")
    parts = []
    for number, (size, slide) in enumerate(cases):
        durations = f"{size} ms", f"{slide} ms"
        parts.append(
            sic.windows(frame.withColumn("m", sic.windows_of("at", *durations)), "at", *durations)
            .selectExpr(f"{number} AS case", "unix_millis(window.start) AS start", "m", "_sic")
        )  # fmt: skip
    together = functools.reduce(DataFrame.union, parts).groupBy("case", "start")
    found = {
        (r.case, r.start): (r._sic, r.m)
        for r in together.agg(sic.total(), F.max("m").alias("m")).collect()
    }
    naive: dict[tuple[int, int], float] = defaultdict(float)
    most: dict[tuple[int, int], int] = defaultdict(int)
    for number, (size, slide) in enumerate(cases):
        for t, w in zip(times, worth, strict=True):
            mine = range((t - size) // slide + 1, t // slide + 1)
            for start in mine:
                naive[number, start * slide] += w / len(mine)
                most[number, start * slide] = max(most[number, start * slide], len(mine))
    assert {place: sic for place, (sic, _) in found.items()} == near(dict(naive))
    assert {place: m for place, (_, m) in found.items()} == most


def naive_top(rows: list[dict[str, Any]], k: int, least: bool) -> list[tuple[Any, ...]]:
    ranked = [r for r in rows if r["value"] is not None]
    ranked.sort(key=lambda r: (r["value"], r["at"]), reverse=not least)  # no two have the same time
    each = derived_sic([r["_sic"] for r in rows], len(ranked[:k]))
    return sorted((r["at"], r["id"] or "", r["value"], r["tags"], near(each)) for r in ranked[:k])


@pytest.mark.matrix
@pytest.mark.parametrize(("name", "k"), [("top 3", 3), ("least 3", 3), ("top 100", 100)])
def test_the_top_of_a_group_is_worth_the_group(results: Any, name: str, k: int) -> None:
    for found in results[name]:
        assert worth_of(found) == near(worth_of(ROWS))
        for start, group in by_window(ROWS, 2).items():
            mine = [r for r in found if start_s(r) == start]
            got = sorted(
                (second(r["at"]), r.get("id", ""), r["value"], r["tags"], r["_sic"]) for r in mine
            )
            assert got == naive_top(group, k, name.startswith("least"))


def test_a_group_that_has_nothing_to_rank_loses_its_worth(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 1 g, cast(null AS double) v, 0.5D _sic UNION ALL SELECT 2, 3D, 0.25D")
    assert [tuple(r) for r in sic.top(frame, 2, "v", within="g").collect()] == [(2, 3.0, 0.25)]


@pytest.mark.matrix
def test_maps_break_no_ties_by_luck(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 1 g, 2D v, map('a', id) m, 0.25D _sic FROM range(4)")
    (row,) = sic.top(frame, 1, "v", within="g").collect()
    assert row.m == {"a": 3}
    assert row._sic == 1.0


def naive_join(
    left: list[dict[str, Any]], right: list[dict[str, Any]], alone: str
) -> dict[float, list[float]]:
    """What each window's pairs are worth, sorted."""
    windows: dict[float, list[float]] = {}
    a, b = by_window(left, 2), by_window(right, 2)
    for start in a.keys() & b.keys():
        pairs = [(x, y) for x in a[start] for y in b[start] if x["id"] == y["id"] is not None]
        inputs = a[start] + b[start]
        if alone == "shared":
            worth = [derived_sic([r["_sic"] for r in inputs], len(pairs))] * len(pairs)
        else:
            worth = []
            for key in {x["id"] for x, _ in pairs}:
                many = sum(x["id"] == key for x, _ in pairs)
                mine = [r["_sic"] for r in inputs if r["id"] == key]
                worth += [derived_sic(mine, many)] * many
        windows[start] = sorted(worth)
    return windows


@pytest.mark.parametrize("alone", ["shared", "lost"])
def test_pairs_are_worth_what_was_joined(results: Any, alone: str) -> None:
    whole = worth_of(ROWS) + worth_of(RIGHT)
    want = naive_join(ROWS, RIGHT, alone)
    for found in results[f"join {alone}"]:
        got: dict[float, list[float]] = defaultdict(list)
        for row in found:
            assert second(row["at_left"]) // 2 == second(row["at_right"]) // 2 == start_s(row) // 2
            got[start_s(row)].append(row["_sic"])
        assert sorted(got) == sorted(want)
        for start, worth in got.items():
            assert sorted(worth) == near(want[start])
        if alone == "shared":
            assert worth_of(found) == near(whole)
        else:
            assert worth_of(found) < 0.97 * whole


def test_a_join_is_sparks_own_join(spark: SparkSession) -> None:
    left = spark.sql("SELECT id % 3 w, id % 5 k, id a, 0.1D _sic FROM range(40)")
    right = spark.sql("SELECT id % 3 w, id % 7 k, id a, 0.1D _sic FROM range(30)")
    found = sic.join(left, right, on="k", within="w")
    want = left.alias("l").join(right.alias("r"), ["w", "k"]).select("w", "k", "l.a", "r.a")
    assert sorted(tuple(r)[:4] for r in found.collect()) == sorted(map(tuple, want.collect()))
    keys_only = sic.join(left.drop("a"), right.drop("a"), on=["k"], within=["w"])
    assert keys_only.columns == ["w", "k", "_sic"]
    assert keys_only.count() == want.count()


def test_outputs_of_a_row_share(results: Any) -> None:
    some = [row for row in ROWS if row["tags"]]
    want = [r["_sic"] / len(r["tags"]) for r in some for _ in r["tags"]]
    for found in results["explode"]:
        assert worth_of(found) == near(worth_of(some))
        assert sorted(r["_sic"] for r in found) == near(sorted(want))
        assert "tags" not in found[0]


def test_copies_leave_their_worth(results: Any) -> None:
    groups = {(row["at"] // 3, row["id"]) for row in ROWS}
    for found in results["distinct"]:
        assert len(found) == len(groups) < len(ROWS) / 4
        assert worth_of(found) == near(worth_of(ROWS))


def test_a_filter_loses_and_a_conditional_aggregate_does_not(results: Any) -> None:
    kept = [row for row in ROWS if (row["value"] or 0.0) >= 5]
    for found in results["filter"]:
        assert worth_of(found) == near(worth_of(kept))
    for found in results["conditional"]:
        assert worth_of(found) == near(worth_of(ROWS))


def test_unions_and_maps_keep_it(results: Any) -> None:
    for found in results["union"]:
        assert worth_of(found) == near(worth_of(ROWS) + worth_of(RIGHT))


def test_figure_2_of_the_paper(spark: SparkSession) -> None:
    """b: 4 source tuples, 2 outputs; c: 2 and 2; a: their outputs, 2 results. All, then half."""

    def operator(frame: DataFrame, outputs: int) -> DataFrame:
        many = F.array_repeat(F.lit(1), outputs)
        return sic.explode(frame.agg(sic.total()).withColumn("out", many), "out")

    b = spark.range(4).withColumn("_sic", F.lit(1 / (4 * 2)))
    c = spark.range(2).withColumn("_sic", F.lit(1 / (2 * 2)))
    whole = operator(operator(b, 2).union(operator(c, 2)), 2)
    assert [r._sic for r in whole.collect()] == [0.5, 0.5]
    half = operator(operator(b.where("id < 2"), 2).union(operator(c, 2).limit(1)), 2)
    assert [r._sic for r in half.collect()] == [0.25, 0.25]


def test_what_is_no_worth_counts_nothing(spark: SparkSession) -> None:
    values = "(0.25D), (null), (double('NaN')), (double('Infinity')), (-1D), (0.5D)"
    frame = spark.sql(
        f"SELECT col1 _sic, timestamp '2026-01-01' at, array(1, 2) two FROM VALUES {values}"
    )
    assert frame.agg(sic.total()).first()._sic == 0.75
    assert frame.agg(sic.shared(3)).first()._sic == 0.25
    assert sic.windows(frame, "at", 4, 1).agg(sic.total()).first()._sic == near(0.75)
    assert sic.explode(frame, "two").agg(F.sum("_sic")).first()[0] == 0.75
    assert frame.where("false").agg(sic.total()).first()._sic == 0.0


def test_frames_that_cannot_carry_it(spark: SparkSession) -> None:
    plain = spark.sql("SELECT 1 a, timestamp '2026-01-01' at")
    good = plain.withColumn("_sic", F.lit(0.5))
    sic.require_sic(good)
    with pytest.raises(UnknownColumn, match=r"no column '_sic'; it has a, at\. A site's gate adds it"):
        sic.require_sic(plain)
    with pytest.raises(BadArgument, match=r"right: '_sic' is a string, and a gate's is a double"):
        sic.require_sic(plain.withColumn("_sic", F.lit("mine")), "right")
    with pytest.raises(BadArgument, match=r"2 columns '_sic'"):
        sic.require_sic(good.select("*", "_sic"))
    with pytest.raises(BadArgument, match=r"left=7 is no DataFrame"):
        sic.join(7, good, on="a")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: sic.shared(0), "outputs=0: give a whole number of 1 or more"),
        (lambda f: sic.shared(True), "outputs=True"),
        (lambda f: sic.shared(2.5), "outputs=2.5"),
        (lambda f: sic.windows(f.drop("_sic"), "at", 1), "no column '_sic'"),
        (lambda f: sic.windows(f, "at", 0), "size=0 is not a positive duration"),
        (lambda f: sic.windows(f, "at", 1, "-1 s"), "slide='-1 s' is not a positive duration"),
        (lambda f: sic.windows(f, "at", 1e-9), "Spark's time has microseconds"),
        (lambda f: sic.windows(f, "id", 1), "time='id' is a string, not a timestamp"),
        (lambda f: sic.windows(f, "when", 1), "time='when': the DataFrame has no such column"),
        (lambda f: sic.windows(sic.windows(f, "at", 1), "at", 1), "a column 'window' already"),
        (lambda f: sic.windows_of("at", -1), "size=-1 is not a positive duration"),
        (lambda f: sic.top(f, 0, "value", "id"), "k=0: give a whole number from 1"),
        (lambda f: sic.top(f, 2.0, "value", "id"), "k=2.0"),
        (lambda f: sic.top(f, 2, "worth", "id"), "by='worth': the DataFrame has no such column"),
        (lambda f: sic.top(f, 2, "value"), "within='window': the DataFrame has no such column"),
        (lambda f: sic.top(f, 2, "id", "id"), "by='id' is the same in all rows of a group"),
        (lambda f: sic.top(f, 2, "value", []), r"within=\[\]: name one column or several"),
        (lambda f: sic.top(f, 2, "value", 3), "within=3: name one column or several"),
        (lambda f: sic.explode(f, "id"), "array='id' is a string, not an array"),
        (lambda f: sic.explode(f, "tags", "id"), "name='id': the DataFrame has such a column"),
        (lambda f: sic.distinct(f, ["id", "id"]), "each once"),
        (lambda f: sic.distinct(f, "_sic"), "not '_sic' itself"),
        (lambda f: sic.join(f, f, on="id", alone="kept"), "alone='kept': one of 'shared', 'lost'"),
        (lambda f: sic.join(f, f.drop("_sic"), on="id"), "right: the DataFrame has no column '_sic'"),
        (lambda f: sic.join(f, f, on="id", within="id"), "have a column in common"),
        (lambda f: sic.join(f, f.drop("id"), on="id", within="at"), "on and within='id'"),
        (
            lambda f: sic.join(f, f.withColumn("id", F.lit(1)), on="id", within="at"),
            "'id' is a string on the left and a int on the right",
        ),
    ],
)
def test_bad_use(spark: SparkSession, call: Callable[[DataFrame], Any], message: str) -> None:
    frame = spark.createDataFrame([], SCHEMA)
    with pytest.raises(BadArgument, match=message):
        call(frame)


def test_a_stream_joins_no_batch(file_stream: Any) -> None:
    stream = file_stream(SCHEMA)
    with pytest.raises(BadArgument, match="one is a stream"):
        sic.join(stream.frame(), stream.batch(), on="id", within="at")


def test_the_page_runs(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[3] / "docs" / "sic.md").read_text()
    examples = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(examples) >= 4
    monkeypatch.setattr(hg, "sic", sic, raising=False)
    rate = spark.readStream.format("rate").load()
    rides = rate.selectExpr(
        "timestamp AS at", "cast(value % 5 AS string) AS route", "value * 1D AS fare",
        "array('a', 'b') AS stops", "0.001D AS _sic",
    )  # fmt: skip
    names: dict[str, Any] = {"hg": hg, "F": F, "rides": rides, "payments": rides}
    for example in examples:
        exec(example, names)
