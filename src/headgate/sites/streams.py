"""What one stream of a site costs, and whether its batches keep their time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from headgate.core.load import LoadSample
from headgate.sites.row_cost import RowCost
from headgate.sites.tuning import SiteTuning

__all__ = ["StreamCost"]


class StreamCost:
    """Task time = a + b x rows kept, over a stream's gates; and the latest batch against its target.

    themis-2016 (section 6) divides time by tuples. A micro-batch has a fixed price that is no
    tuple's, so after an idle time that is wrong by an order of magnitude; here both are fitted.
    """

    def __init__(self, hold_s: float, tuning: SiteTuning | None = None) -> None:
        tuning = tuning or SiteTuning()
        self.hold_s = hold_s
        self._tuning, self._aim = tuning.stream, tuning.capacity.aim
        self._holds: dict[str, float] = {}
        #: Whether rows of other fragments come in with it.
        self.derived = False
        self._fit = RowCost(tuning.price)
        #: The same of how long batches last, whatever cores they get and however few their tasks are.
        self._lasts = RowCost(tuning.price)
        self._batch = -1
        self._heard: set[str] = set()
        self._kept = 0.0
        self._last: LoadSample | None = None
        self._batches = 0
        self._rows = 0.0
        self._work = 0.0
        #: The last batch as a share of what it may take; 0 if fewer rows would not have helped.
        self.lateness = 0.0
        #: How much longer than its target that took; 0 if fewer rows would not have helped.
        self.overran_s = 0.0
        #: The most rows that its own batches can take, where it is late all by itself.
        self._most = math.inf
        self.duration_s = 0.0
        self.heard_s = 0.0
        #: When it was last seen to be processing a batch.
        self.at_work_s = 0.0
        self.interval_s = hold_s
        #: The trigger's interval; 0 where it has none, or nobody knows it.
        self.trigger_s = 0.0

    def enter(self, gate: str, hold_s: float) -> None:
        """Count this gate as part of the stream; the strictest target of its gates holds."""
        self._holds[gate] = hold_s
        self.hold_s = min(self._holds.values())

    def leave(self, gate: str) -> None:
        """Count this gate as part no longer: batches are complete without it."""
        self._holds.pop(gate, None)
        self.hold_s = min(self._holds.values(), default=self.hold_s)

    def add(self, gate: str, sample: LoadSample, cores: float, now_s: float) -> bool:
        """A gate's part of a batch; true when the batch is complete and was taken in.

        `cores` is how many it had while others ran too.
        """
        self.heard_s = now_s
        ended = False
        if sample.batch_id != self._batch:
            ended = self._close(cores)
            self._batch, self._kept = sample.batch_id, 0.0
            self._heard = set()
            self._batches += 1
        if gate in self._heard:
            return ended
        self._heard.add(gate)
        self._kept += sample.kept
        self._last = sample
        if self._heard >= self._holds.keys():
            ended = self._close(cores)
        return ended

    def _close(self, cores: float) -> bool:
        sample, self._last = self._last, None
        if sample is None:
            return False
        work = sample.duration_s if sample.work_s is None else sample.work_s
        cold = self._batches <= self._tuning.cold
        self._fit.add(self._kept, work, cold)
        self._lasts.add(self._kept, sample.duration_s, cold)
        self.duration_s = sample.duration_s
        self.trigger_s = sample.interval_s or 0.0
        self.interval_s = max(sample.interval_s or self.hold_s, 0.05)
        self._rows = self._kept
        self._work = work
        on_rows_s = max(self._fit.blamed_s / cores, self._lasts.blamed_s) * self._kept
        # Where a batch would be late without any rows too, shedding is not what helps.
        share = self._tuning.on_rows
        helps = on_rows_s >= max(share * sample.duration_s, sample.duration_s - self.hold_s)
        self.lateness = sample.duration_s / self.hold_s if helps and not cold else 0.0
        self.overran_s = max(0.0, sample.duration_s - self.hold_s) if helps or cold else 0.0
        return True

    def own_limit(self) -> None:
        """Limit the rows of the next batches: this one was late, and not because of other streams."""
        self._most = max(1.0, self._rows) * self._aim / self.lateness

    def relax(self) -> None:
        """Raise the stream's own limit a little, if its last batch came near it."""
        tuning = self._tuning
        if self._rows >= tuning.near * self._most:
            easy = self.duration_s <= tuning.easy * self.hold_s
            self._most *= tuning.leap if easy else tuning.step

    def most_rows(self, cores: float) -> float:
        """The most rows that a batch can have and still end within the target, with so many cores."""
        whole = cores * self.hold_s
        if self._fit.surely_fixed_s > self._tuning.most_fixed * whole:
            return self._most  # late whatever its rows: fewer would not help
        return min(self._most, self._fit.rows_within(whole))

    @property
    def usage(self) -> float:
        """Cores that its last batch took, over its interval."""
        return self._work / max(self.interval_s, self.duration_s)

    @property
    def usage_on_rows(self) -> float:
        """The part of `usage` that its rows took."""
        return min(self._work, self._fit.blamed_s * self._rows) / max(self.interval_s, self.duration_s)

    def collects_s(self, now_s: float) -> float:
        """Seconds over which the next batch collects its rows: as long as the running one takes."""
        running = now_s - self.heard_s
        return max(self.interval_s, self.duration_s, 0.0 if self.silent(now_s) else running)

    def seen_s(self) -> float:
        """When it was last known to have something to do."""
        return max(self.heard_s, self.at_work_s)

    def silent(self, now_s: float) -> bool:
        """Whether it has stopped, or has nothing to do."""
        of_batches = self._tuning.silent_batches * max(self.interval_s, self.duration_s)
        return now_s - self.seen_s() > max(self._tuning.silent_s, of_batches)

    @property
    def known(self) -> bool:
        """Whether a batch with rows was seen."""
        return self._fit.known

    @property
    def per_row_s(self) -> float:
        """Task seconds for each row kept."""
        return self._fit.per_row_s

    @property
    def most_per_row_s(self) -> float:
        """The most task seconds that a row can cost."""
        return self._fit.blamed_s

    @property
    def surely_fixed_per_second(self) -> float:
        """The part of `fixed_per_second` that is proved."""
        return self._fit.surely_fixed_s / max(self.interval_s, self.duration_s)

    @property
    def batch_s(self) -> float:
        """Seconds that a batch covers, if batches end in time."""
        return max(self.interval_s, min(self.duration_s, self.hold_s))

    @property
    def fixed_per_second(self) -> float:
        """Task seconds, each second, that rows have nothing to do with."""
        return self._fit.fixed_s / max(self.interval_s, self.duration_s)

    def snapshot(self) -> dict[str, Any]:
        """What was learned, as JSON."""
        return self._fit.snapshot()

    def restore(self, value: Mapping[str, Any]) -> None:
        """Go on from `snapshot`."""
        self._fit.restore(value)
