"""A site in virtual time: streams on shared cores, steered by the shipped classes.

The cores are shared equally among the batches that compute (a batch has tasks enough for all of them),
after a time in which only its driver works. As on Spark, a stream without rows runs no batch, a plan
holds from the start of a batch, and the site sees which streams are at work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from headgate.control import Controller
from headgate.core.load import LoadSample
from headgate.sites.allocator import SiteAllocator, SiteSettings
from headgate.sites.controller import SiteShare

STEP = 0.05


@dataclass
class Stream:
    """One stream with one gate: rows a second as a function of time, and what they cost."""

    query: str
    rate: Callable[[float], float]
    trigger_s: float = 1.0
    fixed_task_s: float = 0.05
    fixed_wall_s: float = 0.2
    per_row_s: float = 1e-4
    weight: float = 1.0
    priority: int = 0
    hold_s: float | None = None
    agreed: float | None = None
    #: What each row is worth that another fragment sent; None for a source's rows.
    brings: float | None = None
    start: float | None = None
    #: The most cores that a batch can use.
    parallel: float = float("inf")
    gate: str = ""
    controller: Controller | None = None
    keep: float = 1.0
    sic: float = 0.0
    waiting: float = 0.0
    batch: int = -1
    due: bool = False
    started: float | None = None
    arrived: float = 0.0
    kept: float = 0.0
    left_wall: float = 0.0
    left_task: float = 0.0
    worth: float = 0.0
    durations: list[tuple[float, float]] = field(default_factory=list)
    #: When a batch ended, rows that arrived, rows kept.
    history: list[tuple[float, float, float]] = field(default_factory=list)


class VirtualSite:
    """Runs streams by processor sharing, in steps of a twentieth of a second."""

    def __init__(self, streams: list[Stream], cores: float = 2.0, **settings: object) -> None:
        self.now = 0.0
        #: How far the wall clock, which batches are reported in, is ahead of the other one.
        self.wall_jump = 0.0
        self.cores = cores
        self.lock = threading.RLock()
        values = {"stw_s": 10.0, "hold_s": 1.0, "delay_s": 2.0} | settings
        self.shares = SiteAllocator(SiteSettings(name="s", cores=cores, **values))  # type: ignore[arg-type]
        self.streams: list[Stream] = []
        self.sics: list[tuple[float, dict[str, float]]] = []
        for stream in streams:
            self.join(stream)

    def join(self, stream: Stream) -> Stream:
        stream.gate = stream.gate or f"{stream.query}-{len(self.streams)}"
        self.shares.declare(stream.query, weight=stream.weight, priority=stream.priority)
        self.shares.enter(
            stream.gate,
            query=stream.query,
            source=stream.gate if stream.brings is None else None,
            hold_s=stream.hold_s,
            agreed=stream.agreed,
            start=stream.start,
        )
        stream.controller = SiteShare(
            stream.gate, self.shares, self.lock, clock=lambda: self.now
        ).build()
        stream.keep = stream.controller.opening(self.now).keep
        self.streams.append(stream)
        return stream

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP)):
            self._step()

    def _step(self) -> None:
        before = self.now
        self.now = before + STEP
        if int(self.now) > int(before):
            self._tick()
        for stream in self.streams:
            stream.waiting += stream.rate(self.now) * STEP
            if int(self.now / stream.trigger_s) > int(before / stream.trigger_s):
                stream.due = True
            if stream.started is None and stream.due and stream.waiting >= 1.0:
                self._begin(stream)
        computing = [s for s in self.streams if s.started is not None and s.left_wall <= 0]
        for stream in self.streams:
            if stream.started is None:
                continue
            if stream.left_wall > 0:
                stream.left_wall -= STEP
            else:
                stream.left_task -= STEP * min(stream.parallel, self.cores / len(computing))
            if stream.left_wall <= 1e-9 and stream.left_task <= 1e-9:
                self._end(stream)

    def _tick(self) -> None:
        self.shares.at_work([s.gate for s in self.streams if s.started is not None], self.now)
        self.shares.decide(self.now)
        self.sics.append((self.now, {q: v.sic for q, v in self.shares.views(self.now).items()}))
        for stream in self.streams:
            assert stream.controller is not None
            revised = stream.controller.revised() if stream.history else None
            if revised is not None:
                stream.keep, stream.sic = revised.keep, revised.sic or 0.0

    def _begin(self, stream: Stream) -> None:
        stream.due = False
        stream.batch += 1
        stream.started = self.now
        stream.arrived, stream.waiting = stream.waiting, 0.0
        stream.kept = stream.arrived * stream.keep
        stream.worth = stream.sic if stream.brings is None else stream.brings
        stream.left_wall = stream.fixed_wall_s
        stream.left_task = stream.fixed_task_s + stream.per_row_s * stream.kept

    def _end(self, stream: Stream) -> None:
        assert stream.started is not None
        assert stream.controller is not None
        duration = self.now - stream.started
        sample = LoadSample(
            batch_id=stream.batch,
            started_at=stream.started + self.wall_jump,
            duration_s=duration,
            arrived=round(stream.arrived),
            kept=round(stream.kept),
            stream=stream.gate,
            work_s=stream.fixed_task_s + stream.per_row_s * stream.kept,
            interval_s=stream.trigger_s,
            sic_kept=stream.kept * stream.worth,
            sic_arrived=stream.arrived * (stream.brings or 0.0),
        )
        budget = stream.controller.decide(sample)
        stream.keep, stream.sic = budget.keep, budget.sic or 0.0
        stream.durations.append((self.now, duration))
        stream.history.append((self.now, stream.arrived, stream.kept))
        stream.started = None

    def kept_share(self, stream: Stream, since: float, until: float = float("inf")) -> float:
        rows = [(a, k) for at, a, k in stream.history if since <= at < until]
        return sum(k for _, k in rows) / max(1e-9, sum(a for a, _ in rows))

    def inside(self, stream: Stream, since: float) -> float:
        hold = stream.hold_s or self.shares.settings.hold_s
        taken = [d for at, d in stream.durations if at >= since]
        return sum(d <= hold + 1e-9 for d in taken) / max(1, len(taken))

    def mean_sic(self, since: float) -> dict[str, float]:
        """The time average of each query's SIC."""
        seen: dict[str, list[float]] = {}
        for at, sics in self.sics:
            for query, sic in sics.items():
                if at >= since and sic == sic:
                    seen.setdefault(query, []).append(sic)
        return {query: sum(values) / len(values) for query, values in seen.items()}


def mixed() -> list[Stream]:
    """Together four times what two cores can do; triggers, targets and prices differ."""
    return [
        Stream("a", lambda t: 20_000, trigger_s=1.0, per_row_s=1e-4),
        Stream("b", lambda t: 5000, trigger_s=2.0, per_row_s=4e-4, hold_s=2.0),
        Stream("c", lambda t: 10_000, trigger_s=0.5, per_row_s=2e-4, hold_s=0.8),
    ]
