"""When shedding begins: overload has to be proved, because one long batch proves nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["Onset"]

#: How much excess, in standard deviations of a forecast, proves an overload. At 90 % of capacity and
#: 10 % noise there was no false start in 100 simulated hours of one-second batches.
_PROOF = 9.0
#: Noise is taken for at least this, so that a quiet job is not started by a rounding error.
_LEAST_NOISE = 0.03
#: One batch counts as at most this.
_LARGEST = 1.0
#: A coming batch of twice the target is proof whatever the noise.
_FAR = 1.0
#: How much the coming batch counts beside the one at which the load would settle. It tells more of
#: a load just at capacity, whose batches push each other over; but it has the last batch's noise.
_COMING = 0.25


class Onset:
    """Sums up by how much the load is too high (Page's CUSUM test, 1954).

    What is summed is the excess over the target of whole batches, as they come and as they would
    settle. A load that fits takes its slack off the sum, which never falls below 0. So a load that
    doubles is proved by its first batches, one that is 5 % too high by a dozen, and one that fits,
    with batches that now and then run over, never. A single batch to come that is far too long is
    proof by itself.

    >>> onset = Onset()
    >>> [onset.proved(0.1, settled, noise=0.1) for settled in (0.3, -0.1, 0.5, 0.5, 0.5)]
    [False, False, False, True, True]
    """

    def __init__(self) -> None:
        self._sum = 0.0

    def proved(self, coming: float, settled: float, noise: float) -> bool:
        """Whether overload is proved, after one more batch.

        `coming` is the next whole batch's excess over the target, `settled` that of the batch at
        which the load would settle; both are shares of the target, negative for slack.
        """
        proof = _PROOF * max(_LEAST_NOISE, noise)
        excess = _COMING * min(coming, _LARGEST) + (1.0 - _COMING) * min(settled, _LARGEST)
        self._sum = max(0.0, self._sum + excess)
        return self._sum > proof or coming > min(proof, _FAR)

    def clear(self) -> None:
        """Begin again."""
        self._sum = 0.0

    def snapshot(self) -> dict[str, Any]:
        """The state, as JSON."""
        return {"sum": self._sum}

    def restore(self, value: Mapping[str, Any]) -> None:
        """Go on from `snapshot`."""
        self._sum = float(value["sum"])
