"""A batch of rides in front of four aggregates: without a gate, and behind three.

Every design in turn, aggregate by aggregate and round by round, in an order that moves on with the
round: whoever ran first and alone would pay for the others' warm-up. A concept-driven gate counts the
groups when it is put in front of the rows, so that is part of its time.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pyspark.sql import Column, DataFrame, GroupedData, SparkSession
from pyspark.sql import functions as F

import headgate as hg
from headgate_lab.bench.cod.trips import PANE_S, SLIDE, WINDOW, Trips

__all__ = ["AGGREGATES", "DESIGNS", "Case", "Found", "Rounds"]

#: No shedding; a uniform gate; a concept-driven one that tosses coins, or draws fixed numbers.
DESIGNS = ("none", "uniform", "coin", "fixed")
#: Cheap and algebraic, holistic three times.
AGGREGATES = ("mean", "median", "collect_list", "distinct")

Advance = Callable[[], None]


@dataclass(frozen=True)
class Found:
    """What was measured of one set of rides."""

    #: Seconds by aggregate and design, one a round.
    seconds: Mapping[tuple[str, str], list[float]]
    #: By design: rows kept, groups missing from complete windows, error of the groups' results.
    kept: Mapping[str, float]
    missing: Mapping[str, float]
    mean_error: Mapping[str, float]
    median_error: Mapping[str, float]
    groups: float

    @property
    def aggregates(self) -> tuple[str, ...]:
        """Those that were timed."""
        return tuple(dict.fromkeys(aggregate for aggregate, _ in self.seconds))

    def speed_up(self, aggregate: str, design: str) -> float:
        """How many times faster than without a gate: the median over the rounds."""
        pairs = zip(self.seconds[aggregate, "none"], self.seconds[aggregate, design], strict=True)
        return statistics.median(plain / gated for plain, gated in pairs)

    def ratios(self) -> dict[str, float]:
        """All of it by name."""
        found = {f"{a}_{d}": self.speed_up(a, d) for a in self.aggregates for d in DESIGNS[1:]}
        for design in DESIGNS[1:]:
            found[f"kept_{design}"] = self.kept[design]
            found[f"missing_{design}"] = self.missing[design]
            found[f"{design}_error"] = self.mean_error[design]
            found[f"{design}_median_error"] = self.median_error[design]
        for name, design in (("error_vs_uniform", "fixed"), ("coin_error_vs_uniform", "coin")):
            found[name] = self.mean_error[design] / self.mean_error["uniform"]
        return found


@dataclass(frozen=True)
class Rounds:
    """So many to be measured, after others that are thrown away because Spark compiles in them."""

    measured: int
    discarded: int = 1
    aggregates: tuple[str, ...] = AGGREGATES

    @property
    def runs(self) -> int:
        """How often a design runs before an aggregate."""
        return (self.discarded + self.measured) * len(self.aggregates) * len(DESIGNS)


@dataclass(frozen=True)
class Case:
    """One set of rides in a folder, and the share of them to keep."""

    spark: SparkSession
    trips: Trips
    folder: Path
    rate: float = 0.02

    @cached_property
    def rides(self) -> DataFrame:
        """The rides as a batch; looking at the files is no part of what is timed."""
        return self.spark.read.parquet(str(self.folder))

    def gated(self, design: str) -> DataFrame:
        """The rides behind the gate of a design, with their weight; counts groups here and now."""
        if design == "none":
            return self.rides.withColumn("_weight", F.lit(1.0))
        policy = None
        if design != "uniform":
            policy = hg.ConceptDriven(
                by="route", window=WINDOW, slide=SLIDE, time="dropoff", draw=design
            )
        return self.rides.transform(hg.gate(design, rate=self.rate, identity="id", policy=policy))

    def seconds(self, aggregate: str, design: str) -> float:
        """How long it takes from the rides to the aggregate of every window and route."""
        started = time.perf_counter()
        result = by_window(self.gated(design)).agg(_columns()[aggregate].alias("x"))
        result.write.format("noop").mode("overwrite").save()
        return time.perf_counter() - started

    def measure(self, rounds: Rounds, scratch: Path, advance: Advance) -> Found:
        """Times of so many rounds, and what the gates' results are worth."""
        seconds: dict[tuple[str, str], list[float]] = {}
        for number in range(rounds.discarded + rounds.measured):
            turn = number % len(DESIGNS)
            for aggregate in rounds.aggregates:
                for design in DESIGNS[turn:] + DESIGNS[:turn]:
                    taken = self.seconds(aggregate, design)
                    advance()
                    if number >= rounds.discarded:
                        seconds.setdefault((aggregate, design), []).append(taken)
        exact = self._exact(scratch)
        found = {design: self._worth(exact, design) for design in DESIGNS[1:]}
        first, last = self.trips.complete
        windows = 1 + (last - first) // PANE_S
        return Found(
            seconds,
            kept={d: self.gated(d).count() / self.trips.rows for d in DESIGNS[1:]},
            missing={d: f[0] for d, f in found.items()},
            mean_error={d: f[1] for d, f in found.items()},
            median_error={d: f[2] for d, f in found.items()},
            groups=exact.count() / windows,
        )

    def _exact(self, scratch: Path) -> DataFrame:
        """The true results of the complete windows, worked out once."""
        path = str(scratch / "exact")
        truth = by_window(self._complete(self.rides)).agg(
            F.mean("fare").alias("mean"), F.median("fare").alias("median")
        )
        truth.write.mode("overwrite").parquet(path)
        return self.spark.read.parquet(path)

    def _complete(self, rides: DataFrame) -> DataFrame:
        """Each ride once for each of its complete windows."""
        first, last = self.trips.complete
        start = F.unix_seconds(F.window("dropoff", WINDOW, SLIDE).start)
        return rides.withColumn("window", start).where(F.col("window").between(first, last))

    def _worth(self, exact: DataFrame, design: str) -> tuple[float, float, float]:
        """Share of the groups missing, error of the mean by weight, and of the query's own median.

        An error is relative and at most 1, which it is for a missing group (cod-2018, section III).
        """
        weight = F.col("_weight")
        guess = by_window(self._complete(self.gated(design))).agg(
            (F.sum(F.col("fare") * weight) / F.sum(weight)).alias("guess_mean"),
            F.median("fare").alias("guess_median"),
        )
        both = exact.join(guess, ["window", "route"], "left")
        found = both.agg(
            F.avg(F.col("guess_mean").isNull().cast("double")),
            *(F.avg(_error(F.col(f"guess_{name}"), F.col(name))) for name in ("mean", "median")),
        ).first()
        assert found is not None
        missing, mean, median = (float(value) for value in found)
        return missing, mean, median


def by_window(rides: DataFrame) -> GroupedData:
    """Grouped by window and route; the windows are there already, or cut here."""
    window = F.col("window") if "window" in rides.columns else F.window("dropoff", WINDOW, SLIDE)
    return rides.groupBy(window, "route")


def _columns() -> dict[str, Column]:
    return {
        "mean": F.mean("fare"),
        "median": F.median("fare"),
        "collect_list": F.collect_list("fare"),
        "distinct": F.count_distinct("id"),
    }


def _error(guess: Column, truth: Column) -> Column:
    return F.coalesce(F.least(F.lit(1.0), F.abs(guess / truth - 1.0)), F.lit(1.0))
