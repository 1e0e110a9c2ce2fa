"""What the examples share: a session with Spark's Kafka connector, a broker, and rows in bursts.

Without ``--servers`` an example brings its own broker and sends rows to it, so that one command shows
it; with them it reads the topics that are there. The jobs themselves are in the other files.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.demo.session import quiet_session
from headgate.durations import seconds
from headgate.errors import HeadgateError
from headgate.spark.loop.loop import ControlLoop
from headgate.store.ledger.audit import audit
from headgate.testing.broker import Broker, connector
from headgate.testing.bursts import Bursts, produce
from headgate.view.gate_status import gates_status

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Stage", "main"]

#: How long ``--for`` waits for a first batch to end before its time runs anyway: Spark starts slowly.
PATIENCE_S = 150.0
RIDE = "id BIGINT, route STRING, fare DOUBLE, priority STRING, sent BIGINT"


@dataclass
class Stage:
    """Where a job runs: a session, a broker's address, and a folder for control and checkpoints."""

    spark: SparkSession
    servers: str
    folder: Path
    #: Whatever must be closed when the job is over.
    at_end: ExitStack = field(default_factory=ExitStack)

    @property
    def control(self) -> str:
        """The control folder of all gates in this example."""
        return str(self.folder / "control")

    def rides(self, topic: str) -> DataFrame:
        """A topic of rides as a stream; partition and offset tell its rows apart."""
        stream = self.spark.readStream.format("kafka").option("kafka.bootstrap.servers", self.servers)
        raw = stream.option("subscribe", topic).option("startingOffsets", "earliest").load()
        ride = f"from_json(cast(value AS STRING), '{RIDE}') AS ride"
        return raw.selectExpr(ride, "partition", "offset", "timestamp").select(
            "ride.*", "partition", "offset", "timestamp"
        )

    def to_topic(
        self, rows: DataFrame, topic: str, *, mode: str = "append", every: str = "1 second"
    ) -> StreamingQuery:
        """Write rows to a topic as JSON, with a checkpoint of its own."""
        out = rows.selectExpr("to_json(struct(*)) AS value").writeStream.format("kafka").outputMode(mode)
        out = out.option("kafka.bootstrap.servers", self.servers).option("topic", topic)
        out = out.option("checkpointLocation", str(self.folder / "checkpoints" / topic))
        return out.queryName(topic).trigger(processingTime=every).start()


Job = Callable[[Stage], Sequence["StreamingQuery"]]


def main(job: Job, *, reads: Sequence[str], writes: Sequence[str], rate: float = 2_000) -> None:
    """Run an example until ctrl-C, or for as long as ``--for`` says."""
    said = sys.modules["__main__"].__doc__ or ""
    options = argparse.ArgumentParser(description=said.partition("\n")[0])
    name = Path(sys.argv[0]).stem
    options.add_argument("--servers", help="a broker, HOST:PORT; without, one is started for this run")
    options.add_argument(
        "--for", dest="for_", metavar="DURATION", help="end so long after the first batch: 30s"
    )
    options.add_argument("--folder", type=Path, default=Path("out") / "examples" / name)
    options.add_argument(
        "--rate", type=float, default=rate, help="rows a second of each topic when calm"
    )
    given = options.parse_args()
    try:
        for_s = float("inf") if given.for_ is None else seconds(given.for_, "--for")
        with suppress(KeyboardInterrupt), ExitStack() as stack:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headgate-example-")))
            servers = given.servers or stack.enter_context(_broker(scratch, (*reads, *writes))).bootstrap
            print(f"starting Spark; the broker is {servers}, everything else is in {given.folder}")
            jars = connector().spark_conf()
            spark = stack.enter_context(quiet_session(scratch, name=f"headgate-{name}", more={**jars}))
            # A broker of this run alone begins anew: so do the checkpoints of what was in it.
            folder = given.folder if given.servers else Path(tempfile.mkdtemp(dir=_made(given.folder)))
            stage = Stage(spark, servers, folder)
            stack.enter_context(stage.at_end)
            if given.servers is None:
                stack.enter_context(_sending(servers, reads, given.rate))
            _follow(stage, job(stage), Ending(for_s, time.monotonic()))
    except HeadgateError as error:
        sys.exit(f"{name}: {error}")


@contextmanager
def _broker(folder: Path, topics: Sequence[str]) -> Iterator[Broker]:
    print("starting a broker (the first time, fetching its jars) ...")
    with Broker.start(folder / "broker") as broker:
        for topic in topics:
            broker.create_topic(topic, 2)
        yield broker


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class _Over(Exception):
    """Nobody reads any more."""


@contextmanager
def _sending(servers: str, topics: Sequence[str], rate: float) -> Iterator[None]:
    """Bursts of ten times the calm rate, every twenty seconds; they end before their broker does."""
    over = threading.Event()

    def pause(seconds: float) -> None:
        if over.wait(seconds):
            raise _Over

    def send(topic: str, seed: int) -> None:
        schedule = Bursts(base_rate=rate, factor=10, every_s=20, length_s=5, total=10**9, seed=seed)
        with suppress(HeadgateError, _Over):
            produce(servers, topic, schedule, sleep=pause)

    threads = [
        threading.Thread(target=send, args=(topic, seed), daemon=True)
        for seed, topic in enumerate(topics)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(5.0)


class Ending:
    """When a run is over: so long after its first batch ended, which is waited for, but not for ever."""

    def __init__(self, for_s: float, now: float) -> None:
        self._for_s = for_s
        self._begun = False
        self._until = now + PATIENCE_S + for_s

    def reached(self, now: float, batch_ended: bool) -> bool:
        """Whether it is; `batch_ended` says whether any batch has."""
        if batch_ended and not self._begun:
            self._begun, self._until = True, now + self._for_s
        return now >= self._until


def _follow(stage: Stage, queries: Sequence[StreamingQuery], ending: Ending) -> None:
    print(f"running; ctrl-C ends it. In another terminal: headgate status {stage.control}")
    try:
        ended = False
        while not ending.reached(time.monotonic(), ended) and all(q.isActive for q in queries):
            time.sleep(2.0)
            gates = gates_status(Path(stage.control), time.time())
            ended = any(query["batches"] for gate in gates for query in gate["queries"])
            print("; ".join(_words(gate) for gate in gates))
    finally:
        for query in queries:
            if error := query.exception():
                print(f"{query.name} failed: {str(error).splitlines()[0]}")
            query.stop()
        ControlLoop.of(stage.spark).drain()
        found = audit(Path(stage.control))
        for one in found:
            print(f"{one.gate}: {one.arrived:,} arrived, {one.kept:,} kept; the ledger is {one.verdict}")
        if not any(one.batches for one in found):
            print("no batch has ended, so the ledger is empty: give it more time, or a lower --rate")


def _words(gate: dict) -> str:
    last = gate["queries"][-1] if gate["queries"] else None
    if last is None or last["last_batch"] is None:
        return f"{gate['gate']}: no batch has ended yet"
    kept = f", {last['kept'] / last['arrived']:.0%} kept so far" if last["arrived"] else ""
    took = last["last_duration_s"]
    return f"{gate['gate']}: {last['state']}, batch {last['last_batch']} took {took:.1f} s{kept}"
