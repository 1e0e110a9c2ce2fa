"""What of a gate runs in Spark's real-time mode? Tries it against a real broker and prints a table.

    python examples/real_time_mode.py            # all trials, about eight minutes
    python examples/real_time_mode.py native     # trials whose name contains "native"

Needs Java 17 and ``pip install 'headgate[kafka]'``. The findings are in docs/real-time-mode.md.

Each trial sends three waves of rows, and changes the plan from keep-half to keep-a-tenth after the
first: wave 1 and 2 arrive inside one long batch, wave 3 in a later one. What each wave kept, row by
row, tells when a changed plan takes effect.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.streaming.query import StreamingQuery

import headgate as hg
from headgate.spark.versions.real_time import require_real_time
from headgate.testing.broker import Broker, connector
from headgate.testing.bursts import Bursts, produce
from headgate.testing.kafka_client import client_settings

SEED, WAVE, SCALE = 42, 1_000, 1 << 62
BEFORE, AFTER = 0.5, 0.1
BATCH = "15 seconds"
Gate = Callable[[DataFrame], DataFrame]


def below(threshold: Column) -> Column:
    """The gate's test: a seeded 62-bit hash of the row, below rate * 2**62."""
    return F.shiftrightunsigned(F.xxhash64(F.lit(SEED), F.col("id")), 2) < threshold


def rate_threshold(rate: float) -> int:
    """The 62-bit number below which a hash is kept."""
    return round(rate * SCALE)


class PlanFile:
    """A one-row JSON table, replaced in one step by a file of the same name and the same length."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self.file = folder, folder / "plan"
        self.set(BEFORE)

    def set(self, rate: float) -> None:
        """Change the plan to one keep rate."""
        fresh = self.folder / ".fresh"
        fresh.write_text(json.dumps({"k": 1, "threshold": rate_threshold(rate)}).ljust(80) + "\n")
        fresh.replace(self.file)

    def table(self, spark: SparkSession) -> DataFrame:
        """The plan, read by Spark's own file source."""
        return spark.read.schema("k long, threshold long").json(str(self.file))

    def python_source(self, spark: SparkSession) -> DataFrame:
        """The plan, read by Python in a task."""
        return spark.read.format("trial_plan").option("file", str(self.file)).load()


class PlanTable(PlanFile):
    """A Parquet table, overwritten by Spark's own writer: the new data has new file names."""

    def set(self, rate: float) -> None:
        """Change the plan to one keep rate."""
        spark = SparkSession.active()
        plan = spark.createDataFrame([(1, rate_threshold(rate))], "k long, threshold long")
        plan.coalesce(1).write.mode("overwrite").parquet(str(self.file))

    def table(self, spark: SparkSession) -> DataFrame:
        """The plan, read by Spark's own file source."""
        return spark.read.parquet(str(self.file))


class PlanReader(DataSourceReader):
    """Reads the plan file, and notes for which batch it was asked to."""

    def __init__(self, file: str) -> None:
        self.file = file

    def read(self, partition: InputPartition) -> Iterator[tuple[int, int]]:
        """One row: the plan as it is now."""
        from pyspark import TaskContext

        context = TaskContext.get()
        batch = context.getLocalProperty("streaming.sql.batchId") if context else None
        with open(self.file + ".reads", "a") as log:
            log.write(f"{batch}\n")
        plan = json.loads(Path(self.file).read_text())
        yield plan["k"], plan["threshold"]


class PlanSource(DataSource):
    """The way a steered gate gets its plan in micro-batch mode: a Python data source."""

    @classmethod
    def name(cls) -> str:
        """The name to give to ``format``."""
        return "trial_plan"

    def schema(self) -> str:
        """The columns of a plan."""
        return "k long, threshold long"

    def reader(self, schema: Any) -> DataSourceReader:
        """A reader of the file in the option ``file``."""
        return PlanReader(self.options["file"])


