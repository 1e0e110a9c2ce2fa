"""One overload through what a user would do instead: nothing, a cap, a filter by hand, and a gate.

The same rows at the same instants, from Kafka, one after the other in one session, into one query: the
mean and the exact median of some hundred groups over a sliding window.

nothing
    The query as it is.
cap
    ``maxOffsetsPerTrigger``, at what a batch of the target's length can take.
filter
    A hash filter at a fixed rate, tuned to the mean load: 1 / load.
headgate
    ``hg.gate(hold=...)``, and its weights in mean and median.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from headgate.durations import seconds
from headgate.errors import BadArgument
from headgate_lab.bench.hold.arrivals import TICK_S, Schedule, factors
from headgate_lab.bench.hold.feed import rows_each
from headgate_lab.bench.hold.figures import inside_target
from headgate_lab.bench.hold.orders import Query, Shedding, TruthOrder
from headgate_lab.bench.hold.peer_figures import (
    Said,
    backlog,
    errors,
    read_said,
    row_delays,
    weighted_quantile,
)
from headgate_lab.bench.hold.setting import TARGET_S, Ran, Setting, settings_of
from headgate_lab.bench.progress import bench_progress

__all__ = ["PEERS", "PeerPlan", "run"]

PEERS = ("nothing", "cap", "filter", "headgate")
#: How long a window of the query is.
_WINDOW_S = seconds(Query().window, "window")
#: How long the stream runs whose batches tell the capacity. Those count that begin when windows are
#: full, and it may lag, so it takes longer than a window.
_CHECK_S = 45.0
#: Starting a broker and a session, and measuring the capacity.
_PREPARING_S = 75.0 + _CHECK_S + 5.0
#: What a run takes besides its schedule: its start, and its last batch.
_AROUND_S = 6.0
#: Windows that begin from here on hold none of a gate's first batches.
_LATER_S = 8.0
#: Reading all rows again for the truth, as a share of a run's time.
_TRUTH = 0.6


@dataclass(frozen=True)
class PeerPlan:
    """Which loads, and how long each peer has."""

    loads: Sequence[float] = (2.0, 5.0)
    arrivals: str = "bursts"
    trace: str = "web"
    seconds: float = 90.0
    seed: int = 0
    source: str = "kafka"
    #: What batches should take at most, and rows a second that count as the capacity; measured if None.
    target_s: float = TARGET_S
    capacity: float | None = None

    def __post_init__(self) -> None:
        if not self.loads or min(self.loads) <= 0:
            raise BadArgument(
                f"loads={self.loads!r}: give multiples of the capacity above 0, such as 2,5"
            )
        if self.seconds < 20.0:
            raise BadArgument(f"seconds={self.seconds:g}: give each peer 20 s or more, two windows")
        if self.source == "rate":
            raise BadArgument("source='rate' has no maxOffsetsPerTrigger: give kafka or files")

    @classmethod
    def of_minutes(cls, minutes: float, **more: Any) -> PeerPlan:
        """All of it in so many minutes.

        >>> PeerPlan.of_minutes(15, loads=(5.0,)).seconds
        163.0
        """
        plan = cls(**more)
        each = (60.0 * minutes - _PREPARING_S) / len(plan.loads) - len(PEERS) * _AROUND_S
        return replace(plan, seconds=float(int(each / (len(PEERS) + _TRUTH))))

    @classmethod
    def quick(cls, **more: Any) -> PeerPlan:
        """One load, half a minute for each."""
        given: dict[str, Any] = {"loads": (5.0,), "seconds": 30.0}
        return cls(**(given | more))


def run(
    *, quick: bool = False, plan: PeerPlan | None = None, plot: Path | None = None
) -> dict[str, Any]:
    """One row for each load and peer."""
    plan = plan or (PeerPlan.quick() if quick else PeerPlan())
    rows: list[dict[str, Any]] = []
    drawn: dict[str, Ran] = {}
    with bench_progress() as progress:
        task = progress.add_task("starting", total=1 + (len(PEERS) + 1) * len(plan.loads))
        with settings_of(
            plan.source,
            say=lambda text: progress.update(task, description=text),
            target_s=plan.target_s,
            capacity=plan.capacity,
        ) as here:
            (process,) = here.processes
            progress.update(task, description="measuring capacity")
            capacity = here.capacity(
                process, Query(results=str(here.fresh("unused"))), check_s=_CHECK_S, window_s=_WINDOW_S
            )
            progress.advance(task)
            for load in plan.loads:
                shape = factors(plan.arrivals, plan.seconds, seed=plan.seed, trace=plan.trace)
                schedule = Schedule(tuple((load * capacity * shape).tolist()), TICK_S)
                each = rows_each(load * capacity)
                ran: dict[str, tuple[Ran, str]] = {}
                for peer in PEERS:
                    progress.update(task, description=f"{load:g} times capacity: {peer}")
                    ran[peer] = _one(here, peer, load, capacity, schedule, each)
                    progress.advance(task)
                progress.update(task, description=f"{load:g} times capacity: the truth")
                true = _truth(here, ran["nothing"][0])
                progress.advance(task)
                rows += [_row(load, peer, *ran[peer], schedule, true, plan.target_s) for peer in PEERS]
                drawn = {peer: ran[peer][0] for peer in PEERS}
            source, remarks = here.source, here.remarks
    if plot is not None:
        from headgate_lab.bench.hold.peers_plot import save_plot

        save_plot(drawn, plan.loads[-1], plan.target_s, plot)
    context = {
        "target_s": plan.target_s,
        "capacity_rows_s": round(capacity),
        "source": source,
        "arrivals": plan.arrivals,
        "seconds": plan.seconds,
        "seed": plan.seed,
        "rows_a_message": each,
        "tables": {f"the same rows through {source}, {plan.arrivals}": rows},
        "remarks": remarks,
    }
    return {"bench": "peers", "ratios": _ratios(rows, plan.target_s), "context": context}


def _one(
    here: Setting, peer: str, load: float, capacity: float, schedule: Schedule, each: int
) -> tuple[Ran, str]:
    """A run, and where its answers are."""
    results = str(here.fresh("answers"))
    shedding = {
        "nothing": Shedding(),
        "cap": Shedding(),
        "filter": Shedding("filter", rate=min(1.0, 1.0 / load)),
        "headgate": Shedding("gate", hold_s=here.target_s, control=str(here.fresh("control"))),
    }[peer]
    (process,) = here.processes
    cap = capacity * here.target_s if peer == "cap" else None
    query = Query(results=results)
    return here.run(process, schedule, shedding, query=query, rows=each, cap_rows=cap), results


def _truth(here: Setting, ran: Ran) -> Said:
    """Of the rows that one of the runs was sent; the others' are the same."""
    assert ran.topic is not None
    path = str(here.fresh("truth"))
    (process,) = here.processes
    process.truth(TruthOrder(ran.topic, Query(results=path)))
    return read_said(path)


