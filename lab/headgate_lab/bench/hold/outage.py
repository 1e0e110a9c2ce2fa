"""The first batch after an outage, and the very first one of a topic that has a backlog.

A query at a load runs until it has settled, is stopped while rows go on arriving in Kafka, and starts
again from its checkpoint, in the same session: what is measured is the gate and not how a JVM warms up.
The same outage is run once more with a filter that keeps nothing in place of the gate: its first batch
reads the rows and does no more, and no shedding behind the source can be faster.
A cold start is a new query, with a new control folder, that reads from the earliest offsets what ten
minutes left there. At capacity that would be hundreds of seconds of work for whoever keeps all of it, so
the backlog is a share of ten minutes at capacity, spread over ten minutes of event time.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headgate.errors import BadArgument
from headgate_lab.bench.hold.arrivals import TICK_S, Schedule
from headgate_lab.bench.hold.feed import Feed, Messages, rows_each
from headgate_lab.bench.hold.figures import batches_to_enter
from headgate_lab.bench.hold.orders import RunOrder, Shedding
from headgate_lab.bench.hold.process import THIS, Answered, ReleaseProcess
from headgate_lab.bench.hold.setting import LEAD_S, TARGET_S, Setting, settings_of
from headgate_lab.bench.progress import bench_progress

__all__ = ["NOTHING_KEPT", "OutagePlan", "run"]

#: A backlog is written for this long a time before the query starts.
_BACKLOG_S = 600.0
#: Inside again: so many batches in a row.
_IN_A_ROW = 3
#: What starting two queries may take on a busy machine, for which rows go on arriving.
_STARTS_S = 60.0
#: In place of a release's name: a filter that keeps no row.
NOTHING_KEPT = "nothing kept"


@dataclass(frozen=True)
class OutagePlan:
    """How long the query runs, is down, and may take to come back; and how large the backlog is."""

    loads: Sequence[float] = (2.0, 5.0)
    before_s: float = 45.0
    down_s: float = 60.0
    #: Neither a restarted nor a cold query is followed longer than this.
    longest_s: float = 90.0
    #: Of ten minutes at capacity, what a cold start finds.
    backlog: float = 0.1
    beside: str | None = None
    cold: bool = True
    #: What batches should take at most, and rows a second that count as the capacity; measured if None.
    target_s: float = TARGET_S
    capacity: float | None = None

    def __post_init__(self) -> None:
        if not self.loads or min(self.loads) <= 0:
            raise BadArgument(
                f"loads={self.loads!r}: give multiples of the capacity above 0, such as 2,5"
            )
        if not 0 < self.backlog <= 1:
            raise BadArgument(
                f"backlog={self.backlog!r} is outside (0, 1]: 0.1 is a minute's at capacity"
            )

    @classmethod
    def quick(cls, beside: str | None = None) -> OutagePlan:
        """One load, and shorter."""
        return cls((2.0,), before_s=25.0, down_s=20.0, longest_s=45.0, backlog=0.02, beside=beside)

    @property
    def minutes(self) -> float:
        """How long all of it takes at most.

        >>> round(OutagePlan().minutes), round(OutagePlan.quick().minutes)
        (17, 5)
        """
        outage = self.before_s + self.down_s + self.longest_s + 3 * LEAD_S
        cold = self.longest_s + 3 * LEAD_S if self.cold else 0.0
        sides = 2 if self.beside else 1
        return (sides * 60.0 + len(self.loads) * (sides * (outage + cold) + outage)) / 60.0

    @property
    def steps(self) -> int:
        """What is run one after the other: capacities, then at each load one of each kind."""
        sides = 2 if self.beside else 1
        return sides + len(self.loads) * (sides * (1 + self.cold) + 1)


def run(*, quick: bool = False, plan: OutagePlan | None = None) -> dict[str, Any]:
    """One row for each load, release, and kind of start."""
    plan = plan or (OutagePlan.quick() if quick else OutagePlan())
    outages: list[dict[str, Any]] = []
    colds: list[dict[str, Any]] = []
    with bench_progress() as progress:
        task = progress.add_task("starting", total=plan.steps)
        with settings_of(
            "kafka",
            plan.beside,
            lambda text: progress.update(task, description=text),
            target_s=plan.target_s,
            capacity=plan.capacity,
        ) as here:
            capacities = here.capacities(progress, task)
            for load in plan.loads:
                for process in here.processes:
                    progress.update(task, description=_text("outage", load, process.release.name))
                    outages.append(_outage(here, plan, load, process, capacities[0]))
                    progress.advance(task)
                progress.update(task, description=_text("outage", load, NOTHING_KEPT))
                outages.append(
                    _outage(here, plan, load, here.processes[0], capacities[0], nothing_kept=True)
                )
                progress.advance(task)
                for process in here.processes if plan.cold else ():
                    progress.update(task, description=_text("cold start", load, process.release.name))
                    colds.append(_cold(here, plan, load, process, capacities[0]))
                    progress.advance(task)
            source, remarks = here.source, here.remarks
            versions = {p.release.name: p.version for p in here.processes}
    remarks.append(
        f"A cold start found {plan.backlog:g} of what ten minutes at capacity bring, with arrivals "
        f"spread over ten minutes: {round(plan.backlog * _BACKLOG_S * capacities[0]):,} rows."
    )
    tables = {f"outage of {plan.down_s:g} s": outages}
    if colds:
        tables["cold start from the earliest offsets"] = colds
    context = {
        "target_s": plan.target_s,
        "capacity_rows_s": round(capacities[0]),
        "source": source,
        "versions": versions,
        "tables": tables,
        "remarks": remarks,
    }
    return {"bench": "outage", "ratios": _ratios(outages, colds), "context": context}


def _text(what: str, load: float, who: str) -> str:
    return f"{what} at {load:g} times capacity ({who})"


def _outage(
    here: Setting,
    plan: OutagePlan,
    load: float,
    process: ReleaseProcess,
    capacity: float,
    *,
    nothing_kept: bool = False,
) -> dict[str, Any]:
    # So long that rows still arrive when the last batch that is followed ends, however slow the starts.
    seconds = plan.before_s + plan.down_s + plan.longest_s + _STARTS_S
    schedule = Schedule((load * capacity,) * round(seconds / TICK_S))
    rows = rows_each(load * capacity)
    source, sink = here.opened(schedule, 0.0, 0.0, rows)
    assert sink is not None
    control, checkpoint = str(here.fresh("control")), str(here.fresh("checkpoint"))
    gate = Shedding("gate", hold_s=here.target_s, control=control)
    shedding = Shedding("filter", rate=0.0) if nothing_kept else gate
    with contextlib.ExitStack() as stack:

        def started() -> float:
            messages = Messages.of(schedule, rows, time.time() + LEAD_S)
            stack.enter_context(Feed(sink, messages))
            return messages.began + plan.before_s

        before = process.run(RunOrder(source, shedding, checkpoint, here.target_s), started)
        time.sleep(max(0.0, before.ended_at + plan.down_s - time.time()))
        again = time.time()
        order = RunOrder(source, shedding, checkpoint, here.target_s, enough_inside=_IN_A_ROW)
        after = process.run(order, lambda: time.time() + plan.longest_s)
    before_last = [round(b.duration_s / here.target_s, 2) for b in before.ended[-3:]]
    return {
        "load": load,
        "gate": NOTHING_KEPT if nothing_kept else process.release.name,
        "last before": max(before_last, default=None),
        **_first(after, again, here.target_s, before.ended_at),
        "ledger balanced": None if nothing_kept else here.balanced(control),
    }


def _cold(
    here: Setting, plan: OutagePlan, load: float, process: ReleaseProcess, capacity: float
) -> dict[str, Any]:
    share = plan.backlog * capacity
    backlog = Schedule((share,) * round(_BACKLOG_S / TICK_S))
    rows = rows_each(load * capacity)
    source, sink = here.opened(backlog, 0.0, 0.0, rows)
    assert sink is not None
    # As if they had come over the ten minutes that end when the query starts. A message is a row, as in
    # other topics: offsets are all by which a gate that knows nothing can bound its first batch.
    waiting = Messages.of(backlog, 1, time.time() + LEAD_S - _BACKLOG_S)
    sink.send(waiting.texts(0, len(waiting)), 0)
    sink.flush()
    going_on = Schedule((load * capacity,) * round((plan.longest_s + _STARTS_S) / TICK_S))
    control = str(here.fresh("control"))
    shedding = Shedding("gate", hold_s=here.target_s, control=control)
    again = time.time()
    with Feed(sink, Messages.of(going_on, rows, again, first=len(waiting))):
        order = RunOrder(
            source, shedding, str(here.fresh("checkpoint")), here.target_s, enough_inside=_IN_A_ROW
        )
        found = process.run(order, lambda: time.time() + plan.longest_s)
    return {
        "load": load,
        "gate": process.release.name,
        **_first(found, again, here.target_s),
        "ledger balanced": here.balanced(control),
    }


def _first(found: Answered, started: float, target_s: float, stopped_at: float = 0.0) -> dict[str, Any]:
    """The first batch in targets, what it brought and kept, and when batches were inside again.

    A batch that was planned before the query stopped runs again first, with the rows of then: it is
    counted apart. A first batch that was cut short took at least so long, and is marked.
    """
    batches = [b for b in found.batches if b.running or b.until > stopped_at]
    first = batches[0] if batches else None
    entered = batches_to_enter(batches, target_s)
    inside_s = None if entered is None else batches[entered].ended_at - started
    return {
        "planned before": len(found.batches) - len(batches),
        "first batch": None if first is None else round(first.duration_s / target_s, 2),
        "cut short": first is not None and first.running,
        "rows": 0 if first is None else first.arrived,
        "kept": round(first.kept / first.arrived, 4) if first is not None and first.arrived else None,
        "batches to enter": entered,
        "inside after s": None if inside_s is None else round(inside_s, 1),
    }


def _ratios(outages: list[dict[str, Any]], colds: list[dict[str, Any]]) -> dict[str, float]:
    found = {}
    for name, rows in (("after_outage", outages), ("cold_start", colds)):
        for row in rows:
            side = {THIS: "", NOTHING_KEPT: "_nothing_kept"}.get(row["gate"], "_beside")
            if row["first batch"] is not None:
                found[f"first_batch_{name}{side}_at_{row['load']:g}"] = row["first batch"]
    return found
