"""A stream join under overload on Spark: selective, behind random drop, and without shedding.

Two streams of sets (join-2007, section 6.1: five items of 100, Zipf popularity that rotates, one stream
delayed) that ask for so many times the work which a full join of a batch can do within the target. Every
load is run with all three in turn; figures of one load come from one run.
"""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.joins.conditions import overlap
from headgate.spark.gate.call import gate
from headgate.spark.join.call import join
from headgate.spark.loop.loop import ControlLoop
from headgate.store.ledger.records import Ledger, Record, queries_of

__all__ = ["COMPLETE", "DROP", "SELECTIVE", "Setting", "measured", "sustained_rate"]

COMPLETE, DROP, SELECTIVE = "no shedding", "random drop", "selective"


@dataclass(frozen=True)
class Setting:
    """The streams and the target."""

    target_s: float = 2.0
    window_s: int = 20
    skew: float = 0.8
    #: The second stream speaks of the same things so much later.
    shift_s: float = 12.0
    cycle_s: float = 40.0
    at_least: int = 4
    output: str = "pairs"

    def stream(self, spark: SparkSession, rate: int, side: int) -> DataFrame:
        """One of the streams, made natively from a rate source."""
        rows = spark.readStream.format("rate").option("rowsPerSecond", rate).load()
        # The inverse of a Zipf distribution with skew below 1, as a power of a uniform number.
        place = F.pmod(
            (F.unix_micros("timestamp") / F.lit(1e6) - F.lit(self.shift_s * side)) / F.lit(self.cycle_s),
            F.lit(1.0),
        )

        def item(number: Column) -> Column:
            chance = (
                F.pmod(F.xxhash64(F.col("value"), number, F.lit(side)), F.lit(1_000_003)) / 1_000_003
            )
            rank = F.floor(100 * F.pow(chance, F.lit(1.0 / (1.0 - self.skew))))
            return F.pmod(rank + F.floor(100 * place), F.lit(100)).cast("bigint")

        items = F.transform(F.sequence(F.lit(1), F.lit(5)), item)
        made = rows.select(
            F.col("value").alias("id"), F.col("timestamp").alias("at"), items.alias("items")
        )
        return made.withWatermark("at", "1 second")


def measured(
    spark: SparkSession, setting: Setting, rate: int, how: str, seconds: float, folder: Path
) -> dict[str, Any]:
    """One run: durations, pairs a second, and what the join says of its completeness."""
    records = _run(spark, setting, rate, how, seconds, folder)
    # From when the windows are full; a run that never got so far counts with what it finished.
    full = records[0].started_at + setting.window_s + 2 * setting.target_s
    settled = [r for r in records if r.arrived and r.started_at >= full] or records[-1:]
    durations = [r.duration_s for r in settled]
    first, last = settled[0], settled[-1]
    span = max(1e-9, last.started_at + last.duration_s - first.started_at)
    pairs = sum(r.found.measures["pairs"] for r in settled)
    missed = sum(r.found.measures["pairs_missed"] for r in settled)
    wanted = sum(r.arrived for r in settled)
    return {
        "rate": rate,
        "how": how,
        "batches": len(settled),
        "inside": sum(d <= setting.target_s for d in durations) / len(durations),
        "duration_s": statistics.median(durations),
        "longest_s": max(durations),
        "pairs_s": pairs / span,
        "completeness": pairs / (pairs + missed) if pairs + missed else 1.0,
        "completeness_error": _error(settled, pairs, missed),
        "compared": sum(r.kept for r in settled) / wanted if wanted else 1.0,
        "rows_s": sum(r.found.measures["rows_kept"] for r in settled) / span,
        "rows_kept": _share(settled, "rows_kept", "rows_arrived"),
        "used": statistics.median(durations) / setting.target_s,
        "compare_s": statistics.median(r.found.measures["compare_s"] for r in settled),
        "emit_s": statistics.median(r.found.measures["emit_s"] for r in settled),
    }


def _share(records: list[Record], part: str, whole: str) -> float:
    of = sum(r.found.measures[whole] for r in records)
    return sum(r.found.measures[part] for r in records) / of if of else 1.0


def _error(records: list[Record], pairs: float, missed: float) -> float:
    """Of the share of all pairs found: batches have rows in common, so their errors are added."""
    error = 0.0
    for record in records:
        m = record.found.measures
        if m["completeness"] > 0.0:
            whole = m["pairs"] + m["pairs_missed"]
            error += m["completeness_error"] * whole / m["completeness"]
    whole = pairs + missed
    return pairs / whole * error / whole if whole else 0.0


def _run(
    spark: SparkSession, setting: Setting, rate: int, how: str, seconds: float, folder: Path
) -> list[Record]:
    control = folder / "control"
    sides = [setting.stream(spark, rate, side) for side in (0, 1)]
    hold = setting.target_s if how == SELECTIVE else None
    if how == DROP:
        sides = [
            side.transform(gate(f"drop-{n}", hold=setting.target_s, control=control))
            for n, side in zip(("left", "right"), sides, strict=True)
        ]
    joined = join(
        *sides,
        on=overlap("items", at_least=setting.at_least),
        within=float(setting.window_s),
        time="at",
        hold=hold,
        output=setting.output,
        control=control,
        basic_window=setting.target_s / 2,
    )
    query = (
        joined.writeStream.format("noop")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime=f"{setting.target_s} seconds")
        .start()
    )
    try:
        ended = time.monotonic() + seconds
        while time.monotonic() < ended and query.isActive:
            time.sleep(0.5)
    finally:
        query.stop()
    ControlLoop.of(spark).drain()
    (found,) = queries_of(control, "join")
    return list(Ledger(control, "join", found).records().values())


def sustained_rate(spark: SparkSession, setting: Setting, folder: Path, seconds: float) -> float:
    """Rows a second of each stream at which a batch of the full join lasts as long as the target."""
    rate = 1000
    while True:
        row = _run(spark, setting, rate, COMPLETE, seconds + setting.window_s, folder / f"trial-{rate}")
        settled = row[-4:]
        comparing = statistics.median(
            r.found.measures["compare_s"] + r.found.measures["emit_s"] for r in settled
        )
        duration = statistics.median(r.duration_s for r in settled)
        if comparing >= 0.1 * setting.target_s or rate >= 16_000:
            break
        rate *= 4
    # Results and comparisons grow with the square of the rate, everything else hardly does.
    left = setting.target_s - (duration - comparing)
    return rate * math.sqrt(max(0.05, left) / max(1e-3, comparing))
