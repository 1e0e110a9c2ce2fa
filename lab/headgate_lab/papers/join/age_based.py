"""Age-based window reduction, a baseline for CPU shedding (Srivastava and Widom; join-2007, section 2).

A tuple stays in the window until the mean output it has given per second of its stay is highest. That is
meant for memory: it helps the CPU only where tuples match best when they are young. The rule is given
the true match density, and windows are never cut below what the CPU affords anyway.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["best_age", "reduced_windows"]


def best_age(density: Sequence[float], window_s: float) -> float:
    """The age at which the mean of the density up to it is highest.

    `density` is given at equally spaced lags, the first at 0 and the last at `window_s`.

    >>> best_age([0.0, 0.0, 4.0, 0.0, 0.0], 20.0)
    10.0
    """
    values = np.asarray(density, np.float64)
    means = np.cumsum(values) / np.arange(1, len(values) + 1)
    return float(window_s * int(means.argmax()) / max(1, len(values) - 1))


def reduced_windows(
    density: Sequence[Sequence[float]],
    windows_s: tuple[float, float],
    speed: float,
    rates: npt.NDArray[np.float64],
) -> tuple[float, float]:
    """Both windows' lengths for a speed (comparisons a second; 0 if unknown) and the streams' rates."""
    whole = float(rates[0] * rates[1]) * sum(windows_s)
    afforded = min(1.0, speed / whole) if whole > 0 and speed > 0 else 1.0
    first, second = (
        max(afforded * window, best_age(side, window)) if window > 0 else 0.0
        for side, window in zip(density, windows_s, strict=True)
    )
    return first, second
