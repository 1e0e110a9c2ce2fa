"""Table 1's queries: in fragments they say what they say in one piece; their SIC is what was kept."""

from __future__ import annotations

import functools
import json
import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import headgate as hg
from headgate.errors import BadArgument
from headgate_lab.demo import table1
from headgate_lab.demo.table1_sources import KINDS, Readings
from headgate_lab.figures.data_folder import found_data_file
from tests.eventually import eventually
from tests.harness.session_settings import FEW_ROWS, with_settings

BEGIN_S, SPAN_S, RATE = 1_767_225_600, 4, 20
FRAGMENTS, NODES = 3, 6


@pytest.fixture(scope="module", autouse=True)
def _small(spark: SparkSession) -> Iterator[None]:
    with with_settings(spark, FEW_ROWS):
        yield


def _made(spark: SparkSession, kind: str, sources: int, of_query: int, what: str) -> list[DataFrame]:
    """Each fragment's rows, worth 1 together over the time of the test (Eq. 1)."""
    frames = []
    for fragment in range(FRAGMENTS):
        made = Readings(kind, sources, RATE, seed=fragment, first_id=fragment * sources)
        rounds = made.rounds(spark, BEGIN_S, SPAN_S)
        rows = getattr(made, what)(spark, rounds)
        frames.append(rows.withColumn("_sic", F.lit(1.0 / (RATE * SPAN_S * of_query))))
    return frames


def _frames(spark: SparkSession) -> dict[str, list[DataFrame]]:
    return {
        "avg-all": _made(spark, "gaussian", NODES, FRAGMENTS * NODES, "cpu"),
        "top-5": _made(spark, "mixed", NODES, 2 * FRAGMENTS * NODES, "both"),
        "cov": _made(spark, "exponential", 2, 2 * FRAGMENTS, "pairs"),
        "aggregate": _made(spark, "uniform", 1, 1, "cpu")[:1],
    }


def _avg_all(frames: list[DataFrame]) -> DataFrame:
    leaves = [table1.avg_all(frame) for frame in frames[1:]]
    return table1.avg_all(frames[0], leaves, root=True)


def _top5(frames: list[DataFrame]) -> DataFrame:
    came = None
    for frame in frames:
        came = table1.top5(frame, derived=came)
    assert came is not None
    return came


def _cov(frames: list[DataFrame]) -> DataFrame:
    came = None
    for place, frame in enumerate(frames):
        came = table1.cov(frame, derived=came, root=place == len(frames) - 1)
    assert came is not None
    return came


QUERIES: dict[str, tuple[str, Callable[[list[DataFrame]], DataFrame]]] = {
    "avg-all": ("avg-all", _avg_all),
    "top-5": ("top-5", _top5),
    "cov": ("cov", _cov),
    "avg": ("aggregate", lambda frames: table1.aggregate(frames[0])),
    "max": ("aggregate", lambda frames: table1.aggregate(frames[0], "max")),
    "count": ("aggregate", lambda frames: table1.aggregate(frames[0], "count")),
}
Row = dict[str, Any]
Rows = list[Row]


def _told(frames: dict[str, DataFrame]) -> DataFrame:
    parts = [
        f.select(F.lit(name).alias("query"), F.to_json(F.struct(F.unix_seconds("at").alias("at"),
            *[c for c in f.columns if c != "at"])).alias("row"))
        for name, f in frames.items()
    ]  # fmt: skip
    return functools.reduce(DataFrame.union, parts)


def _taken(rows: list[Any]) -> dict[str, Rows]:
    found: dict[str, Rows] = defaultdict(list)
    for row in rows:
        found[row.query].append(json.loads(row.row))
    return {name: sorted(rows, key=lambda r: (r["at"], -r["value"])) for name, rows in found.items()}


