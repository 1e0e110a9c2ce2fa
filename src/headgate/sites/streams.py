"""What one stream of a site costs, and whether its batches keep their time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from headgate.core.load import LoadSample
from headgate.sites.row_cost import RowCost

__all__ = ["StreamCost"]

#: A stream has to spend this share of its batches on rows before its lateness says anything of shedding.
_ON_ROWS = 0.2
#: A stream that has not been heard of for so long, and for five of its batches, costs nothing.
_SILENT_S = 15.0
#: A batch that takes more than this of its time without any rows is not made good by fewer of them.
_MOST_FIXED = 0.75
#: How fast a stream's own limit is tried again, and how fast while batches take less than so much.
_STEP, _LEAP, _EASY = 1.06, 1.25, 0.5
#: A run's first batches pay for compiling and for starting workers: how far to believe them.
_COLD, _COLD_TRUST = 2, 0.1


class StreamCost:
    """Task time = a + b x rows kept, over a stream's gates; and the latest batch against its target.

    themis-2016 (section 6) divides time by tuples. A micro-batch has a fixed price that is no
    tuple's, so after an idle time that is wrong by an order of magnitude; here both are fitted.
    """

    def __init__(self, hold_s: float) -> None:
        self.hold_s = hold_s
        self._holds: dict[str, float] = {}
        #: Whether rows of other fragments come in with it.
        self.derived = False
        self._fit = RowCost()
        #: The same of how long batches last, whatever cores they get and however few their tasks are.
        self._lasts = RowCost()
        self._batch = -1
        self._heard: set[str] = set()
        self._kept = 0.0
        self._last: LoadSample | None = None
        self._batches = 0
        self._rows = 0.0
        self._work = 0.0
        #: The last batch as a share of what it may take; 0 if fewer rows would not have helped.
        self.lateness = 0.0
        #: The most rows that its own batches can take, where it is late all by itself.
        self._most = math.inf
        self.duration_s = 0.0
        self.heard_s = 0.0
        #: When it was last seen to be processing a batch.
        self.at_work_s = 0.0
        self.interval_s = hold_s

    def enter(self, gate: str, hold_s: float) -> None:
        """A gate is in this stream; the strictest target holds."""
        self._holds[gate] = hold_s
        self.hold_s = min(self._holds.values())

    def leave(self, gate: str) -> None:
        """Its batches no longer wait for this gate's part."""
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
        trust = _COLD_TRUST if self._batches <= _COLD else 1.0
        self._fit.add(self._kept, work, trust)
        self._lasts.add(self._kept, sample.duration_s, trust)
        self.duration_s = sample.duration_s
        self.interval_s = max(sample.interval_s or self.hold_s, 0.05)
        self._rows = self._kept
        self._work = work
        on_rows_s = max(self._fit.blamed_s / cores, self._lasts.blamed_s) * self._kept
        # Where a batch would be late without any rows too, shedding is not what helps.
        helps = on_rows_s >= max(_ON_ROWS * sample.duration_s, sample.duration_s - self.hold_s)
        self.lateness = sample.duration_s / self.hold_s if helps and self._batches > _COLD else 0.0
        return True

    def own_limit(self) -> None:
        """It was late, and not because of others: its next batches get fewer rows."""
        self._most = max(1.0, self._rows) * 0.85 / self.lateness

    def relax(self) -> None:
        """A few rows more, if its own batches were the limit."""
        if self._rows >= 0.7 * self._most:
            self._most *= _STEP if self.duration_s > _EASY * self.hold_s else _LEAP

    def most_rows(self, cores: float) -> float:
        """The most rows of a batch that can be within the target, whatever the others do."""
        whole = cores * self.hold_s
        if self._fit.surely_fixed_s > _MOST_FIXED * whole:
            return self._most  # late whatever its rows: fewer would not help
        return min(self._most, self._fit.rows_within(whole))

    @property
    def usage(self) -> float:
        """Cores that its last batch took, over its interval."""
        return self._work / max(self.interval_s, self.duration_s)

    @property
    def usage_on_rows(self) -> float:
        """The part of it that rows are to blame for."""
        return min(self._work, self._fit.blamed_s * self._rows) / max(self.interval_s, self.duration_s)

    def collects_s(self, now_s: float) -> float:
        """How long the next batch collects its rows: as long as the one that runs takes."""
        running = now_s - self.heard_s
        return max(self.interval_s, self.duration_s, 0.0 if self.silent(now_s) else running)

    def seen_s(self) -> float:
        """When it was last known to have something to do."""
        return max(self.heard_s, self.at_work_s)

    def silent(self, now_s: float) -> bool:
        """Whether it has stopped, or has nothing to do."""
        return now_s - self.seen_s() > max(_SILENT_S, 5.0 * max(self.interval_s, self.duration_s))

    @property
    def known(self) -> bool:
        """Whether a batch with rows was seen."""
        return self._fit.known

    @property
    def per_row_s(self) -> float:
        """Task seconds for each row kept."""
        return self._fit.per_row_s

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
