"""Uniform shedding: which rows it keeps (cod-2018, Algorithm 1)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument

__all__ = ["checked_share", "uniform_shed"]

Indices = npt.NDArray[np.intp]


def uniform_shed(rows: int, keep: float, rng: np.random.Generator, draw: str = "binomial") -> Indices:
    """The rows kept of a complete window, ascending: a share `keep` of them, whatever they hold.

    ``draw="binomial"`` tosses a coin for every row, as the paper's experiments do (section VII);
    ``"fixed"`` draws exactly ``round(keep * rows)``, as a reservoir does. In the paper b is the share
    kept in section IV and the share shed in section VII; `keep` is always the share kept.

    >>> len(uniform_shed(1000, 0.02, np.random.default_rng(1), "fixed"))
    20
    """
    checked_share(keep)
    if draw == "binomial":
        return np.flatnonzero(rng.random(rows) < keep)
    if draw != "fixed":
        raise BadArgument(f"draw={draw!r} is not one of 'binomial', 'fixed'")
    return np.sort(rng.choice(rows, size=round(keep * rows), replace=False)).astype(np.intp)


def checked_share(keep: float) -> float:
    """The share of the rows to keep, if it is one."""
    if not 0.0 < keep <= 1.0:
        raise BadArgument(
            f"keep={keep!r}: give the share of the rows to keep, above 0 and at most 1 (shedding 98 % "
            "is keep=0.02)"
        )
    return keep
