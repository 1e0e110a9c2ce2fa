"""How much of the windows can be processed: rate adaptation (join-2007, section 4.1, Algorithm 1).

Every ``period_s`` the share beta of the offered tuples that the join fetched is measured. Below 1, the
fraction parameter r shrinks by it; otherwise r is boosted, in the hope that there is power to spare.

The text leaves open which rate beta divides by. It is the rate *offered*: against the tuples that a full
buffer let in, beta is always 1 and nothing adapts. We depart in two corners: a period without arrivals
leaves r alone (as printed, it divides by 0), and a period without a fetch counts as one fetch (as
printed, r becomes 0, and ``boost * 0`` never leaves it).
"""

from __future__ import annotations

from headgate.errors import BadArgument

__all__ = ["RateAdaptation"]


class RateAdaptation:
    """Algorithm 1: the fraction parameter r.

    >>> rate = RateAdaptation(boost=1.2)
    >>> rate.adapt(fetched=500, offered=1000)
    0.5
    >>> rate.adapt(fetched=1000, offered=1000)
    0.6
    """

    def __init__(self, boost: float = 1.2) -> None:
        if not boost > 1:
            raise BadArgument(f"boost={boost!r}: give a factor above 1 (the paper's delta_r: 1.2)")
        self.boost = boost
        self.fraction = 1.0

    def adapt(self, fetched: float, offered: float) -> float:
        """R after a period in which so many tuples of both streams were fetched, and so many came."""
        if offered > 0:
            beta = max(1.0, fetched) / offered
            self.fraction = self.fraction * beta if beta < 1 else min(1.0, self.boost * self.fraction)
        return self.fraction