def _row(
    load: float, peer: str, ran: Ran, results: str, schedule: Schedule, true: Said, target_s: float
) -> dict[str, Any]:
    batches, ended = ran.answered.batches, ran.began + schedule.seconds
    # A batch that began before the schedule's end may have ended after it, and counts.
    ended = max(ended, max((b.ended_at for b in batches), default=ended))
    delays, weights = row_delays(batches, schedule, ran.began, ended)
    arrived, kept = (sum(getattr(b, n) for b in ran.answered.ended) for n in ("arrived", "kept"))
    # A window whose last row came within the last two targets may be on its way.
    said, last = read_said(results), schedule.seconds - _WINDOW_S - 2 * target_s
    found = errors(said, true, last)
    # The first batches show what a row costs, and few of their rows are kept; these windows have none.
    later = errors(said, true, last, first_begin=_LATER_S)
    inside = [inside_target(b, target_s) for b in batches]
    return {
        "load": load,
        "peer": peer,
        "p50 delay": round(weighted_quantile(delays, weights, 0.5), 2),
        "p95 delay": round(weighted_quantile(delays, weights, 0.95), 2),
        "max delay": round(float(np.max(delays[weights > 0], initial=0.0)), 2),
        "inside": round(sum(inside) / len(inside), 4) if inside else 0.0,
        "kept": round(kept / arrived, 4) if arrived else None,
        "mean off": found.mean,
        "median off": found.median,
        "mean off, later": later.mean,
        "answered": found.answered,
        "backlog rows": backlog(batches, schedule, ran.began, ended),
        "batches": len(batches),
    }


def _ratios(rows: list[dict[str, Any]], target_s: float) -> dict[str, float]:
    """Everybody's worst delay in targets, the answers that they had, and how far these were off."""
    found: dict[str, float] = {}
    for row in rows:
        end = f"{row['peer']}_at_{row['load']:g}"
        found[f"p95_delay_targets_{end}"] = round(row["p95 delay"] / target_s, 2)
        found[f"answered_{end}"] = row["answered"]
        for name in ("mean off", "median off"):
            if row[name] is not None:
                found[f"{name.replace(' ', '_')}_{end}"] = row[name]
    return found