def _naive(data: dict[str, list[Rows]]) -> dict[str, Rows]:
    """Every query in plain code, over all rows of all fragments."""
    found: dict[str, Rows] = defaultdict(list)
    for second in range(BEGIN_S, BEGIN_S + SPAN_S):
        mine = {
            name: [row for rows in parts for row in rows if math.floor(row["at"]) == second]
            for name, parts in data.items()
        }
        values = [row["value"] for row in mine["avg-all"]]
        found["avg-all"].append({"at": second, "value": float(np.mean(values))})
        cpu, free = defaultdict(list), defaultdict(list)
        for row in mine["top-5"]:
            (free if "free" in row else cpu)[row["id"]].append(row.get("free", row.get("value")))
        ranked = [
            (100 - float(np.mean(cpu[node])), node) for node in cpu
            if any(kb >= 100_000 for kb in free[node])
        ]  # fmt: skip
        for value, node in sorted(ranked, reverse=True)[:5]:
            found["top-5"].append({"at": second, "id": node, "value": value})
        pairs = defaultdict(dict)
        for row in mine["cov"]:
            pairs[row["at"], row["id"] // 2][row["stream"]] = row["value"]
        both = [(p[0], p[1]) for p in pairs.values() if len(p) == 2]
        found["cov"].append({"at": second, "value": float(np.cov(np.array(both).T)[0, 1])})
        single = [row["value"] for row in mine["aggregate"]]
        found["avg"].append({"at": second, "value": float(np.mean(single))})
        found["max"].append({"at": second, "value": max(single)})
        found["count"].append({"at": second, "value": float(sum(v >= 50 for v in single))})
    return found


def _plain(frames: dict[str, list[DataFrame]]) -> dict[str, list[Rows]]:
    """Rows as plain code has them, all from one query; nulls are left out."""
    texts = []
    for name, parts in frames.items():
        for place, frame in enumerate(parts):
            at = (F.unix_micros("at") / 1e6).alias("at")
            row = F.to_json(F.struct(at, *[c for c in frame.columns if c != "at"])).alias("row")
            texts.append(frame.select(F.lit(name).alias("of"), F.lit(place).alias("place"), row))
    found: dict[str, list[Rows]] = {name: [[] for _ in parts] for name, parts in frames.items()}
    for told in functools.reduce(DataFrame.union, texts).collect():
        found[told.of][told.place].append(json.loads(told.row))
    return found


def _same(found: dict[str, Rows], want: dict[str, Rows]) -> None:
    assert sorted(found) == sorted(want)
    for name, rows in want.items():
        got = [{k: v for k, v in row.items() if k != "_sic"} for row in found[name]]
        assert [row.pop("value") for row in got] == pytest.approx([r["value"] for r in rows], rel=1e-9)
        assert got == [{k: v for k, v in row.items() if k != "value"} for row in rows], name


def _worth(rows: Rows) -> float:
    return math.fsum(row["_sic"] for row in rows)


# That all rows are worth 1 together, test_fragments_in_one_stream shows.
@pytest.mark.parametrize("kept", [pytest.param(1.0, marks=pytest.mark.long), 0.3])
def test_fragments_say_what_the_whole_says(spark: SparkSession, kept: float) -> None:
    frames = {
        name: [f.transform(hg.gate(f"{name}-{i}", rate=kept)).cache() for i, f in enumerate(parts)]
        for name, parts in _frames(spark).items()
    }
    data = _plain(frames)
    found = _taken(_told({name: q(frames[of]) for name, (of, q) in QUERIES.items()}).collect())
    _same(found, _naive(data))
    for name, (of, _) in QUERIES.items():
        sources = {"avg-all": NODES, "top-5": 2 * NODES, "cov": 2, "aggregate": 1}[of] * len(frames[of])
        share = sum(map(len, data[of])) / (RATE * SPAN_S * sources)
        assert _worth(found[name]) == pytest.approx(share, rel=1e-12), name
        assert share == 1.0 if kept == 1.0 else 0.15 < share < 0.5
    for parts in frames.values():
        for frame in parts:
            frame.unpersist()


def _streams(
    spark: SparkSession, folder: Path, frames: dict[str, list[DataFrame]]
) -> dict[str, list[DataFrame]]:
    """The same rows as streams: files in two steps, and a row far ahead that lets windows close."""
    streams: dict[str, list[DataFrame]] = {}
    for name, parts in frames.items():
        streams[name] = []
        for number, frame in enumerate(parts):
            path = folder / f"{name}-{number}"
            path.mkdir()
            rows = frame.toArrow()
            early = pc.less(rows["at"], pa.scalar(1_000_000 * BEGIN_S + 2_500_000, rows["at"].type))
            at = pa.array([1_000_000 * (BEGIN_S + 1000)], rows["at"].type)
            far = rows.slice(0, 1).set_column(rows.column_names.index("at"), "at", at)
            far = far.set_column(rows.column_names.index("_sic"), "_sic", pa.array([0.0]))
            late = pa.concat_tables([rows.filter(pc.invert(early)), far.cast(rows.schema)])
            for step, part in enumerate((rows.filter(early), late)):
                file = path / f"{step}.parquet"
                pq.write_table(part, file)
                os.utime(file, (BEGIN_S + step,) * 2)  # files are read in the order of their times
            reader = spark.readStream.schema(frame.schema).option("maxFilesPerTrigger", 1)
            streams[name].append(reader.parquet(str(path)).withWatermark("at", "1 second"))
    return streams


def test_fragments_in_one_stream(spark: SparkSession, tmp_path: Path) -> None:
    """Trees and chains of fragments as one streaming query, in append mode; a chain of three of them."""
    frames = _frames(spark)
    frames |= {name: frames[name][:2] for name in ("avg-all", "top-5")}  # their plans are large
    names = ("avg-all", "top-5", "cov", "count")
    streams = _streams(spark, tmp_path, {QUERIES[name][0]: frames[QUERIES[name][0]] for name in names})
    together = _told({name: QUERIES[name][1](streams[QUERIES[name][0]]) for name in names})
    writer = together.writeStream.format("memory").queryName("table1").outputMode("append")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    found = _taken(spark.table("table1").collect())
    want = _naive(_plain(frames))
    _same(found, {name: want[name] for name in names})
    for name in names:
        share = 2 / FRAGMENTS if name in ("avg-all", "top-5") else 1.0
        assert _worth(found[name]) == pytest.approx(share, rel=1e-12), name


def test_fragments_in_two_queries_with_a_link_of_files(spark: SparkSession, tmp_path: Path) -> None:
    """What a fragment wrote is read by another; the watermark is put on the union of both."""
    frames = _frames(spark)["top-5"][:2]
    streams = _streams(spark, tmp_path, {"top-5": frames})["top-5"]
    link = tmp_path / "link"
    writer = table1.top5(streams[0]).writeStream.format("parquet").option("path", str(link))
    writer = writer.option("checkpointLocation", str(tmp_path / "c1")).outputMode("append")
    writer.trigger(availableNow=True).start().awaitTermination()
    own = spark.readStream.schema(frames[1].schema).parquet(str(tmp_path / "top-5-1"))  # without one
    came = spark.readStream.schema("at timestamp, id int, value double, _sic double").parquet(str(link))
    last = table1.top5(own, derived=came, watermark="1 second")
    writer = last.writeStream.format("memory").queryName("linked").outputMode("append")
    writer = writer.option("checkpointLocation", str(tmp_path / "c2"))
    writer.trigger(availableNow=True).start().awaitTermination()
    found = spark.table("linked").orderBy("at", F.desc("value")).collect()
    want = _top5(frames).orderBy("at", F.desc("value")).collect()
    assert [(r.at, r.id) for r in found] == [(r.at, r.id) for r in want]
    assert math.fsum(r._sic for r in found) == pytest.approx(2 / 3, rel=1e-12)


def test_two_frames_are_one_of_both_kinds(spark: SparkSession) -> None:
    (both, *_), (pairs, *_) = _frames(spark)["top-5"], _frames(spark)["cov"]
    cpu = both.where("value IS NOT NULL").drop("free")
    memory = both.where("free IS NOT NULL").drop("value")
    one, two = table1.top5(both), table1.top5(cpu, memory)
    assert sorted(map(str, one.collect())) == sorted(map(str, two.collect()))
    sides = [pairs.where(F.col("stream") == n).drop("stream") for n in (0, 1)]
    one, two = table1.cov(pairs, root=True), table1.cov(*sides, root=True)
    assert sorted(r.value for r in one.collect()) == pytest.approx(
        sorted(r.value for r in two.collect())
    )


def test_windows_without_a_result_lose_their_worth(spark: SparkSession) -> None:
    frame = spark.range(4).selectExpr(
        "timestamp_millis(id * 700) at", "int(id) id", "double(null) value", "5D free", "0.1D _sic"
    )
    assert table1.top5(frame).collect() == []
    assert table1.aggregate(frame, "max").collect() == []
    assert table1.avg_all(frame, root=True).collect() == []
    assert table1.cov(frame.withColumn("stream", F.lit(0)), root=True).collect() == []
    assert [r.value for r in table1.aggregate(frame, "count").collect()] == [0.0, 0.0, 0.0]
    link = table1.avg_all(frame)
    assert {r.readings for r in link.collect()} == {0}
    assert sorted(r._sic for r in link.collect()) == pytest.approx([0.1, 0.1, 0.2])


def test_what_came_over_a_link_cannot_spoil_a_sum(spark: SparkSession) -> None:
    frame = _frames(spark)["avg-all"][0]
    forged = table1.avg_all(frame).withColumn("_sic", F.lit(math.nan))
    assert _worth([r.asDict() for r in table1.avg_all(None, forged, root=True).collect()]) == 0.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: table1.aggregate(f, "median"), "function='median': one of 'avg', 'max', 'count'"),
        (lambda f: table1.aggregate(f.drop("_sic")), "rows: the DataFrame has no column '_sic'"),
        (lambda f: table1.aggregate(f.drop("value")), "rows='value': the DataFrame has no such column"),
        (lambda f: table1.aggregate(f, window=0), "window=0 is not a positive duration"),
        (lambda f: table1.aggregate(f, watermark="soon"), "watermark='soon' is not a positive duration"),
        (
            lambda f: table1.aggregate(f.withColumn("at", F.lit(1))),
            "rows='at' is a int, not a timestamp",
        ),
        (lambda f: table1.avg_all(), "no rows and nothing derived"),
        (lambda f: table1.avg_all(f, f), "derived='total': the DataFrame has no such column"),
        (lambda f: table1.top5(f), "cpu='free': the DataFrame has no such column"),
        (lambda f: table1.cov(f), "first='stream': the DataFrame has no such column"),
        (lambda f: Readings("normal"), "kind='normal': one of 'gaussian'"),
        (lambda f: Readings("planetlab"), "'planetlab' needs its file"),
        (lambda f: Readings("planetlab", file="/nowhere"), "file='/nowhere' is not there"),
        (lambda f: Readings(sources=0), "sources=0: give a whole number"),
        (lambda f: Readings(rate=150, burst_factor=10), "at most 1000 rounds a second"),
        (lambda f: Readings(burst_share=2), "burst_share=2: give a share"),
        (lambda f: Readings().pairs(f.sparkSession), "sources=10: a pair has 2"),
    ],
)
def test_bad_use(spark: SparkSession, call: Callable[[DataFrame], Any], message: str) -> None:
    frame = spark.createDataFrame([], "at timestamp, id int, value double, _sic double")
    with pytest.raises(BadArgument, match=message):
        call(frame)


