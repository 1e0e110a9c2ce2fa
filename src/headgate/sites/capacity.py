"""How much of a site's cores is there for rows, and how far plans are trimmed to what really happens.

The plan is simple: cores, times a headroom, less what streams cost whatever their rows. Two things it
cannot know. What the driver does between tasks, and how batches stand in each other's way: so capacity
is trimmed until every stream ends its batches within its target. And the prices of rows are estimates:
so what the cores were really used for is compared with what was planned.

Not every late batch is a reason. A stream that is late while the others leave the cores idle is late by
itself, and only it gets fewer rows. Where fixed prices alone are more than there is, fewer rows help
nobody, and rows keep their least share.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from headgate.sites.settings import SiteSettings
from headgate.sites.streams import StreamCost

__all__ = ["SiteCapacity"]


class SiteCapacity:
    """How much task time there is for rows. `running` are the streams that have something to do."""

    def __init__(self, settings: SiteSettings) -> None:
        self._settings = settings
        self._tuning = settings.tuning.capacity
        self.trim = self._tuning.first_trim

    @property
    def _planned(self) -> float:
        return self._settings.cores * self._settings.headroom

    def for_rows(self, running: Sequence[StreamCost]) -> float:
        """Task seconds a second for rows; or rows a second, where the capacity is given in rows."""
        if self._settings.rows_per_s is not None:
            return self._settings.rows_per_s * min(1.0, self.trim)
        planned = self._planned * self.trim
        fixed = sum(stream.fixed_per_second for stream in running)
        return max(self._tuning.for_rows * planned, planned - fixed)

    def surely_for_rows(self, running: Iterable[StreamCost]) -> float:
        """The same, less only what is proved to be no row's; for rows at the most that they can cost."""
        if self._settings.rows_per_s is not None:
            return self._settings.rows_per_s * min(1.0, self.trim)
        planned = self._planned * self.trim
        fixed = sum(stream.surely_fixed_per_second for stream in running)
        return max(self._tuning.for_rows * planned, planned - fixed)

    def each(self, running: Sequence[StreamCost]) -> float:
        """Cores for one stream: a quarter among four alike, nearly all beside three small ones."""
        usage = [stream.usage for stream in running if stream.known]
        squares = sum(used * used for used in usage)
        sharers = sum(usage) ** 2 / squares if squares > 0.0 else 1.0
        return self._settings.cores / sharers

    def ended(self, stream: StreamCost, running: Sequence[StreamCost], overloaded: bool) -> None:
        """Correct the trim after a batch: down if rows made it late, up while all are early."""
        if stream.lateness > self._tuning.late:
            if self._alone(stream, running):
                stream.own_limit()
            elif not self._futile(running):
                stream.relax()
                # Each of the streams has its word in turn, and all speak of the same cores; but one
                # that is late is to be heard among many that are not.
                less = max(self._tuning.most_cut, math.sqrt(self._tuning.aim / stream.lateness))
                less **= 1.0 / math.sqrt(len(running))
                self.trim = max(self._tuning.least_trim, self.trim * less)
            return
        if stream.lateness < self._tuning.early or not self._alone(stream, running):
            stream.relax()
        self._follow(stream, running, overloaded)

    def _follow(self, stream: StreamCost, running: Sequence[StreamCost], overloaded: bool) -> None:
        """Move the trim until streams use what was planned; each stream moves it by its part."""
        # Where the capacity is given in rows, what the cores are used for is not the question.
        planned = self._planned if self._settings.rows_per_s is None else math.inf
        tuning = self._tuning
        used = sum(s.usage for s in running)
        on_rows = sum(s.usage_on_rows for s in running)
        held_up = [s for s in running if s.lateness >= tuning.early]
        blamed = on_rows >= tuning.for_rows * planned
        if used > tuning.over * planned and blamed and not self._futile(running):
            self.trim *= max(tuning.most_cut, math.sqrt(planned / used)) ** (1.0 / len(running))
        elif all(self._alone(s, running) for s in held_up):
            spare = overloaded and used < tuning.under * planned
            most = tuning.most_trim if spare and math.isfinite(planned) else max(1.0, self.trim)
            step = tuning.growth ** min(tuning.longest_growth_s, stream.interval_s)
            self.trim = min(most, self.trim * step ** (1.0 / max(1, len(running))))
        self.trim = max(tuning.least_trim, self.trim)

    def _futile(self, running: Sequence[StreamCost]) -> bool:
        """Whether fixed prices alone leave rows no more than their least share."""
        fixed = sum(stream.fixed_per_second for stream in running)
        planned = self._planned
        return self._settings.rows_per_s is None and planned - fixed <= self._tuning.for_rows * planned

    def _alone(self, stream: StreamCost, running: Sequence[StreamCost]) -> bool:
        """Whether a stream is late by itself, so that fewer rows of others would not help it."""
        used = sum(s.usage for s in running if s.known)
        cores, tuning = self._settings.cores, self._tuning
        few = tuning.beside_derived if stream.derived else tuning.alone
        return used - stream.usage < few * cores or used < tuning.idle * cores

    def checked(self, trim: float) -> float:
        """A trim from before a restart, within its bounds; `ValueError` if it is no number."""
        if not trim >= 0.0:
            raise ValueError(f"trim is {trim!r}")
        return min(1.0, max(self._tuning.least_trim, trim))
