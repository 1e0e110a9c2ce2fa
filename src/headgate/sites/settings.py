"""What a person decides about a site."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from headgate.errors import BadArgument
from headgate.fairness.mirror import MirrorSettings
from headgate.sites.shedders import shedder
from headgate.sites.tuning import SiteTuning

__all__ = ["SiteSettings"]


@dataclass(frozen=True)
class SiteSettings:
    """What a person decides about a site."""

    name: str
    #: Cores that the site's streams may use.
    cores: float
    #: The source time window, and how often the site decides.
    stw_s: float = 10.0
    interval_s: float = 1.0
    #: How long accepted rows take to show in a report.
    delay_s: float = 4.0
    #: A batch may take this long, unless its gate says otherwise.
    hold_s: float = 2.0
    #: The share of the cores that is planned for.
    headroom: float = 0.85
    #: The capacity in rows a second, whatever they cost, as in the paper; None for cores and time.
    rows_per_s: float | None = None
    shedding: str = "mirror"
    #: What a coordinator said longer ago than this no longer counts.
    stale_s: float = 10.0
    seed: int = 0
    #: Numbers that nobody has to set.
    tuning: SiteTuning = field(default_factory=SiteTuning, repr=False)

    def __post_init__(self) -> None:
        for name in ("cores", "stw_s", "interval_s", "hold_s", "stale_s"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and 0 < value < math.inf):
                raise BadArgument(f"{name}={value!r}: a finite number above 0")
        rows = self.rows_per_s
        if rows is not None and not (isinstance(rows, int | float) and 0 < rows < math.inf):
            raise BadArgument(f"rows_per_s={rows!r}: rows a second above 0, or None to share the cores")
        if not (isinstance(self.headroom, int | float) and 0 < self.headroom <= 1):
            raise BadArgument(f"headroom={self.headroom!r}: a share of the cores, above 0 and at most 1")
        if self.interval_s > self.stw_s:
            raise BadArgument(
                f"interval={self.interval_s!r} s: the site decides at least once in a source time "
                f"window ({self.stw_s!r} s)"
            )
        self.mirror()  # refuses what the shedder cannot take
        shedder(self.shedding, self.mirror(), self.seed)

    @classmethod
    def for_hold(
        cls,
        name: str,
        cores: float,
        hold_s: float,
        stw_s: float | None,
        delay_s: float | None,
        **more: Any,
    ) -> SiteSettings:
        """The settings that follow from how long a batch may take, where a person has said no more.

        A window of ten batches, so that one batch more or less in it is a tenth of the count; 10 s at
        least, the published one. A delay of a batch and a half, which a row waits and is processed in on
        average, and an exchange with the coordinator. A coordinator's word counts for five batches, and
        for 10 s at least: it may miss a few reports, as sites miss a few answers.
        """
        return cls(
            name=name,
            cores=cores,
            hold_s=hold_s,
            stw_s=max(10.0, 10.0 * hold_s) if stw_s is None else stw_s,
            interval_s=1.0 if stw_s is None else min(1.0, stw_s),
            delay_s=1.5 * hold_s + 1.0 if delay_s is None else delay_s,
            stale_s=max(10.0, 5.0 * hold_s),
            **more,
        )

    def mirror(self) -> MirrorSettings:
        """The settings of the improved shedder."""
        return MirrorSettings(
            stw_s=self.stw_s,
            interval_s=self.interval_s,
            delay_s=self.delay_s,
            longest_delay_s=max(self.delay_s, self.stw_s),
            smooth_s=self.delay_s,
        )
