"""Which direction pays: join direction adaptation (join-2007, section 5.2, Algorithm 4).

Of the two windows the one whose tuples match more often per comparison is searched first; only what
remains of ``r * (w_1 + w_2)`` goes to the other.

Erratum: line 7's first divisor is w_2, not w_1; as printed, windows of different length spend up to
three times the budget. Two equal means (nothing was seen yet) share alike, where the listing gives all
to W_1. The text wants r_i in line 5 of Algorithm 2 too; sampling stays at r * gamma, so that divides by
0 for the window at rest. We count comparisons there, so nothing is to be replaced.
"""

from __future__ import annotations

__all__ = ["direct"]


def direct(
    fraction: float,
    means: tuple[float, float],
    windows_s: tuple[float, float],
    *,
    as_printed: bool = False,
) -> tuple[float, float]:
    """Algorithm 4: r_1 and r_2 from r, the windows' mean yields o_1 and o_2, and their lengths.

    >>> direct(0.25, (3.0, 1.0), (20.0, 20.0))
    (0.5, 0.0)
    >>> direct(0.25, (1.0, 3.0), (10.0, 30.0))
    (0.0, 0.3333333333333333)
    """
    first, second = windows_s
    if first <= 0 or second <= 0 or (means[0] == means[1] and not as_printed):
        return fraction, fraction
    whole = fraction * (first + second)
    most, rest = whole / first, (whole - second) / first
    ours = min(1.0, most if means[0] >= means[1] else max(0.0, rest))
    other = whole / (first if as_printed else second) - ours * first / second
    return ours, other if as_printed else min(1.0, max(0.0, other))
