"""`Recording`: what is known of the batches of a time, whoever wrote it down."""

from __future__ import annotations

import bisect
import itertools
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from headgate.errors import BadArgument
from headgate.whatif.arrivals import CountedArrivals

__all__ = ["LEAST_BATCHES", "Outage", "RecordedBatch", "Recording"]

#: Fewer batches with rows say too little of what rows cost.
LEAST_BATCHES = 20
#: So many gaps in front of batches that waited, and so equal to each other, are a trigger's interval.
_LEAST_WAITS, _WAITED, _EQUAL = 3, 1.05, 0.1


@dataclass(frozen=True)
class RecordedBatch:
    """One batch as somebody recorded it; of a trace, the rows that came in a stretch of time."""

    #: Seconds since 1970.
    started_at: float
    arrived: int
    kept: int
    #: None in a trace, which knows nothing of batches.
    duration_s: float | None = None
    number: int | None = None
    #: From the arrival of its oldest row to its end; None where nobody measured it.
    delay_s: float | None = None
    #: Rows that the source held and did not hand out; None where it does not say.
    backlog: int | None = None
    #: Rows by group key, where they were counted.
    groups: Mapping[int, int] = field(default_factory=dict)
    #: Which start of the query it belongs to; empty where nobody says.
    run: str = ""


@dataclass(frozen=True)
class Outage:
    """A time in which the query was down and rows went on arriving, in seconds since the beginning."""

    from_s: float
    until_s: float