class Trials:
    """One broker, one session; each trial has topics, a checkpoint and a plan of its own."""

    def __init__(self, spark: SparkSession, broker: Broker, folder: Path) -> None:
        self.spark, self.broker, self.folder = spark, broker, folder
        self.serial = 0
        self.kept_by: dict[float, set[int]] = {}
        for rate in (BEFORE, AFTER):
            rows = spark.range(3 * WAVE).where(below(F.lit(rate_threshold(rate))))
            self.kept_by[rate] = {row.id for row in rows.collect()}

    def fresh(self, kind: type[PlanFile] = PlanFile) -> tuple[str, str, Path, PlanFile]:
        """Two new topics (one partition each), a folder and a plan that keeps half."""
        self.serial += 1
        source, sink = f"in-{self.serial}", f"out-{self.serial}"
        self.broker.create_topic(source)
        self.broker.create_topic(sink)
        folder = self.folder / f"trial-{self.serial}"
        folder.mkdir()
        return source, sink, folder, kind(folder / "plan")

    def rides(self, topic: str) -> DataFrame:
        """The stream of a topic's rows, counted as they arrive."""
        stream = self.spark.readStream.format("kafka").option("subscribe", topic)
        stream = stream.option("kafka.bootstrap.servers", self.broker.bootstrap)
        row = F.from_json(F.col("value").cast("string"), "id long, route string, sent long")
        rows = stream.option("startingOffsets", "earliest").load().select(row.alias("r"))
        return rows.select("r.*").observe("arrived", F.count(F.lit(1)).alias("n"))

    def start(
        self, rows: DataFrame, sink: str, folder: Path, duration: str = BATCH, mode: str = "update"
    ) -> StreamingQuery:
        """Count what the gate kept, and write it to Kafka in real-time mode."""
        rows = rows.observe("kept", F.count(F.lit(1)).alias("n"))
        out = rows.select(F.to_json(F.struct("*")).alias("value")).writeStream.format("kafka")
        out = out.option("kafka.bootstrap.servers", self.broker.bootstrap).option("topic", sink)
        out = out.option("checkpointLocation", str(folder / "checkpoint")).outputMode(mode)
        query: StreamingQuery = out.trigger(realTime=duration).start()  # type: ignore[call-overload]
        return query

    def wave(self, topic: str, number: int) -> None:
        """Send 1,000 rows whose ids tell the wave they belong to."""
        # Slow enough (2.5 s) that connecting, at the start, does not rule the median delay.
        schedule = Bursts(base_rate=400, total=WAVE, seed=number)
        produce(self.broker.bootstrap, topic, schedule, first_id=(number - 1) * WAVE)

    def read(self, topic: str) -> list[dict[str, Any]]:
        """Every row of a one-partition topic, with ``written``: when it got there, in ms."""
        own = {"group.id": "none"}
        consumer = Consumer(client_settings(self.broker.bootstrap, [], **own))
        start = TopicPartition(topic, 0, 0)
        end = consumer.get_watermark_offsets(start, timeout=10)[1]
        consumer.assign([start])
        rows: list[dict[str, Any]] = []
        while len(rows) < end:
            for message in consumer.consume(end - len(rows), timeout=10):
                written = {"written": message.timestamp()[1]}
                rows.append(json.loads(message.value() or b"{}") | written)
        consumer.close()
        return rows

    def settle(self, query: StreamingQuery, topic: str, expected: int) -> None:
        """Wait until the sink has what either rate would give, or the query has died."""
        deadline = time.monotonic() + 40
        while time.monotonic() < deadline and query.isActive:
            if len(self.read(topic)) >= expected:
                break
            time.sleep(0.2)
        time.sleep(1.5)  # Rows that should not have come would come now.

    def verdict(self, ids: set[int], number: int) -> str:
        """Which rate, exactly, explains the rows of a wave that reached the sink."""
        wave = range((number - 1) * WAVE, number * WAVE)
        seen = {i for i in ids if i in wave}
        for rate, kept in self.kept_by.items():
            if seen == kept.intersection(wave):
                return f"wave {number}: {len(seen)} kept, exactly those of rate {rate}"
        return f"wave {number}: {len(seen)} kept, of NEITHER rate"

    def three_waves(self, gate: Callable[[PlanFile], Gate], kind: type[PlanFile] = PlanFile) -> None:
        """Two waves in one batch, the plan changed between them; a third in a later batch."""
        source, sink, folder, plan = self.fresh(kind)
        self.wave(source, 1)
        query = self.start(gate(plan)(self.rides(source)), sink, folder)
        try:
            self.settle(query, sink, 1)
            plan.set(AFTER)
            self.wave(source, 2)
            wait_for(query, 1)
            self.wave(source, 3)
            wait_for(query, 2)
            while query.isActive and sum(p.numInputRows for p in query.recentProgress) < 3 * WAVE:
                time.sleep(0.5)
        finally:
            query.stop()
            self.report(query, sink, plan)

    def report(self, query: StreamingQuery, sink: str, plan: PlanFile) -> None:
        """Say what reached the sink and what Spark told about it."""
        rows = self.read(sink)
        ids = {row["id"] for row in rows}
        for number in (1, 2, 3):
            say(self.verdict(ids, number))
        say(f"rows written twice: {len(rows) - len(ids)}")
        if delays := [row["written"] - row["sent"] for row in rows if row["id"] >= WAVE]:
            middle = statistics.median(delays)
            say(f"from produced to written, waves 2 and 3: median {middle:.0f} ms")
        for p in query.recentProgress:
            seen = {name: row.n for name, row in p.observedMetrics.items()}
            took = p.durationMs.get("triggerExecution")
            say(f"batch {p.batchId}: {p.numInputRows} rows in, observed {seen}, took {took} ms")
        reads = Path(f"{plan.file}.reads")
        if reads.exists():
            say(f"reads of the plan, by batch: {dict(Counter(reads.read_text().split()))}")

    # (a) to (d): where the threshold comes from.

    def native_literal(self) -> None:
        """(a) A literal threshold: what a fixed-rate gate is."""
        self.three_waves(lambda _: lambda rows: rows.where(below(F.lit(rate_threshold(BEFORE)))))

    def join_file(self) -> None:
        """(b) A broadcast join to a plan in a file that is replaced under the same name."""
        self.three_waves(lambda plan: lambda rows: joined(rows, plan.table(self.spark)))

    def join_parquet(self) -> None:
        """(b) A broadcast join to a Parquet table that Spark overwrites."""
        self.three_waves(lambda plan: lambda rows: joined(rows, plan.table(self.spark)), PlanTable)

    def subquery_file(self) -> None:
        """(c) A scalar subquery over a plan in a file that is replaced under the same name."""
        self.three_waves(lambda plan: lambda rows: compared(rows, plan.table(self.spark)))

    def subquery_parquet(self) -> None:
        """(c) A scalar subquery over a Parquet table that Spark overwrites."""
        gate = lambda plan: lambda rows: compared(rows, plan.table(self.spark))  # noqa: E731
        self.three_waves(gate, PlanTable)

    def join_python_source(self) -> None:
        """(d) A broadcast join to a Python data source: what a steered gate is."""
        self.three_waves(lambda plan: lambda rows: joined(rows, plan.python_source(self.spark)))

    def subquery_python_source(self) -> None:
        """(d) A scalar subquery over a Python data source."""
        self.three_waves(lambda plan: lambda rows: compared(rows, plan.python_source(self.spark)))

    def headgate_fixed(self) -> None:
        """(a) Headgate's own gate at a fixed rate, with no control folder."""
        self.two_batches(lambda rows, _: rows.transform(hg.gate("rides", rate=AFTER)))

    def headgate_steered(self) -> None:
        """(d) Headgate's own steered gate, told to hold batches to 2 seconds."""
        self.two_batches(
            lambda rows, folder: rows.transform(
                hg.gate("rides", hold="2 seconds", control=folder / "control")
            )
        )

    def two_batches(self, gate: Callable[[DataFrame, Path], DataFrame]) -> None:
        """One wave in each of two batches."""
        source, sink, folder, _ = self.fresh()
        self.wave(source, 1)
        query = self.start(gate(self.rides(source), folder), sink, folder)
        wait_for(query, 1)
        self.wave(source, 2)
        wait_for(query, 2)
        query.stop()
        for p in query.recentProgress:
            seen = {name: row.asDict() for name, row in p.observedMetrics.items()}
            say(f"batch {p.batchId}: took {p.durationMs.get('triggerExecution')} ms, observed {seen}")
        say(f"rows in the sink: {len(self.read(sink))}")

    # (e): the edges of the mode.

    def native_restarted(self) -> None:
        """(e) Stopped inside its first batch, twice, same checkpoint; then another rate."""
        source, sink, folder, _ = self.fresh()
        self.wave(source, 1)
        earlier: list[dict[str, Any]] = []
        for rate in (BEFORE, BEFORE, AFTER):
            gated = self.rides(source).where(below(F.lit(rate_threshold(rate))))
            query = self.start(gated, sink, folder)
            self.settle(query, sink, len(earlier) + 1)
            query.stop()
            rows = self.read(sink)
            ids = {row["id"] for row in rows[len(earlier) :]}
            again = len(ids & {row["id"] for row in earlier})
            done = [p.batchId for p in query.recentProgress]
            say(f"rate {rate}: {len(ids)} rows, {again} of them written before; batches: {done}")
            earlier = rows

    def native_then_aggregate(self) -> None:
        """(e) A literal gate in front of a grouped count."""
        self.aggregate(lambda rows, _: rows.where(below(F.lit(rate_threshold(BEFORE)))))

    def join_python_source_then_aggregate(self) -> None:
        """(e) A steered gate in front of a grouped count."""
        self.aggregate(lambda rows, plan: joined(rows, plan.python_source(self.spark)))

    def aggregate(self, gate: Callable[[DataFrame, PlanFile], DataFrame]) -> None:
        """One wave through a gate into a count by route."""
        source, sink, folder, plan = self.fresh()
        self.wave(source, 1)
        counts = gate(self.rides(source), plan).groupBy("route").agg(F.count(F.lit(1)).alias("n"))
        query = self.start(counts, sink, folder)
        expected = len(self.kept_by[BEFORE] & set(range(WAVE)))
        self.settle(query, sink, expected)
        wait_for(query, 1)
        query.stop()
        rows = self.read(sink)
        last = {row["route"]: row["n"] for row in rows}
        say(f"{len(rows)} updates, last counts sum to {sum(last.values())}; {expected} rows kept")

    def native_shortest_batch(self) -> None:
        """(e) A batch of 5 seconds."""
        source, sink, folder, _ = self.fresh()
        self.wave(source, 1)
        rows = self.rides(source).where(below(F.lit(rate_threshold(BEFORE))))
        query = self.start(rows, sink, folder, duration="5 seconds")
        wait_for(query, 2)
        query.stop()
        say(f"batches ended: {len(query.recentProgress)}; rows in the sink: {len(self.read(sink))}")

    def refused_short_batch(self) -> None:
        """(e) The minimum batch duration."""
        source, sink, folder, _ = self.fresh()
        self.start(self.rides(source), sink, folder, duration="1 second").stop()

    def refused_append(self) -> None:
        """(e) Output mode append."""
        source, sink, folder, _ = self.fresh()
        self.start(self.rides(source), sink, folder, mode="append").stop()

    def refused_for_each_batch(self) -> None:
        """(e) foreachBatch as the sink."""
        source, _, folder, _ = self.fresh()
        out = self.rides(source).writeStream.foreachBatch(lambda batch, number: None)
        out = out.outputMode("update").option("checkpointLocation", str(folder / "checkpoint"))
        wait_for(out.trigger(realTime=BATCH).start(), 1)  # type: ignore[call-overload]

    def refused_python_operator(self) -> None:
        """(e) A Python operator (mapInArrow) on the stream."""
        source, sink, folder, _ = self.fresh()
        rows = self.rides(source)
        query = self.start(rows.mapInArrow(lambda batches: batches, rows.schema), sink, folder)
        wait_for(query, 1)


