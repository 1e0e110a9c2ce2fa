"""How much a source may send and have it count: what was agreed, or a little above the usual.

The published SIC (themis-2016, Eq. 1) makes all that a source sends worth 1 together. So a source that
multiplies its rate by ten is entitled to ten times the capacity, and every other query pays for it. Here
tuples above the agreed number add nothing: each tuple is worth 1 / (agreed x |S|) at least, and the
query is as high as the others with what was agreed.

Without an agreement it is learned: a slow average of what the source sends. A quarter above that counts;
growth that lasts is granted, a quarter in every `patience_s`.
"""

from __future__ import annotations

import math

from headgate.errors import BadArgument
from headgate.sites.tuning import AgreementTuning

__all__ = ["Agreed"]


class Agreed:
    """The most tuples of a source in a source time window that count.

    `given` is what was agreed, in tuples of a window; None to learn it over `patience_s`.

    >>> agreed = Agreed(patience_s=600)
    >>> for second in range(60):
    ...     agreed.learn(1000.0, seconds=1.0)
    >>> agreed.learn(10_000.0, seconds=1.0)
    >>> 1250 < agreed.limit < 1252
    True
    """

    def __init__(
        self,
        given: float | None = None,
        patience_s: float = 600.0,
        tuning: AgreementTuning | None = None,
    ) -> None:
        if given is not None and not given > 0:
            raise BadArgument(
                f"agreed={given!r}: rows a second that count, above 0; math.inf counts all, as "
                "published; leave it out to have it learned"
            )
        self._given = given
        self._patience = patience_s
        self._tuning = tuning or AgreementTuning()
        self.usual: float | None = None
        self._seen = 0.0
        self._counts = 0

    def learn(self, count: float, seconds: float) -> None:
        """So many tuples in the last window, so many seconds after the last time.

        A source that is new is taken at its word: the first twentieth of `patience_s`, and the first few
        batches, are a plain mean.
        """
        if count <= 0:
            return
        self._seen += max(0.0, seconds)
        self._counts += 1
        if self.usual is None:
            self.usual = count
            return
        young = (
            self._seen < self._tuning.young * self._patience
            or self._counts <= self._tuning.young_batches
        )
        scale = max(self._seen, 1e-9) if young else self._patience
        step = 1.0 - math.exp(-max(0.0, seconds) / scale)
        most = count if young else min(count, self._tuning.times * self.usual)
        self.usual += step * (most - self.usual)

    def restore(self, usual: float | None) -> None:
        """Go on from what was usual before a restart, if anything was."""
        if usual is not None and 0 < usual < math.inf:
            self.usual, self._seen = usual, self._patience
            self._counts = self._tuning.young_batches

    @property
    def limit(self) -> float:
        """The most tuples of a window that count."""
        if self._given is not None:
            return self._given
        return math.inf if self.usual is None else self._tuning.times * self.usual
