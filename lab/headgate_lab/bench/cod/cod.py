"""Concept-driven shedding in front of Spark's aggregates: what it saves, what it costs in accuracy.

2,000 routes, 2 % kept, against no shedding and against a uniform gate, in one run. Then a crowded case,
with almost a third as many routes as rows, where shedding by group has little to give; and a stream,
whose rows are drawn inside the query. The set-up is that of the measurements behind the design: windows
of 30 minutes that slide by 10, two cores, adaptive execution off.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from rich.progress import Progress

from headgate.demo.session import quiet_session
from headgate_lab.bench.cod.designs import DESIGNS, Case, Found, Rounds
from headgate_lab.bench.cod.stream import STATE, STREAMED, StreamCase
from headgate_lab.bench.cod.trips import Trips
from headgate_lab.bench.progress import bench_progress
from headgate_lab.figures.cod.streams import GroupLaw
from headgate_lab.figures.measured_spark import SETTINGS, conf, heard

__all__ = ["FULL", "QUICK", "Size", "measure", "run"]

#: 600,000 rows and 2,000 groups a window; 100,000 rows and 31,000 groups.
_ROUTES = GroupLaw(2_000, 600_000, 3, power=1.05, shift=3.0)
_CROWDED = GroupLaw(90_000, 100_000, 3)
#: From here on a speed-up is worth a gate's accuracy.
_PAYS = 2.0


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    routes: Trips
    crowded: Trips
    routes_rounds: Rounds
    crowded_rounds: Rounds
    #: Rides of the stream, the micro-batches that they come in, and how often every query runs.
    stream: Trips
    batches: int
    stream_rounds: int = 1


FULL = Size(Trips(_ROUTES, 25), Trips(_CROWDED, 6), Rounds(1), Rounds(1, 0), Trips(_ROUTES, 8), 4)
#: Spark is warm by the time of the crowd.
QUICK = Size(
    Trips(_ROUTES, 4),
    Trips(_CROWDED, 4),
    Rounds(1),
    Rounds(1, 0, ("mean", "median")),
    Trips(_ROUTES, 4),
    5,
)


def run(*, quick: bool) -> dict[str, Any]:
    """All ratios, by name."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-bench-"))
    try:
        with (
            bench_progress() as progress,
            quiet_session(folder / "spark", "4g", name="headgate-bench") as spark,
        ):
            return measure(spark, folder, QUICK if quick else FULL, progress)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(spark: SparkSession, folder: Path, size: Size, progress: Progress) -> dict[str, Any]:
    """The bench on a session, in a folder of its own."""
    with conf(spark, SETTINGS | STATE):
        with heard() as quiet:
            routes = _batch(spark, size.routes, size.routes_rounds, folder / "routes", progress)
        with heard() as warned:
            crowded = _batch(spark, size.crowded, size.crowded_rounds, folder / "crowded", progress)
        streamed = _stream(spark, size, folder / "stream", progress)
    ratios = {
        **routes.ratios(),
        **{f"crowded_{name}": value for name, value in crowded.ratios().items()},
        **{f"stream_median_{design}": _times(streamed["batch_s"], design) for design in STREAMED[1:]},
        **{f"stream_kept_{design}": share for design, share in streamed["kept"].items()},
    }
    context = {
        "routes": _context(size.routes, routes) | {"warnings": quiet},
        "crowded": _context(size.crowded, crowded) | {"warnings": warned},
        "stream": {"rows": size.stream.rows, "batches": size.batches, **streamed},
        "remarks": _remarks(size, routes, crowded),
    }
    return {"bench": "cod", "ratios": ratios, "context": context}


def _batch(spark: SparkSession, trips: Trips, rounds: Rounds, folder: Path, progress: Progress) -> Found:
    task = progress.add_task(f"{folder.name}: {trips.rows:,} rows", total=rounds.runs)
    case = Case(spark, trips, trips.write(folder / "rides"))
    return case.measure(rounds, folder, lambda: progress.advance(task))


def _stream(spark: SparkSession, size: Size, folder: Path, progress: Progress) -> dict[str, Any]:
    task = progress.add_task("a stream", total=size.stream_rounds * len(STREAMED))
    rides = size.stream.write(folder / "rides", size.batches)
    return StreamCase(spark, rides, folder).measure(size.stream_rounds, lambda: progress.advance(task))


def _times(seconds: dict[str, list[float]], design: str) -> float:
    """How many times shorter batches are behind a gate: the median over the rounds."""
    pairs = zip(seconds["none"], seconds[design], strict=True)
    return statistics.median(plain / gated for plain, gated in pairs)


def _context(trips: Trips, found: Found) -> dict[str, Any]:
    seconds = {
        aggregate: {d: round(statistics.median(found.seconds[aggregate, d]), 3) for d in DESIGNS}
        for aggregate in found.aggregates
    }
    rows = trips.law.rows
    return {
        "rows": trips.rows,
        "rows_per_window": rows,
        "groups_per_window": found.groups,
        "groups_per_row": found.groups / rows,
        "seconds": seconds,
    }


def _remarks(size: Size, routes: Found, crowded: Found) -> list[str]:
    """Where shedding by group did not pay in this run, and what to do there."""
    found = []
    for name in routes.aggregates:
        uniform, coin, fixed = (routes.speed_up(name, design) for design in DESIGNS[1:])
        if fixed >= _PAYS:
            continue
        why = "the gate's own passes cost about what they save"
        if name == "mean":
            why = "Spark works cheap aggregates out in part before it shuffles; little is left to save"
        found.append(
            f"{name}: {fixed:.2g} times as fast behind fixed draws, {coin:.2g} behind coins, "
            f"{uniform:.2g} behind a uniform gate: {why}; shed uniformly if groups may go missing, or "
            "not at all"
        )
    poor = [name for name in crowded.aggregates if crowded.speed_up(name, "fixed") < _PAYS]
    found.append(
        f"with {crowded.groups / size.crowded.law.rows:.0%} as many groups as rows "
        f"{crowded.kept['fixed']:.0%} of the rows are kept, not 2 %, and less than {_PAYS:g} times the "
        f"speed is gained for {', '.join(poor) or 'none of the aggregates'}: from about 10 % on a gate "
        "warns; shed by fewer columns, or uniformly"
    )
    return found
