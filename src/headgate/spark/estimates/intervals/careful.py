"""Intervals that know what they have not seen, from one group's own rows.

Three things go wrong with Student's t on real data (``headgate bench coverage``):

- *All kept rows are equal.* Their variance is 0, which says that rows of another value are rare, not
  that there are none. As if one more row had been seen that is off by the size of the mean itself, the
  variance is y² / (n + 1). With nothing but zeros there is no scale to go by: the interval is not known
  (null).
- *Skew.* Of values with a long tail a sample mostly misses the tail, and is then too low and too sure of
  it at once. Hall's transformation of t (P. Hall, *On the removal of skewness by transformation*,
  Journal of the Royal Statistical Society B 54, 1992) makes the interval longer on the side of the tail.
  In Σ w y over coins the number of rows is luck, too, which is skew about 0.
- *Shares.* A mean of true and false has the score interval of Wilson (1927), with the correction for a
  finite group: it needs no variance of the sample.

`borrowing` goes further where like groups are at hand. All of it is written over the terms of
`headgate.spark.estimates.sql.SAMPLE`, which are text on Spark and arrays in the laboratory (`algebra`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headgate.spark.estimates.intervals.algebra import Algebra, Term

__all__ = ["alone", "around", "share_ends"]

#: As if so many rows more had been seen, of another value, where all are equal.
_UNSEEN = 1.0
#: How much of the sample's own skew counts.
_SKEW = 1.0
#: How much counts of the skew of a sum that comes from the number of rows.
_LUCK = 0.25
#: Hall's transformation is monotone, but beyond this it says more than n rows can.
_MOST_SKEW = 3.0


def alone(ops: Algebra, value: Term, s: Any, finish: Callable[[Term, Term, Term], Term]) -> Term:
    """Standard error, low and high from the group's own rows, handed to `finish`."""
    unseen = ops.divide(s.centre * s.centre * _UNSEEN, s.n + _UNSEEN)
    spread = ops.choose(ops.positive(s.square), s.square, unseen)
    return around(ops, value, s, spread, s.third * _SKEW, s.freedom, finish)


def around(
    ops: Algebra,
    value: Term,
    s: Any,
    spread: Term,
    third: Term,
    freedom: Term,
    finish: Callable[[Term, Term, Term], Term],
) -> Term:
    """The interval of an estimate whose rows have this spread (a variance) and third moment.

    All three are null where the variance is 0: rows of which one knows nothing but that they are alike.
    """
    values = {"spread": spread, "third": third, "q": ops.t(freedom)}

    def errors(d: Any) -> Term:
        variance = s.variance + (s.coins + s.fixed) * (d.spread - s.square)
        number = 3.0 * (d.spread * s.centre) + s.centre * s.centre * s.centre
        cubes = s.coins * (d.third + _LUCK * number) + s.fixed * d.third
        unit = ops.root(ops.divide(s.coins + s.fixed, s.n))
        return ops.let(
            "v",
            {"error": ops.root(ops.greatest(variance, 0.0)), "cubes": cubes * unit},
            lambda v: ops.let("g", {"g": skew(v, d.q)}, lambda g: _ends(ops, value, v, d, g, finish)),
        )

    def skew(v: Any, q: Term) -> Term:
        # Up to six times q Hall's low end stays below the estimate, and his high one above.
        found = ops.known(ops.divide(v.cubes, v.error * v.error * v.error), 0.0)
        most = ops.least(6.0 * q, _MOST_SKEW)
        return ops.greatest(ops.least(found, most), -most)

    return ops.let("d", values, errors)


def _ends(
    ops: Algebra,
    value: Term,
    v: Any,
    d: Any,
    g: Any,
    finish: Callable[[Term, Term, Term], Term],
) -> Term:
    """Hall's ends; without skew they are value ∓ t standard errors."""
    bent = ops.positive(g.g * g.g - 1e-12)

    def moved(x: Term) -> Term:
        lifted = ops.divide(3.0 * (ops.cube_root(1.0 + g.g * (x - g.g * (1.0 / 6.0))) - 1.0), g.g)
        return ops.choose(bent, lifted, x)

    error = ops.choose(ops.positive(v.error), v.error, ops.divide(v.error, 0.0))
    low, high = value - error * moved(d.q), value - error * moved(-d.q)
    return finish(error, low, high)


def share_ends(ops: Algebra, share: Term, reach: Term, z: Term) -> tuple[Term, Term]:
    """Wilson's ends for a share: all p with (p - share)² <= z² reach p (1 - p).

    `reach` is 1 / n times what is left of the group, Σv / (Σw)².
    """
    pull = z * z * reach
    half = ops.root(ops.greatest(pull * share * (1.0 - share) + 0.25 * (pull * pull), 0.0))
    low, high = (ops.divide(share + 0.5 * pull + sign * half, 1.0 + pull) for sign in (-1.0, 1.0))
    return ops.greatest(low, 0.0), ops.least(high, 1.0)
