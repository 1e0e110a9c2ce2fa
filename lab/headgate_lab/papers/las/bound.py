"""What no shedder can beat: the future is known, and latency does not matter."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["clairvoyant_bound"]


def clairvoyant_bound(durations_s: npt.NDArray[np.float64], capacity_s: float) -> float:
    """The least share of the tuples that must be dropped so that the rest's work fits `capacity_s`.

    The cheapest are kept first. Latency is left out, so no algorithm that keeps a target drops less (but
    for what may still be queued at the end).

    >>> clairvoyant_bound(np.array([4.0, 1.0, 1.0, 2.0]), 4.0)
    0.25
    """
    work = np.cumsum(np.sort(durations_s))
    kept = int(np.searchsorted(work, capacity_s * (1 + 1e-12), side="right"))
    return 1.0 - kept / len(durations_s)