MOMENTS = {"gaussian": (50.0, 15.0), "uniform": (50.0, 100 / 12**0.5), "exponential": (50.0, 50.0)}


def test_made_values_are_as_told(spark: SparkSession) -> None:
    made = {kind: Readings(kind, sources=10, rate=100, seed=3) for kind in MOMENTS}
    frames = {kind: m.cpu(spark, m.rounds(spark, BEGIN_S, 20)) for kind, m in made.items()}
    kinds = [frame.withColumn("kind", F.lit(kind)) for kind, frame in frames.items()]
    moments = functools.reduce(DataFrame.unionByName, kinds).groupBy("kind").agg(
        F.count("*").alias("n"), F.avg("value").alias("m"), F.stddev("value").alias("s")
    )  # fmt: skip
    found = {row.kind: row for row in moments.collect()}
    for kind, (mean, spread) in MOMENTS.items():
        row = found[kind]
        assert row.n == 20_000
        assert row.m == pytest.approx(mean, abs=4 * spread / row.n**0.5)
        assert row.s == pytest.approx(spread, rel=0.05)
    rows = frames["exponential"]
    assert "mixed" in KINDS
    first, again = ([tuple(r) for r in rows.limit(50).collect()] for _ in range(2))
    assert first == again
    assert len({r[3] for r in first}) == 50


