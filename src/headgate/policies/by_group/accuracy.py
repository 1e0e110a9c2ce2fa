"""How many rows a wanted accuracy needs, from the rows' own mean and spread.

Section VI-C1 of cod-2018 takes the rate from the mean and the variance of a sample, for an accuracy that
the user asks for, and says no more. A gate sees every row of a stratum before it sheds any, so the mean
and the variance are exact and of this very batch; nothing is learned, nothing can be stale.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from headgate.errors import BadArgument
from headgate.policies.by_group.allocation import Counts, Floats

__all__ = ["Accuracy"]


@dataclass(frozen=True)
class Accuracy:
    """The mean of a column, within a relative error, for every group that is large enough.

    ``Accuracy("fare", within=0.02)``: in 95 of 100 windows a group's mean fare is within 2 % of the
    truth, for groups with at least `least_rows` rows in the window.

    >>> wish = Accuracy("fare", within=0.1)
    >>> of_each = wish.needs(np.array([100_000]), np.array([10.0]), np.array([5.0]), np.ones(1))
    >>> round(float(of_each[0]))  # (1.96 * 5 / (0.1 * 10)) ** 2 rows, and two more
    98
    """

    of: str = ""
    within: float = 0.0
    confidence: float = 0.95
    least_rows: int = 30

    def __post_init__(self) -> None:
        if not isinstance(self.of, str) or not self.of:
            raise BadArgument(
                f"of={self.of!r}: an accuracy is that of the mean of a numeric column; name the column"
            )
        if isinstance(self.within, bool) or not isinstance(self.within, int | float):
            raise BadArgument(f"within={self.within!r} is not a number, such as 0.02 for 2 %")
        if not 0.0 < self.within < 1.0:
            raise BadArgument(
                f"within={self.within!r} is outside (0, 1): give a relative error, such as 0.02 for 2 %"
            )
        if not 0.5 <= self.confidence < 1.0:
            raise BadArgument(f"confidence={self.confidence!r} is outside [0.5, 1): give such as 0.95")
        number = isinstance(self.least_rows, int) and not isinstance(self.least_rows, bool)
        if not number or self.least_rows < 1:
            raise BadArgument(f"least_rows={self.least_rows!r}: give a whole number, at least 1")

    def needs(self, sizes: Counts, means: Floats, deviations: Floats, part: Floats) -> Floats:
        """The rows to keep of each stratum.

        With N rows, deviation s and relative error e at confidence z, simple random sampling without
        replacement needs n = n0 / (1 + n0 / N), n0 = (z s / (e mean))**2 (Cochran, section 4.7). A
        stratum is only a `part` of its window (a batch brings a little of it): the window's n is
        worked out with N / part rows, and the stratum owes its part of that. Two rows more pay for
        the t distribution. Groups too small for the promise need nothing beyond the least.
        """
        z = NormalDist().inv_cdf(0.5 + 0.5 * self.confidence)
        whole = sizes / part
        with np.errstate(divide="ignore", invalid="ignore"):
            first = np.square(z * deviations / (self.within * np.abs(means)))
            needed = np.where(np.isfinite(first), first / (1.0 + first / whole) + 2.0, whole)
        needed = np.where(deviations <= 0.0, 2.0, needed)
        return np.where(whole >= self.least_rows, np.minimum(needed * part, sizes), 0.0)
