"""What a site knows of each gate and each query: counts, SIC, and what coordinators say."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field, replace

from headgate.control.arrivals import ArrivalRate
from headgate.core.load import LoadSample, SicFlow
from headgate.sites.agreed import Agreed
from headgate.sites.windowed_rate import WindowedRate

__all__ = ["GateAccount", "OneStream", "QueryAccount", "QueryView", "CoordinatorUpdate", "cleaned"]

#: No batch has so many rows, and none takes so long; Spark's clock ticks in milliseconds.
_LARGEST, _TICK_S = 1e12, 1e-3
#: A stream from before takes over after so many reports in a row: two that run beside each other report
#: in turn, so five in a row are one that is alone.
_TAKES_OVER = 5


@dataclass(frozen=True)
class CoordinatorUpdate:
    """What a coordinator said of a query: its SIC (None while nobody knows), and its sources."""

    sic: float | None
    sources: int
    #: When its root measured that, by this site's clock.
    at_s: float
    #: What all sites together accepted, and when the coordinator said so.
    accepted: float | None = None
    heard_s: float = -math.inf


class OneStream:
    """The stream that an account is kept of; a frame written to two sinks is two streams.

    Both would bring every row, and count it twice. A stream that takes over from another is a restart
    with a new checkpoint; one that reports again after another took over runs beside it, unless that
    other one is not heard of any more.
    """

    def __init__(self) -> None:
        self.name = ""
        self._batch = -1
        self._before: deque[str] = deque(maxlen=8)
        #: Reports of streams from before since the last one of this stream.
        self._beside = 0
        #: Whether a second stream was found.
        self.two = False

    def counts(self, stream: str, batch: int) -> bool:
        """Whether to count this batch; one that runs again was counted before."""
        if stream == self.name:
            self.two = self.two or self._beside > 0
            self._beside = 0
            is_new, self._batch = batch > self._batch, max(batch, self._batch)
            return is_new
        if stream in self._before:
            self._beside += 1
            if self._beside < _TAKES_OVER:
                return False
            self._before.remove(stream)
        if self.name:
            self._before.append(self.name)
        self.name, self._batch, self._beside = stream, batch, 0
        return True


@dataclass
class GateAccount:
    """One gate: its rows a second, their SIC, and what the last decision granted it."""

    query: str
    #: None for derived rows.
    source: str | None
    hold_s: float
    agreed: Agreed
    runs_in: OneStream = field(default_factory=OneStream)
    arrivals: ArrivalRate = field(default_factory=ArrivalRate)
    offered: WindowedRate = field(default_factory=lambda: WindowedRate(10.0))
    accepted: WindowedRate = field(default_factory=lambda: WindowedRate(10.0))
    #: Of derived rows: the SIC that arrived.
    brought: WindowedRate = field(default_factory=lambda: WindowedRate(10.0))
    #: The share of rows that the last decision keeps; None while nothing is known of its rows.
    rate: float | None = None
    #: A person's keep rate for the first batch; None leaves it to the site.
    start: float | None = None
    #: Rows a second that the last decision granted; None where it kept all, or there was none.
    quota: float | None = None
    #: Rows a second of a batch whose size is known: what was granted, and room for what comes in lumps
    #: where that is all; None where nothing limits them, or nothing is known of its rows.
    per_s: float | None = None
    #: What the latest decisions granted.
    grants: deque[float] = field(default_factory=deque)
    sic: float = 0.0
    batches: int = 0
    heard_s: float = 0.0

    @property
    def stream(self) -> str:
        """The stream that it is in; empty before its first batch."""
        return self.runs_in.name

    @property
    def derived(self) -> bool:
        """Whether its rows come from another fragment of the query."""
        return self.source is None


@dataclass(frozen=True)
class QueryView:
    """A query as its site sees it now."""

    #: The share of the source information that reached the result; of the whole query if someone knows.
    sic: float
    #: Who says so: ``coordinator``, ``result`` (measured here) or ``site`` (what was accepted here).
    told_by: str
    #: What this site accepted of the query's sources, as a share of the whole query's.
    accepted: float
    share: float
    weight: float
    sources: int


@dataclass
class QueryAccount:
    """One query: what was declared of it, and what its results show."""

    weight: float = 1.0
    priority: int = 0
    #: All sources of the query, here and elsewhere, where someone has said so.
    of: tuple[str, ...] | None = None
    results: WindowedRate | None = None
    #: Whether any result has come out.
    came: bool = False
    #: The stream that they come out of.
    results_of: OneStream = field(default_factory=OneStream)
    #: The share of what is accepted that reaches the result, and since when the query runs here.
    passes: float = 1.0
    since_s: float | None = None


def cleaned(sample: LoadSample) -> LoadSample:
    """The sample with 0 for what is no amount: one NaN would be in every sum for a whole window."""
    work, interval = sample.work_s, sample.interval_s
    return replace(
        sample,
        duration_s=_amount(sample.duration_s),
        arrived=int(_amount(sample.arrived)),
        kept=int(_amount(sample.kept)),
        work_s=work if work is not None and 0.0 <= work <= _LARGEST else None,
        interval_s=interval if interval is not None and _TICK_S <= interval <= _LARGEST else None,
        sic=SicFlow(_amount(sample.sic.arrived), _amount(sample.sic.kept)),
    )


def _amount(value: float) -> float:
    return value if 0.0 <= value <= _LARGEST else 0.0
