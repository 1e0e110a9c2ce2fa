"""What every run of a benchmark shares: source, broker, folders, and what the machine can do."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.progress import Progress, TaskID

from headgate.demo.calibrate import Calibration
from headgate.errors import BadArgument
from headgate.store.ledger.audit import audit
from headgate.testing.broker import ArtifactsUnavailable, Broker, connector
from headgate_lab.bench.hold.arrivals import TICK_S, Schedule
from headgate_lab.bench.hold.feed import Feed, FileSink, KafkaSink, Messages, Sink, rows_each
from headgate_lab.bench.hold.figures import oldest
from headgate_lab.bench.hold.orders import Query, RunOrder, Shedding, Source
from headgate_lab.bench.hold.process import Answered, Release, ReleaseProcess

__all__ = ["LEAD_S", "RATE_LEAD_S", "SOURCES", "TARGET_S", "Ran", "Setting", "settings_of"]

TARGET_S = 2.0
SOURCES = ("rate", "kafka", "files")
#: A query that has started waits so long for its first row.
LEAD_S = 1.0
#: The rate source begins with the query, and when its load rises is in the plan: a start may take this,
#: and what is left of it is more time at the low load.
RATE_LEAD_S = 6.0
#: The rate source hands out so many rows a second of capacity, which are multiplied: loads are to 5 %.
_UNITS = 20
#: How long the streams run that measure the capacity (see `Calibration`), and one that warms a gate.
#: At the least; until six, three and two batches have ended, if that takes longer, but not for ever.
_SLOW_S, _BUSY_S, _WARM_S, _LONGEST_S = 10.0, 16.0, 3.0, 90.0


@dataclass(frozen=True)
class Ran:
    """A run: its batches, when its schedule began, and how late its producer was at worst."""

    answered: Answered
    began: float
    late_s: float = 0.0
    topic: Source | None = None


@dataclass
class Setting:
    """One benchmark on one machine: sessions of one or two releases, and perhaps a broker."""

    folder: Path
    source: str
    processes: list[ReleaseProcess]
    broker: Broker | None = None
    target_s: float = TARGET_S
    #: Rows a second, where somebody knows it.
    given: float | None = None
    #: Remarks that belong beside the table.
    remarks: list[str] = field(default_factory=list)
    _serial: Iterator[int] = field(default_factory=itertools.count)

    def fresh(self, what: str) -> Path:
        """A path of its own for a checkpoint, a control folder, or results."""
        return self.folder / f"{what}-{next(self._serial)}"

    def capacity(
        self,
        process: ReleaseProcess,
        query: Query | None = None,
        *,
        check_s: float = 0.0,
        window_s: float = 0.0,
    ) -> float:
        """Rows a second that this machine sustains without a gate, through this source.

        A query whose batches get dearer while its windows of `window_s` fill is run once more, for
        `check_s`, at the rate that was found. Where the capacity is given the other streams run all the
        same: they warm up the session.
        """
        asked = query or Query()
        found, how, control = [], Calibration(), str(self.fresh("control"))
        streams = (
            (how.slow_rate, how.slow_batches, _SLOW_S, Shedding()),
            (how.busy_rate, how.busy_batches, _BUSY_S, Shedding()),
            # A gate's first batch starts Python workers; whose run comes first should not pay for them.
            (how.slow_rate, 2, _WARM_S, Shedding("gate", hold_s=self.target_s, control=control)),
        )
        for rate, batches, least_s, shedding in streams:
            schedule = Schedule((float(rate),) * round(_LONGEST_S / TICK_S))
            ran = self.run(
                process,
                schedule,
                shedding,
                query=asked,
                unit=float(rate),
                enough_batches=batches,
                least_s=least_s,
            )
            ended = list(ran.answered.ended)
            if not ended:
                raise BadArgument(
                    f"not one batch of {rate:,} rows/s ended in {_LONGEST_S:g} s: this machine is too "
                    "busy to measure what it sustains; run the benchmark again when it is calmer"
                )
            found.append(ended)
        if self.given is not None:
            return self.given
        line = how.line(found[0], found[1], self.target_s, asked.trigger_s)
        if check_s <= 0.0:
            return line.rows_per_second
        # With a cap, so that too high a rate still shows what a batch of the target's rows takes.
        ran = self.run(
            process,
            Schedule((line.rows_per_second,) * round(check_s / TICK_S)),
            Shedding(),
            query=asked,
            cap_rows=line.rows_per_second * self.target_s,
        )
        # By event time: at too high a rate batches bring less of it than the clock has.
        filled = [b for b in ran.answered.ended if oldest(b) - ran.began >= window_s]
        checked = how.checked(line, filled, self.target_s, asked.trigger_s)
        if checked is line:
            self.remarks.append(
                f"No batch with full windows, of about the target's length, ended in {check_s:g} s: the "
                "capacity is that of the first seconds, and may be too high."
            )
        return checked.rows_per_second

    def capacities(self, progress: Progress, task: TaskID) -> list[float]:
        """What the machine sustains under each release; each is a step of the task."""
        found = []
        for process in self.processes:
            progress.update(task, description=f"measuring capacity ({process.release.name})")
            found.append(self.capacity(process))
            progress.advance(task)
        return found

    def run(
        self,
        process: ReleaseProcess,
        schedule: Schedule,
        shedding: Shedding,
        *,
        query: Query | None = None,
        unit: float = 0.0,
        rows: int = 0,
        cap_rows: float | None = None,
        **until: Any,
    ) -> Ran:
        """Send a schedule through a query of its own, and hand back what became of it.

        `unit` is the rate of the rate source, whose rows are multiplied; `rows` is what a message stands
        for, by default as few as the producer can do with; `cap_rows` the most that a batch may take;
        `until` says when to end before the schedule does, as in `RunOrder`.
        """
        began = time.time() + RATE_LEAD_S
        rows = rows or rows_each(max(schedule.rates))
        source, sink = self.opened(schedule, began, unit, rows, cap_rows)
        order = RunOrder(
            source, shedding, str(self.fresh("checkpoint")), self.target_s, query or Query(), **until
        )
        if sink is None:
            return Ran(process.run(order, lambda: began + schedule.seconds), began)
        with contextlib.ExitStack() as stack:
            feeds: list[Feed] = []

            def started() -> float:
                messages = Messages.of(schedule, rows, time.time() + LEAD_S)
                feeds.append(stack.enter_context(Feed(sink, messages)))
                return messages.began + schedule.seconds

            answered = process.run(order, started)
        (feed,) = feeds
        return Ran(answered, feed.messages.began, feed.late_s, source)

    def opened(
        self, schedule: Schedule, began: float, unit: float, rows: int, cap_rows: float | None = None
    ) -> tuple[Source, Sink | None]:
        """A source of its own for a run, and where its messages go."""
        if self.source == "rate":
            unit = unit or max(schedule.rates) / _UNITS
            copies = tuple(schedule.copies(unit))
            made = Source("rate", max(1, round(unit)), copies, schedule.tick_s, began)
            return made, None
        if self.source == "files":
            folder = self.fresh("files")
            mean = schedule.rows / max(1.0, schedule.seconds / 0.25)
            cap = None if cap_rows is None else max(1, round(cap_rows / mean))
            return Source("files", folder=str(folder), cap=cap), FileSink(folder)
        assert self.broker is not None
        topic = f"bench-{next(self._serial)}"
        self.broker.create_topic(topic, 2)
        cap = None if cap_rows is None else max(2, round(cap_rows / rows))
        made = Source("kafka", bootstrap=self.broker.bootstrap, topic=topic, cap=cap)
        return made, KafkaSink(self.broker.bootstrap, topic)

    @staticmethod
    def balanced(control: str) -> bool:
        """Whether the ledger has a balance for all that arrived."""
        found = audit(Path(control))
        return bool(found) and all(a.balanced for a in found)


@contextlib.contextmanager
def settings_of(
    source: str,
    beside: str | None = None,
    say: Callable[[str], None] = lambda text: None,
    *,
    target_s: float = TARGET_S,
    capacity: float | None = None,
) -> Iterator[Setting]:
    """Sessions and broker, stopped at the end. Where no broker can be had, files stand in for it."""
    if source not in SOURCES:
        raise BadArgument(f"source={source!r}: give one of {', '.join(SOURCES)}")
    releases = [Release(), *([Release.beside(beside)] if beside else [])]
    folder = Path(tempfile.mkdtemp(prefix="headgate-hold-"))
    remarks, more = [], {}
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        broker = None
        if source == "kafka":
            say("starting a broker")
            try:
                more = connector().spark_conf()
                broker = stack.enter_context(Broker.start(folder / "broker"))
            except ArtifactsUnavailable as missing:
                source, more = "files", {}
                remarks.append(f"No Kafka broker, so rows came as files: {missing.reason}.")
        processes = []
        for release in releases:
            say(f"starting a session ({release.name})")
            made = ReleaseProcess(release, folder / f"spark-{release.name}", more)
            processes.append(stack.enter_context(made))
        yield Setting(folder, source, processes, broker, target_s, capacity, remarks)