def test_bursts_are_ten_times_as_much_for_a_tenth_of_the_time(spark: SparkSession) -> None:
    made = Readings(sources=20, rate=5, burst_factor=10, burst_share=0.1, seed=5)
    rows = made.cpu(spark, made.rounds(spark, BEGIN_S, 100))
    counts = [r["count"] for r in rows.groupBy("source", F.unix_seconds("at")).count().collect()]
    assert set(counts) == {5, 50}
    assert len(counts) == 20 * 100
    assert sum(c == 50 for c in counts) / len(counts) == pytest.approx(0.1, abs=0.03)


def test_streams_of_readings_run(spark: SparkSession, tmp_path: Path) -> None:
    """The rate source gives what the rounds give."""
    made = Readings("mixed", sources=3, rate=50, burst_factor=2, burst_share=0.5)
    rows = made.both(spark)
    assert rows.columns == ["at", "source", "id", "value", "free"]
    writer = rows.writeStream.format("memory").queryName("readings")
    query = writer.option("checkpointLocation", str(tmp_path / "c")).start()
    try:
        eventually(lambda: spark.table("readings").count() >= 300, "300 readings")
    finally:
        query.stop()
    found = spark.table("readings")
    assert {r.source for r in found.select("source").distinct().collect()} == set(range(6))
    assert found.where("(value IS NULL) = (free IS NULL)").count() == 0