@dataclass(frozen=True)
class Recording:
    """Batches in order, and what is known around them.

    >>> batches = [RecordedBatch(100.0 + n, 500, 500, 0.4) for n in range(30)]
    >>> seen = Recording(tuple(batches))
    >>> seen.rows, seen.trigger_s, seen.arrivals().until(10.0)
    (14500, 1.0, 5000)
    """

    batches: tuple[RecordedBatch, ...]
    #: ``progress``, ``ledger`` or ``trace``.
    kind: str = "progress"
    #: Names of the groups that were counted, by key.
    labels: Mapping[int, str] = field(default_factory=dict)
    #: The groups of which nothing is shed while others have rows, most valuable first.
    first_groups: tuple[str, ...] = ()
    #: What the source hands out at once: whole seconds, where it is Spark's rate source.
    granule_s: float = 0.0
    #: The interval of the trigger where somebody said it; else it is read off the batches.
    told_trigger_s: float | None = None
    told_cap: int | None = None
    #: Batches before the first of these, which were not read.
    left_out: int = 0
    #: What somebody who reads an answer should know of how it was recorded.
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if sum(b.arrived > 0 for b in self.batches) < LEAST_BATCHES:
            found = sum(b.arrived > 0 for b in self.batches)
            raise BadArgument(
                f"{found} batches were recorded then: choose a time with at least {LEAST_BATCHES} that "
                "brought rows"
            )

    @classmethod
    def of(cls, batches: Iterable[RecordedBatch], most: int, **known: object) -> Recording:
        """In order of their starts, each later than the one before; the latest `most` of them."""
        ordered: list[RecordedBatch] = []
        for batch in sorted(batches, key=lambda b: b.started_at):
            if ordered and batch.started_at <= ordered[-1].started_at:
                ordered.pop()  # reported twice, or run again at once: the last report counts
            ordered.append(batch)
        left_out = max(0, len(ordered) - most)
        return cls(tuple(ordered[left_out:]), left_out=left_out, **known)  # type: ignore[arg-type]

    @property
    def batched(self) -> bool:
        """Whether it knows how long batches took; a trace does not."""
        return self.kind != "trace"

    @property
    def begins_cold(self) -> bool:
        """Whether the first of its batches is the first that the query ever ran."""
        return self.batches[0].number == 0

    @cached_property
    def judged(self) -> list[RecordedBatch]:
        """Batches with rows whose rows come again in virtual time: all but those of the first one.

        What the first one brought had come before anything was recorded.
        """
        found = self.batches[1:] if self.batched else self.batches
        return [b for b in found if b.arrived > 0]

    @property
    def rows(self) -> int:
        """Rows that come again."""
        return sum(self._came)

    @cached_property
    def shed(self) -> int:
        """Rows that were shed in fact."""
        return sum(b.arrived - b.kept for b in self.batches)

    @cached_property
    def origin(self) -> float:
        """The instant that is 0 in virtual time: so that triggers and whole seconds fall as they did."""
        grid = max(self.granule_s, self.trigger_s)
        first = self.batches[0].started_at
        return math.floor(first / grid) * grid if grid > 0 else first

    @cached_property
    def edges(self) -> list[float]:
        """The starts in virtual time; of a trace, with the end of its last stretch."""
        starts = [b.started_at - self.origin for b in self.batches]
        if self.batched:
            return starts
        gaps = [b - a for a, b in itertools.pairwise(starts)]
        return [*starts, starts[-1] + statistics.median(gaps)]

    @property
    def span_s(self) -> float:
        """How long it is."""
        return self.edges[-1] - self.edges[0]

    def arrivals(self) -> CountedArrivals:
        """The rows as they came: those of a batch since the start of the one before it.

        What a source holds back came then, too: it grew by as much as it was not handed out.
        """
        return CountedArrivals(self.edges, self._came, self.granule_s)

    @cached_property
    def _came(self) -> list[int]:
        if not self.batched:
            return [b.arrived for b in self.batches]
        came: list[int] = []
        owed = 0
        for before, batch in itertools.pairwise(self.batches):
            rows = batch.arrived + owed
            if before.backlog is not None and batch.backlog is not None:
                rows += batch.backlog - before.backlog
            owed = min(0, rows)  # a topic that was cut off: nothing comes until that is made up for
            came.append(max(0, rows))
        return came

    @cached_property
    def trigger_s(self) -> float:
        """The trigger's interval; 0 where batches follow each other at once, or nobody can tell."""
        if self.told_trigger_s is not None:
            return self.told_trigger_s
        gaps = [
            after.started_at - before.started_at
            for before, after in itertools.pairwise(self.batches)
            if before.duration_s is not None
            and after.started_at - before.started_at > _WAITED * before.duration_s + 0.02
            and before.run == after.run
            and before.arrived > 0
            and after.arrived > 0  # an idle query reports now and then
        ]
        if len(gaps) < _LEAST_WAITS:
            return 0.0
        usual = statistics.median(gaps)
        equal = sum(abs(gap - usual) <= _EQUAL * usual for gap in gaps)
        if 2 * equal < len(gaps):
            return 0.0  # pauses of the stream, and no trigger
        return round(usual, 1) if usual >= 0.5 else round(usual, 2)

    @cached_property
    def source_cap(self) -> int | None:
        """What the source hands out at most in a batch, where it held rows back behind equal ones."""
        if self.told_cap is not None:
            return self.told_cap
        held_back = [b.arrived for b in self.batches if b.backlog and b.arrived > 0]
        if len(held_back) < _LEAST_WAITS:
            return None
        rows, often = Counter(held_back).most_common(1)[0]
        return rows if 2 * often >= len(held_back) else None

    @property
    def tells_backlog(self) -> bool:
        """Whether the source says what it holds back."""
        return any(b.backlog is not None for b in self.batches)

    @cached_property
    def outages(self) -> list[Outage]:
        """When the query was down, as far as starts of it are told apart."""
        found = []
        for before, after in itertools.pairwise(self.batches):
            if before.run and after.run and before.run != after.run:
                ended = before.started_at + (before.duration_s or 0.0)
                found.append(Outage(ended - self.origin, after.started_at - self.origin))
        return found

    def mix_at(self, at: float) -> dict[int, float]:
        """The groups' shares of the rows that came at an instant of virtual time."""
        index = self._batch_at(at)
        batch = self.batches[min(index + 1 if self.batched else index, len(self.batches) - 1)]
        total = max(batch.arrived, sum(batch.groups.values()))
        return {key: batch.groups.get(key, 0) / total if total else 0.0 for key in self.labels}

    def _batch_at(self, at: float) -> int:
        return max(0, bisect.bisect_right(self.edges, at) - 1)

    def told(self, **known: object) -> Recording:
        """The same with what somebody says of it."""
        return replace(self, **{k: v for k, v in known.items() if v is not None})  # type: ignore[arg-type]
