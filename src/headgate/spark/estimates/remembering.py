"""What a group's earlier windows say about its spread: as many rows more as the data says.

The model is that of `borrowing`, with the windows of one group in the place of the groups of one window:
the rows of a window are drawn from the group's pool, and κ = W / B, where W is the variance within its
windows and B that of their means. Where a route's fares are spread as they always were, windows differ
by little more than luck, B is small, and the earlier rows count nearly as rows of this window. Where a
job asks for one amount of memory in the morning and for another at noon, κ is near 0. The spread is then

    spread = (n s² + κ W') / (n + κ),

with W' that of the earlier windows alone, and the third moment likewise; κ is never above the degrees of
freedom that they have. The group enters the pool of its like with n + κ rows instead of n, and needs
less of it, the better earlier windows foretell the spread of groups at all (`need_of`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headgate.spark.estimates.intervals.algebra import Algebra, Term
from headgate.spark.estimates.intervals.borrowing import KAPPA, SKEW, first_terms, spread_terms
from headgate.spark.estimates.intervals.careful import around

__all__ = [
    "KNOWN", "LASTING", "MOVES", "WINDOWS", "lasting_of", "moves_of", "need_of", "remembered",
    "told_alone", "windows_of",
]  # fmt: skip

#: What is summed over a group's earlier windows: first these, then those about the mean of all.
WINDOWS = ("windows", "free", "squares", "count", "values", "cubes")
MOVES = ("off", "noise")
#: What is known of a group's rows, those of earlier windows included; `earlier` is how many those are.
KNOWN = ("n", "freedom", "square", "third", "earlier", "before")
#: What is summed over a pool's groups that have earlier windows: now and before, their deviations.
LASTING = ("groups", "fresh", "old", "product", "squares")

#: Earlier rows count for so many at most.
_MOST_EARLIER = 30.0
#: Deviations of few rows are mostly luck, now and before, which flattens a slope between them; this
#: steepens it again. Chosen on the tuned half of the data sets (``headgate bench earlier-windows``).
_STEEPER = 2.0


def windows_of(ops: Algebra, s: Any) -> dict[str, Term]:
    """A window's part in the sums of `WINDOWS`: those of a pool's group, and its third moment."""
    own = first_terms(ops, s)
    return {"windows": own.pop("groups"), **own, "cubes": own["count"] * ops.known(s.third, 0.0)}


def moves_of(ops: Algebra, s: Any, every: Any) -> dict[str, Term]:
    """A window's part in the sums of `MOVES`, given the sums of every window, this one included."""
    return spread_terms(ops, s, every)


def remembered(ops: Algebra, s: Any, earlier: Any, every: Any, moves: Any) -> Term:
    """The terms of `KNOWN`: those of the sample itself, where there is no earlier spread.

    `earlier` has the sums of `WINDOWS` over the earlier windows, `every` those with this window in
    them, and so has `moves`.
    """
    between = ops.divide(moves.off * every.windows, every.count * (every.windows - 1.0)) - ops.divide(
        moves.noise, every.count
    )
    parts = {
        "between": ops.greatest(between, 0.0),
        "all": ops.divide(every.squares, every.free),
        "square": ops.divide(earlier.squares, earlier.free),
        "third": ops.divide(earlier.cubes, earlier.count),
    }

    def weigh(h: Any) -> Term:
        seen = ops.known(ops.divide(h.all, h.between), _MOST_EARLIER) + ops.divide(1.0, every.free + 1.0)
        rows = ops.least(KAPPA * seen, _MOST_EARLIER, earlier.free)
        told = ops.choose(ops.positive(earlier.squares), rows, 0.0)
        return ops.let("k", {"rows": told}, lambda k: mix(h, k.rows))

    def mix(h: Any, rows: Term) -> Term:
        own, old = ops.divide(s.n, s.n + rows), ops.divide(rows, s.n + rows)
        return ops.answer(
            {
                "n": s.n + rows,
                "freedom": s.freedom + rows,
                "square": own * ops.known(s.square, 0.0) + old * ops.known(h.square, 0.0),
                "third": own * s.third + old * ops.known(h.third, 0.0),
                "earlier": rows,
                "before": h.square,
            }
        )

    return ops.let("h", parts, weigh)


def lasting_of(ops: Algebra, s: Any, known: Any) -> dict[str, Term]:
    """A group's part in the sums of `LASTING`."""
    told = ops.choose(ops.positive(known.earlier), ops.choose(ops.positive(s.n - 1.0), 1.0, 0.0), 0.0)
    now, before = ops.root(ops.known(s.square, 0.0)), ops.root(ops.known(known.before, 0.0))
    return {
        "groups": told,
        "fresh": told * now,
        "old": told * before,
        "product": told * now * before,
        "squares": told * before * before,
    }


def need_of(ops: Algebra, known: Any, lasting: Any) -> Term:
    """How much of the pool a group with earlier windows needs: less, the better those foretell this one.

    The slope of deviations now on those before, over the groups of the pool, and twice that: 1 where
    each group is spread as it was, 0 where what differs between groups is luck.
    """
    both = lasting.product - ops.divide(lasting.fresh * lasting.old, lasting.groups)
    alone = lasting.squares - ops.divide(lasting.old * lasting.old, lasting.groups)
    differ = ops.positive(alone - 1e-9 * lasting.squares)
    slope = ops.choose(differ, ops.divide(both, alone), 0.0)
    lasts = ops.greatest(ops.least(_STEEPER * ops.known(slope, 0.0), 1.0), 0.0)
    return 1.0 - lasts * ops.known(ops.divide(known.earlier, known.earlier + 1.0), 0.0)


def told_alone(
    ops: Algebra,
    value: Term,
    s: Any,
    known: Any,
    finish: Callable[[Term, Term, Term], Term],
    own: Term,
) -> Term:
    """The interval of a group without like ones, from its windows; `own` if it has no earlier one."""
    helped = around(ops, value, s, known.square, known.third * SKEW, known.freedom, finish)
    return ops.choose(ops.positive(known.earlier), helped, own)
