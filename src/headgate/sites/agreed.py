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

__all__ = ["Agreed"]

#: So many times the usual count for.
_TIMES = 1.25
#: While so little of the patience has passed, or so few batches have, what a source sends is what is
#: usual: a first batch is often small, and with a long trigger the second is as late as the patience.
_YOUNG, _FIRST = 0.05, 5


class Agreed:
    """The most tuples of a source in a source time window that count.

    >>> agreed = Agreed(patience_s=600)
    >>> for second in range(60):
    ...     agreed.learn(1000.0, seconds=1.0)
    >>> agreed.learn(10_000.0, seconds=1.0)
    >>> 1250 < agreed.limit < 1252
    True
    """

    def __init__(self, given: float | None = None, patience_s: float = 600.0) -> None:
        if given is not None and not given > 0:
            raise BadArgument(
                f"agreed={given!r}: rows a second that count, above 0; math.inf counts all, as "
                "published; leave it out to have it learned"
            )
        self._given = given
        self._patience = patience_s
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
        young = self._seen < _YOUNG * self._patience or self._counts <= _FIRST
        scale = max(self._seen, 1e-9) if young else self._patience
        step = 1.0 - math.exp(-max(0.0, seconds) / scale)
        most = count if young else min(count, _TIMES * self.usual)
        self.usual += step * (most - self.usual)

    def remember(self, usual: float | None) -> None:
        """Go on from what was usual before a restart, if anything was."""
        if usual is not None and 0 < usual < math.inf:
            self.usual, self._seen, self._counts = usual, self._patience, _FIRST

    @property
    def limit(self) -> float:
        """Tuples that count, in a window."""
        if self._given is not None:
            return self._given
        return math.inf if self.usual is None else _TIMES * self.usual
