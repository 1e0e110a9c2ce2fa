"""A site in virtual time: streams on shared cores, steered by the shipped classes.

The cores are shared equally among the batches that compute (a batch has tasks enough for all of them),
after a time in which only its driver works. As on Spark, a stream without rows runs no batch, a plan
holds from the start of a batch and is made for the size that the batch then has, and the site sees which
streams are at work.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.control import Controller
from headgate.core.load import Budget, LoadSample, SicFlow
from headgate.sites.allocator import SiteAllocator
from headgate.sites.controller import SiteShare
from headgate.sites.settings import SiteSettings
from headgate.sites.shared import SharedSite

__all__ = ["Stream", "VirtualSite", "mixed"]

#: Seconds of virtual time in one step.
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
    #: What a row costs at a time, as a factor of `per_row_s`.
    price: Callable[[float], float] = lambda at: 1.0
    #: How far batches' costs vary: rows and the fixed price are multiplied by a draw each, from
    #: 1 - noise to 1 + noise.
    noise: float = 0.0
    #: The same of what a batch costs besides its rows: neighbours on the same cores come and go.
    fixed: Callable[[float], float] = lambda at: 1.0
    #: How many times as much the first two batches cost besides their rows: compiling, starting workers.
    cold: float = 1.0
    #: The share of batches whose report lacks almost all of their task time.
    lost_reports: float = 0.0
    weight: float = 1.0
    priority: int = 0
    hold_s: float | None = None
    agreed: float | None = None
    #: The SIC of each row that another fragment sent; None for a source's rows.
    brings: float | None = None
    #: The share of the accepted SIC that reaches the result, five seconds later; None: not measured.
    reaches: float | None = None
    start: float | None = None
    #: The most cores that a batch can use.
    parallel: float = float("inf")
    gate: str = ""
    #: Whether the source hands out whole seconds, as Spark's rate source does.
    whole_seconds: bool = False
    #: When the query is down, from and until: rows wait at the source.
    down: tuple[float, float] = (math.inf, math.inf)
    controller: Controller | None = None
    #: What the latest plan is made of.
    budget: Budget = field(default_factory=lambda: Budget(1.0, "idle"))
    #: The SIC of a row as the plan of the running batch had it.
    batch_sic: float = 0.0
    #: Rows that the source has not handed out yet, and when the latest batch began.
    not_whole: float = 0.0
    planned: float | None = None
    waiting: float = 0.0
    batch: int = -1
    due: bool = False
    started: float | None = None
    arrived: float = 0.0
    kept: float = 0.0
    left_wall: float = 0.0
    left_task: float = 0.0
    work: float = 0.0
    durations: list[tuple[float, float]] = field(default_factory=list)
    #: When a batch ended, rows that arrived, rows kept.
    history: list[tuple[float, float, float]] = field(default_factory=list)
    #: The SIC that each batch kept.
    accepted: list[float] = field(default_factory=list)
    #: Results that are on their way: when they come out, and their SIC.
    results: list[tuple[float, float]] = field(default_factory=list)


class VirtualSite:
    """Runs streams by processor sharing, in steps of a twentieth of a second."""

    def __init__(
        self,
        streams: list[Stream],
        cores: float = 2.0,
        *,
        noise_seed: int = 0,
        sizes_known: bool = True,
        **settings: Any,
    ) -> None:
        self.now = 0.0
        #: Whether plans are made for the size of their batch, as where the offset log can be read.
        self.sizes_known = sizes_known
        #: How far the wall clock, which batches are reported in, is ahead of the other one.
        self.wall_jump = 0.0
        self.cores = cores
        values: Mapping[str, Any] = {"stw_s": 10.0, "hold_s": 1.0, "delay_s": 2.0} | settings
        self.allocator = SiteAllocator(SiteSettings(name="s", cores=cores, **values))
        self._shared = SharedSite(self.allocator)
        self._random = random.Random(noise_seed)
        self.streams: list[Stream] = []
        self.sics: list[tuple[float, dict[str, float]]] = []
        for stream in streams:
            self.join(stream)

    def join(self, stream: Stream) -> Stream:
        """Add a stream now; its gate has its query's name and a number if it has none."""
        state = self.allocator.state
        stream.gate = stream.gate or f"{stream.query}-{len(self.streams)}"
        state.declare(stream.query, weight=stream.weight, priority=stream.priority)
        state.enter(
            stream.gate,
            query=stream.query,
            source=stream.gate if stream.brings is None else None,
            hold_s=stream.hold_s,
            agreed=stream.agreed,
            start=stream.start,
        )
        if stream.reaches is not None:
            state.will_measure(stream.query)
        stream.controller = SiteShare(stream.gate, self._shared, clock=lambda: self.now).build()
        stream.budget = stream.controller.opening(self.now)
        self.streams.append(stream)
        return stream

    def run(self, seconds: float) -> None:
        """Let so much time pass."""
        for _ in range(round(seconds / STEP)):
            self._step()

    def _step(self) -> None:
        before, now = self.now, self.now + STEP
        self.now = now
        second = int(now) > int(before)
        if second:
            self._tick()
        for stream in self.streams:
            stream.not_whole += stream.rate(now) * STEP
            if second or not stream.whole_seconds:
                stream.waiting, stream.not_whole = stream.waiting + stream.not_whole, 0.0
            if int(now / stream.trigger_s) > int(before / stream.trigger_s):
                stream.due = True
            down = stream.down[0] <= now < stream.down[1]
            if stream.started is None and stream.due and stream.waiting >= 1.0 and not down:
                self._begin(stream)
        at_work = [s for s in self.streams if s.started is not None]
        computing = [s for s in at_work if s.left_wall <= 0]
        for stream in at_work:
            if stream.left_wall > 0:
                stream.left_wall -= STEP
            else:
                stream.left_task -= STEP * min(stream.parallel, self.cores / len(computing))
            if stream.left_wall <= 1e-9 and stream.left_task <= 1e-9:
                self._end(stream)

    def _tick(self) -> None:
        state = self.allocator.state
        state.at_work([s.gate for s in self.streams if s.started is not None], self.now)
        self.allocator.decide(self.now)
        self.sics.append((self.now, {q: v.sic for q, v in state.views(self.now).items()}))
        for stream in self.streams:
            assert stream.controller is not None
            revised = stream.controller.revised() if stream.history else None
            if revised is not None:
                stream.budget = revised

    def _begin(self, stream: Stream) -> None:
        stream.due = False
        stream.batch += 1
        stream.started = self.now
        stream.arrived, stream.waiting = stream.waiting, 0.0
        covers_s = None if stream.planned is None else self.now - stream.planned
        stream.planned = self.now
        budget = stream.budget
        if self.sizes_known:
            budget = budget.at(round(stream.arrived), covers_s)
        stream.kept = stream.arrived * budget.keep
        stream.batch_sic = (budget.sic or 0.0) if stream.brings is None else stream.brings
        cold = stream.cold if stream.batch < 2 else 1.0
        rows = stream.per_row_s * stream.price(self.now) * stream.kept * self._varied(stream)
        stream.left_wall = stream.fixed_wall_s * cold
        fixed = stream.fixed_task_s * stream.fixed(self.now) * self._varied(stream)
        stream.work = fixed * cold + rows
        stream.left_task = stream.work

    def _varied(self, stream: Stream) -> float:
        if stream.noise == 0.0:
            return 1.0
        return self._random.uniform(1.0 - stream.noise, 1.0 + stream.noise)

    def _end(self, stream: Stream) -> None:
        assert stream.started is not None
        assert stream.controller is not None
        duration = self.now - stream.started
        lost = stream.lost_reports > 0.0 and self._random.random() < stream.lost_reports
        sample = LoadSample(
            batch_id=stream.batch,
            started_at=stream.started + self.wall_jump,
            duration_s=duration,
            arrived=round(stream.arrived),
            kept=round(stream.kept),
            stream=stream.gate,
            work_s=stream.work * (0.02 if lost else 1.0),
            interval_s=stream.trigger_s,
            sic=SicFlow(stream.arrived * (stream.brings or 0.0), stream.kept * stream.batch_sic),
        )
        budget = stream.controller.decide(sample)
        if stream.reaches is not None:
            self._give_out(stream, stream.reaches, sample)
        stream.budget = budget
        stream.durations.append((self.now, duration))
        stream.history.append((self.now, stream.arrived, stream.kept))
        stream.accepted.append(sample.sic.kept)
        stream.started = None

    def _give_out(self, stream: Stream, reaches: float, sample: LoadSample) -> None:
        """Results of earlier batches come out with this one."""
        stream.results.append((self.now + 5.0, reaches * sample.sic.kept))
        due = [sic for at, sic in stream.results if at <= self.now]
        stream.results = [(at, sic) for at, sic in stream.results if at > self.now]
        out = LoadSample(
            batch_id=sample.batch_id,
            started_at=sample.started_at,
            duration_s=sample.duration_s,
            arrived=len(due),
            kept=len(due),
            stream=sample.stream,
            interval_s=sample.interval_s,
            sic=SicFlow(sum(due)),
        )
        self.allocator.state.results(stream.query, out, self.now)

    def kept_share(self, stream: Stream, since: float, until: float = float("inf")) -> float:
        """The share of the rows that were kept, of batches that ended in that time."""
        rows = [(a, k) for at, a, k in stream.history if since <= at < until]
        return sum(k for _, k in rows) / max(1e-9, sum(a for a, _ in rows))

    def inside(self, stream: Stream, since: float) -> float:
        """The share of batches that ended within their target."""
        hold = stream.hold_s or self.allocator.settings.hold_s
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
