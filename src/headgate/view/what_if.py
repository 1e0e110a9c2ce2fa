"""What if the target had been another one? The recorded batches once more, in virtual time.

The rows come as they came. What batches cost is fitted to the records with the controller's own fit, and
the shipped controller runs in the shipped engine (`headgate.whatif`), once with the settings that hold
and once with those asked about, so that what the model leaves out is left out of both.
"""

from __future__ import annotations

import bisect
import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from headgate.control.batch_cost import BatchCost
from headgate.errors import BadArgument
from headgate.settings import GateSettings
from headgate.store.ledger.record import Record
from headgate.view.wording import count_text, seconds_text, share_text
from headgate.whatif.microbatch import BatchRun, Cost, MicroBatches, Workload

__all__ = ["LEAST_BATCHES", "Outcome", "WhatIf", "what_if"]

#: Fewer batches say too little of what rows cost; more would take longer than somebody waits.
LEAST_BATCHES, MOST_BATCHES = 20, 4000


@dataclass(frozen=True)
class Outcome:
    """What became of the rows, and how many batches were inside the target."""

    kept: float
    inside: float
    longest_s: float


@dataclass(frozen=True)
class WhatIf:
    """As it was recorded, and in virtual time with the settings that hold and with those asked about."""

    batches: int
    arrived: int
    recorded: Outcome
    held: Outcome
    asked: Outcome
    target_s: float
    asked_s: float

    @property
    def sentence(self) -> str:
        """The answer in words."""
        return (
            f"In these {self.batches:,} batches with {count_text(self.arrived)} rows, a target of "
            f"{seconds_text(self.asked_s)} would have kept about {share_text(self.asked.kept)} of the "
            f"rows, with {share_text(self.asked.inside)} of the batches inside it. The target of "
            f"{seconds_text(self.target_s)} keeps {share_text(self.held.kept)} in the same virtual "
            f"time; {share_text(self.recorded.kept)} were kept in fact."
        )


def what_if(records: Sequence[Record], settings: GateSettings, target_s: float) -> WhatIf:
    """The records of a time once more, with another target of the same kind.

    >>> from headgate.core.plan import KEEP_ALL
    >>> batches = [
    ...     Record("g", "q", n, 20_000, 20_000, 0, KEEP_ALL, started_at=100.0 + 2 * n, duration_s=1.5)
    ...     for n in range(60)
    ... ]
    >>> found = what_if(batches, GateSettings(hold="2 seconds"), 1.0)
    >>> found.recorded.kept, found.asked.kept < 0.8 < found.held.kept
    (1.0, True)
    """
    if settings.target_s is None:
        raise BadArgument(
            "a gate with a fixed share has no target to ask about: set hold or delay first"
        )
    if len(records) < LEAST_BATCHES:
        raise BadArgument(
            f"{len(records)} batches were recorded then: choose a time with at least {LEAST_BATCHES}"
        )
    records = list(records)[-MOST_BATCHES:]
    kind = "delay" if settings.delay is not None else "hold"
    asked = settings.changed({kind: target_s, "mode": "shed"})
    held = settings.changed({kind: settings.target_s, "mode": "shed"})
    workload, span_s = _workload(records, settings.target_s)
    values = [r.duration_s if kind == "hold" or r.delay_s is None else r.delay_s for r in records]
    arrived = sum(r.arrived for r in records)
    recorded = Outcome(
        kept=sum(r.kept for r in records) / arrived if arrived else 1.0,
        inside=sum(v <= settings.target_s for v in values) / len(values),
        longest_s=max(values),
    )
    return WhatIf(
        batches=len(records),
        arrived=arrived,
        recorded=recorded,
        held=_run(workload, held, span_s),
        asked=_run(workload, asked, span_s),
        target_s=settings.target_s,
        asked_s=target_s,
    )


def _run(workload: Workload, settings: GateSettings, span_s: float) -> Outcome:
    engine = MicroBatches(workload, settings.controller_config())
    batches: list[BatchRun] = []
    while engine.now < span_s and len(batches) < 2 * MOST_BATCHES:
        batches += engine.run(1)
    arrived = sum(b.arrived for b in batches)
    values = [b.duration if settings.delay is None else b.delay for b in batches]
    target_s = settings.target_s or 0.0
    return Outcome(
        kept=sum(b.kept for b in batches) / arrived if arrived else 1.0,
        inside=sum(v <= target_s for v in values) / len(values),
        longest_s=max(values),
    )


def _workload(records: Sequence[Record], target_s: float) -> tuple[Workload, float]:
    """The rows as they came, and what they cost by the fit after the last of these batches."""
    cost = BatchCost(target_s=target_s)
    for record in records:
        if record.arrived > 0:
            cost.add(record.kept, record.arrived, record.duration_s)
    starts = [r.started_at - records[0].started_at for r in records]
    gaps = [b - a for a, b in itertools.pairwise(starts)]
    rates = [r.arrived / gap if gap > 0 else 0.0 for r, gap in zip(records[1:], gaps, strict=True)]

    def rate(at: float) -> float:
        index = bisect.bisect_right(starts, at) - 1
        return rates[min(max(index, 0), len(rates) - 1)]

    paused = [gap for r, gap in zip(records, gaps, strict=False) if gap > 1.05 * r.duration_s]
    trigger = statistics.median(paused) if 2 * len(paused) > len(gaps) else 0.0
    price = Cost(cost.fixed_s, cost.per_kept_s, cost.per_arrived_s, noise=min(0.5, cost.noise))
    return Workload(rate, price, trigger_s=round(trigger, 1)), starts[-1]
