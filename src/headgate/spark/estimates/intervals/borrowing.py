"""What a group's spread is, given how like groups are spread: shrinkage with weights from the data.

A few kept rows say little about their group's variance, and less about its skew; the other groups of
the window say more. The model is a Dirichlet process (Ferguson, 1973): each group's values are drawn
from a pool, κ small means that a group repeats itself, κ large that it is like the pool. In it the
variance within groups is W = κ / (κ + 1) of the pool's, and that between their means B = 1 / (κ + 1): so
κ = W / B, from the very sample, and the group's rows count as n rows of its own and κ of the pool:

    spread = (n s² + κ (W + B)) / (n + κ),

and its third moment likewise. Jobs that always ask for the same memory have κ near 0: rows not seen are
then like those that were. Where taxis of every zone go everywhere κ is large, and two rows are enough
for an error bar. The estimate itself does not move, only what is said of its error: intervals about a
mean that was itself pulled towards the pool held the truth in as few as 6 % of draws (groups differ, and
that is the question), those of a borrowed spread in 91 % at least.

Where no two rows of any group differ, W is not 0 but as if one row more had been seen that is from the
pool. Sums are of a pool: the groups of a window, or of a whole result (`pooled`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headgate.spark.estimates.intervals.algebra import Algebra, Term
from headgate.spark.estimates.intervals.careful import around

__all__ = [
    "FIRST", "KAPPA", "SECOND", "SKEW", "borrowed", "first_terms", "second_terms", "spread_terms",
]  # fmt: skip

#: What is summed over a pool's groups in turn: first these, then those about the pool's mean.
FIRST = ("groups", "free", "squares", "count", "values")
SECOND = ("off", "noise", "cubes")

#: A group counts for so many rows at most, lest the largest be the pool.
_MOST_ROWS = 10.0
#: Of W / B, and at most so many rows: groups differ in their spread, too.
KAPPA, _MOST_KAPPA = 0.7, 10.0
#: How much of the skew counts: that of few rows is mostly of the pool.
SKEW = 0.5
#: Degrees of freedom that the pool adds.
_FREEDOM = 6.0


def first_terms(ops: Algebra, s: Any) -> dict[str, Term]:
    """A group's part in the sums of `FIRST`."""
    free = ops.least(ops.greatest(s.n - 1.0, 0.0), _MOST_ROWS)
    rows = ops.least(s.n, _MOST_ROWS)
    return {
        "groups": ops.choose(ops.positive(s.n), 1.0, 0.0),
        "free": free,
        "squares": free * ops.known(s.square, 0.0),
        "count": rows,
        "values": rows * s.centre,
    }


def spread_terms(ops: Algebra, s: Any, first: Any) -> dict[str, Term]:
    """How far a mean is off that of all, squared, and how far chance alone would bring it; by rows."""
    rows = ops.least(s.n, _MOST_ROWS)
    off = s.centre - ops.divide(first.values, first.count)
    square = ops.choose(
        ops.positive(s.n - 1.0), ops.known(s.square, 0.0), ops.divide(first.squares, first.free)
    )
    return {"off": rows * off * off, "noise": rows * ops.divide(square, s.n)}


def second_terms(ops: Algebra, s: Any, first: Any) -> dict[str, Term]:
    """A group's part in the sums of `SECOND`, once the pool's mean is known."""
    rows = ops.least(s.n, _MOST_ROWS)
    off = s.centre - ops.divide(first.values, first.count)
    plain = ops.known(s.square, 0.0) * ops.divide(s.n - 1.0, s.n)
    cubes = ops.known(s.third, 0.0) + 3.0 * (plain * off) + off * off * off
    return {**spread_terms(ops, s, first), "cubes": rows * cubes}


def borrowed(
    ops: Algebra,
    value: Term,
    s: Any,
    first: Any,
    second: Any,
    finish: Callable[[Term, Term, Term], Term],
    own: Term,
    known: Any = None,
    need: Term = 1.0,
) -> Term:
    """Standard error, low and high with the pool's help; `own` where there is no pool to speak of.

    `known` is what the group's rows say with those of its earlier windows (`remembering`), instead of
    the sample alone, and `need` how much of the pool such a group still needs.
    """
    k = s if known is None else known
    between = ops.divide(second.off * first.groups, first.count * (first.groups - 1.0)) - ops.divide(
        second.noise, first.count
    )
    pool = {
        "mean": ops.divide(first.values, first.count),
        "within": ops.known(ops.divide(first.squares, first.free), 0.0),
        "between": ops.greatest(between, 0.0),
        "cubes": ops.divide(second.cubes, first.count),
    }

    def weigh(p: Any) -> Term:
        seen = ops.known(ops.divide(p.within, p.between), _MOST_KAPPA) + ops.divide(
            1.0, first.free + 1.0
        )
        kappa = {"rows": ops.least(KAPPA * seen, _MOST_KAPPA) * need}
        return ops.let("k", kappa, lambda lent: mix(p, lent.rows))

    def mix(p: Any, kappa: Term) -> Term:
        shares = {
            "own": ops.divide(k.n, k.n + kappa),
            "pool": ops.divide(kappa, k.n + kappa),
            "all": p.within + p.between,
        }

        def spread(a: Any) -> Term:
            square = a.own * k.square + a.pool * a.all
            middle = a.own * s.centre + a.pool * p.mean
            here, there = s.centre - middle, p.mean - middle
            plain = k.square * ops.divide(k.n - 1.0, k.n)
            third = a.own * (k.third + 3.0 * (plain * here) + here * here * here) + a.pool * (
                p.cubes + 3.0 * (a.all * there) + there * there * there
            )
            freedom = k.freedom + kappa + _FREEDOM
            return around(ops, value, s, square, third * SKEW, freedom, finish)

        return ops.let("a", shares, spread)

    told = ops.choose(ops.positive(first.groups - 1.5), s.square + 1.0, 0.0)
    varied = ops.positive(told * (first.squares + second.off))
    return ops.choose(varied, ops.let("p", pool, weigh), own)
