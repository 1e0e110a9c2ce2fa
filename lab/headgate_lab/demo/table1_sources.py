"""Readings of CPU and memory as streams, for the queries of Table 1 (themis-2016, sections 7.1 and 7.4).

The rate source gives one row for every round of readings, and a round is one reading of each source: so
sources are read at the same instants, as a monitor does, and one Spark source serves a whole fragment.
All values are native functions of a seeded hash of round and source: the same rows in every process,
and when a batch is replayed.

A rate source has one rate for good. So for bursts it runs at the burst's rate, and outside of bursts all
but one in `burst_factor` rounds are filtered out; whether a source bursts is a hash of source and
stretch of event time (section 7.4: a tenth of the time, ten times the rate). A stretch is `burst_s`
long, each source on its own, which the paper leaves open.

Made values have mean 50: normal with spread 15, uniform from 0 to 100, exponential, or for each reading
any of these. Real ones are PlanetLab's, a day of a VM (288 readings) after the other in a circle. The
traces have no memory, so free memory is made up: uniform from 50,000 to 350,000 kB.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from headgate.durations import seconds
from headgate.errors import BadArgument, MissingExtra
from headgate.spark.session import check_session  # first: it says which extra is missing

# isort: split
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

__all__ = ["KINDS", "Readings"]

KINDS = ("gaussian", "uniform", "exponential", "mixed", "planetlab")
_BITS = 53
_DAY = 288
#: Rounds are a millisecond apart at least, as the rate source's time has no finer steps.
_MOST = 1000


@dataclass(frozen=True)
class Readings:
    """The sources of one fragment: `sources` nodes, each read `rate` times a second."""

    kind: str = "gaussian"
    sources: int = 10
    #: Readings a second of each source, outside of bursts.
    rate: int = 150
    seed: int = 0
    #: The id of the first node; the others count on.
    first_id: int = 0
    #: Rate during a burst, in units of `rate`, and the share of time that is bursts.
    burst_factor: int = 1
    burst_share: float = 0.0
    burst_s: float = 1.0
    #: PlanetLab's traces, as parquet with `ts, vm, cpu_pct`.
    file: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise BadArgument(f"kind={self.kind!r}: one of {', '.join(map(repr, KINDS))}")
        if (self.kind == "planetlab") != (self.file is not None):
            raise BadArgument(f"kind={self.kind!r}, file={self.file!r}: 'planetlab' needs its file")
        if self.file is not None and not Path(self.file).is_file():
            raise BadArgument(f"file={os.fspath(self.file)!r} is not there")
        for name in ("sources", "rate", "burst_factor"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise BadArgument(f"{name}={value!r}: give a whole number of 1 or more")
        if self.rate * self.burst_factor > _MOST:
            raise BadArgument(
                f"rate={self.rate} times burst_factor={self.burst_factor}: at most {_MOST} rounds a "
                "second can be told apart; give more sources instead"
            )
        if not 0.0 <= self.burst_share <= 1.0:
            raise BadArgument(f"burst_share={self.burst_share!r}: give a share from 0 to 1")
        seconds(self.burst_s, "burst_s")

    def cpu(self, spark: SparkSession, rounds: DataFrame | None = None) -> DataFrame:
        """CPU readings: `at, source, id, value`; a stream, or of these rounds (`timestamp, value`)."""
        rows = self._readings(spark, rounds, self.sources)
        return rows.select("at", "source", self._id(F.col("source")), self._value(F.col("source")))

    def memory(self, spark: SparkSession, rounds: DataFrame | None = None) -> DataFrame:
        """Memory readings: `at, source, id, free`; their sources count on behind those of CPU."""
        rows = self._readings(spark, rounds, self.sources)
        node = F.col("source")
        return rows.select("at", (node + self.sources).alias("source"), self._id(node), self._free(node))

    def both(self, spark: SparkSession, rounds: DataFrame | None = None) -> DataFrame:
        """Both in one stream, `at, source, id, value, free`: of each row one of the last two is null."""
        rows = self._readings(spark, rounds, 2 * self.sources)
        node, cpu = F.col("source") % self.sources, F.col("source") < self.sources
        value, free = F.when(cpu, self._value(node)), F.when(~cpu, self._free(node))
        return rows.select("at", "source", self._id(node), value.alias("value"), free.alias("free"))

    def pairs(self, spark: SparkSession, rounds: DataFrame | None = None) -> DataFrame:
        """CPU readings of two sources, `at, source, id, value, stream`; `stream` is 0 or 1."""
        if self.sources != 2:
            raise BadArgument(f"sources={self.sources}: a pair has 2")
        return self.cpu(spark, rounds).withColumn("stream", F.col("source"))

    def rounds(self, spark: SparkSession, begin_s: float, length_s: float) -> DataFrame:
        """A batch of rounds, as the rate source would give them from that second on."""
        per_s = self.rate * self.burst_factor
        step = F.floor(F.col("id") * F.lit(1000) / F.lit(per_s))
        at = F.timestamp_millis(F.lit(round(begin_s * 1000)) + step)
        numbers = spark.range(0, round(length_s * per_s), 1, 1)
        return numbers.select(at.alias("timestamp"), F.col("id").alias("value"))

    def _stream(self, spark: SparkSession) -> DataFrame:
        check_session(spark)
        reader = spark.readStream.format("rate").option("numPartitions", "1")
        return reader.option("rowsPerSecond", str(self.rate * self.burst_factor)).load()

    def _readings(self, spark: SparkSession, rounds: DataFrame | None, sources: int) -> DataFrame:
        """`at, round, source`: a row a round and source, thinned outside of bursts."""
        rounds = self._stream(spark) if rounds is None else rounds
        each = F.explode(F.sequence(F.lit(0), F.lit(sources - 1))).alias("source")
        rows = rounds.select(F.col("timestamp").alias("at"), F.col("value").alias("round"), each)
        if self.burst_factor == 1:
            return rows
        stretch = F.floor(F.unix_millis("at") / F.lit(round(self.burst_s * 1000)))
        bursting = self._uniform("burst", F.col("source"), stretch) < F.lit(self.burst_share)
        return rows.where(bursting | (F.col("round") % self.burst_factor == 0))

    def _uniform(self, what: str, *parts: Column) -> Column:
        """A number above 0 and below 1, by hash."""
        hashed = F.xxhash64(F.lit(self.seed), F.lit(what), *parts)
        return (F.shiftrightunsigned(hashed, 64 - _BITS) + F.lit(0.5)) / F.lit(2.0**_BITS)

    def _id(self, node: Column) -> Column:
        return (node + F.lit(self.first_id)).alias("id")

    def _free(self, node: Column) -> Column:
        free = F.lit(50_000.0) + F.lit(300_000.0) * self._uniform("free", node, F.col("round"))
        return free.alias("free")

    def _value(self, node: Column) -> Column:
        if self.kind == "planetlab":
            return self._traced(node).alias("value")
        one, other, third = (self._uniform(w, node, F.col("round")) for w in ("one", "other", "third"))
        made = {
            "gaussian": F.lit(50.0)
            + F.lit(15.0) * F.sqrt(F.lit(-2.0) * F.log(one)) * F.cos(F.lit(2.0) * F.pi() * other),
            "uniform": F.lit(100.0) * one,
            "exponential": F.lit(-50.0) * F.log(one),
        }
        if self.kind != "mixed":
            return made[self.kind].alias("value")
        mixed = F.when(third < 1 / 3, made["gaussian"]).when(third < 2 / 3, made["uniform"])
        return mixed.otherwise(made["exponential"]).alias("value")

    def _traced(self, node: Column) -> Column:
        """A VM's readings in a circle, as one constant of the plan: nothing is read at run time."""
        try:
            import pyarrow.compute as pc
            import pyarrow.parquet as pq
        except ImportError as error:
            raise MissingExtra("pyarrow", "spark") from error
        table = pq.read_table(self.file, columns=["ts", "vm", "cpu_pct"])
        table = table.set_column(1, "vm", table["vm"].cast("string"))
        table = table.filter(pc.equal(pc.day(table["ts"]), pc.min(pc.day(table["ts"]))))
        table = table.sort_by([("vm", "ascending"), ("ts", "ascending")])
        days, values = table.num_rows // _DAY, table["cpu_pct"].to_pylist()
        # Which VMs: those behind one another from a place that the seed and the first id say.
        begin = (self.seed * 7919 + self.first_id) % days
        chosen = [(begin + n) % days for n in range(self.sources)]
        text = ",".join(str(v) for vm in chosen for v in values[vm * _DAY : (vm + 1) * _DAY])
        traces = F.split(F.lit(text), ",").cast("array<double>")
        return F.get(traces, (node * _DAY + F.col("round") % _DAY).cast("int"))