PLANETLAB = found_data_file("planetlab_cpu_2011.parquet")


@pytest.mark.skipif(PLANETLAB is None, reason="PlanetLab's traces are not here")
def test_real_readings(spark: SparkSession) -> None:
    made = Readings("planetlab", sources=4, rate=100, seed=2, file=PLANETLAB)
    rows = made.cpu(spark, made.rounds(spark, BEGIN_S, 3)).withColumn("_sic", F.lit(1 / 1200))
    found = rows.select("id", "at", "value").collect()
    assert all(r.value is not None and 0 <= r.value <= 100 for r in found)
    assert PLANETLAB is not None
    table = pq.read_table(PLANETLAB, columns=["ts", "vm", "cpu_pct"])
    days = table.filter(pc.equal(pc.day(table["ts"]), 3))
    vms = sorted(pc.unique(days["vm"]).to_pylist())
    vm = vms[(2 * 7919) % len(vms) + 1]
    want = days.filter(pc.equal(days["vm"], vm)).sort_by("ts")["cpu_pct"].to_pylist()
    got = [r.value for r in sorted(found, key=lambda r: r.at) if r.id == 1]
    assert got == [float(v) for v in (want + want)[: len(got)]]
    assert _worth([r.asDict() for r in table1.avg_all(rows, root=True).collect()]) == pytest.approx(1.0)