def joined(rows: DataFrame, plan: DataFrame) -> DataFrame:
    """The gate as a broadcast join to the plan."""
    # The key depends on the row, or the optimizer would turn the join into something else.
    rows = rows.withColumn("k", F.col("id") * 0 + 1)
    kept = rows.join(F.broadcast(plan), "k").where(below(F.col("threshold")))
    return kept.drop("k", "threshold")


def compared(rows: DataFrame, plan: DataFrame) -> DataFrame:
    """The gate as a comparison with the plan's one number."""
    return rows.where(below(plan.agg(F.max("threshold")).scalar()))


def wait_for(query: StreamingQuery, batches: int, timeout: float = 60.0) -> None:
    """Wait until that many batches have ended; a query that died raises what it died of."""
    deadline = time.monotonic() + timeout
    while len(query.recentProgress) < batches and time.monotonic() < deadline:
        if error := query.exception():
            raise error
        time.sleep(0.2)
    if len(query.recentProgress) < batches:
        raise TimeoutError(f"{batches} batches did not end in {timeout:g} s")


def say(line: str) -> None:
    """Print a finding under its trial."""
    print(f"    {line}", flush=True)


def main(wanted: str) -> None:
    """Run the trials whose name contains ``wanted``."""
    found = connector()
    print(f"connector: {[Path(jar).name for jar in found.jars]}")
    print(f"stand-in: {found.stand_in or 'no'}")
    # Each long batch holds one core per partition, so leave some for the rest.
    builder = SparkSession.builder.master("local[4]").config("spark.ui.enabled", "false")
    for key, value in found.spark_conf().items():
        builder = builder.config(key, value)
    spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    require_real_time(spark)
    spark.dataSource.register(PlanSource)
    print(f"Spark {spark.version}")
    with tempfile.TemporaryDirectory() as name, Broker.start(Path(name) / "broker") as broker:
        trials = Trials(spark, broker, Path(name))
        for trial in vars(Trials).values():
            # A trial is a method whose docstring begins with the letter of its question.
            about = getattr(trial, "__doc__", None) or ""
            if about[:1] + about[2:3] != "()" or wanted not in trial.__name__:
                continue
            print(f"\n{trial.__name__}: {trial.__doc__}", flush=True)
            try:
                trial(trials)
            except Exception as error:
                # The line with Spark's error class, or else the first.
                named = re.search(r".*\[[A-Z_]{6,}[.\]].*", str(error))
                line = named[0] if named else str(error).splitlines()[0]
                say(f"FAILED: {type(error).__name__}: {line[:600]}")
            for query in spark.streams.active:
                query.stop()
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
