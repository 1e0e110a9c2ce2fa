"""Join-2007, Figure 14: average output against the size of basic windows, without and with an index.

500 tuples a second, tau = 5/8 of the cycle, all adaptations. Without an index the windows are 20 s long,
with one 200 s, its lists sorted by time or by identifier; "none" is a join without basic windows. Small
basic windows hold few samples each, so without an index, too, there is a size below which output falls.
The indexed runs keep half of the counts at each adaptation: with 201 basic windows the samples of one
period are too few to rank them.
"""

from __future__ import annotations

import math

from headgate_lab.figures.figure import Claim, Samples
from headgate_lab.figures.join.points import Point, PointRun, lines, over_points
from headgate_lab.figures.join.policies import (
    CELLS,
    COMPARISONS,
    CONTENT,
    DIRECTION,
    OUTPUT,
    OUTPUT_LOG_AXIS,
    POSTINGS,
    gain,
    sharing,
)
from headgate_lab.figures.sweep import Caption, Sweep
from headgate_lab.papers.join.rules import Cells, Content, Directed
from headgate_lab.sim.join.cpu import JoinSetup
from headgate_lab.sim.join.stream import Workload

__all__ = ["sweep"]

_SIZES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, math.inf)
#: With an index a run takes long: fewer sizes, and by identifier only where it matters.
_INDEXED = (0.2, 1.0, 5.0, 20.0, 100.0, math.inf)
_SORTED_BY_ID = (5.0, 100.0, math.inf)
_QUICK = (0.1, 1.0, 5.0, 20.0, math.inf)
NONE = "none"
BY_TIME, BY_ID = ", index by time", ", index by id"
_CAPTION = Caption(
    "join_fig14", "Output and the size of basic windows", "basic window size (s)", (OUTPUT_LOG_AXIS,)
)


def _x(size: float) -> float | str:
    return NONE if math.isinf(size) else size


def _plain(size: float, skew: float, until: float) -> Point:
    suffix = "" if skew == 0.8 else f", kappa {skew:g}"
    ours = (Cells(), Content()) if 0.2 <= size <= 5.0 else ()
    return Point(
        _x(size),
        Workload(rates=((until, 500.0),), skew=skew),
        JoinSetup(sharing(3), basic_s=size, capacity=COMPARISONS),
        lines(Directed(), *ours, suffix=suffix, bounded=True),
        metrics=(OUTPUT,),
    )


def _with_index(size: float, by_time: bool) -> Point:
    return Point(
        _x(size),
        Workload(rates=((300.0, 500.0),), skew=0.8, cycle_s=400.0, shift_s=250.0),
        JoinSetup(
            sharing(3),
            windows_s=(200.0, 200.0),
            basic_s=size,
            capacity=POSTINGS,
            index="time" if by_time else "id",
        ),
        lines(Directed(decay=0.5), suffix=BY_TIME if by_time else BY_ID),
        warm_s=260.0,
        metrics=(OUTPUT,),
    )


def sweep(runs: int | None, quick: bool) -> Sweep[PointRun]:
    """Size after size, without an index and, unless quick, with both."""
    sizes = _QUICK if quick else sorted({*_SIZES, *_INDEXED})
    until = 120.0 if quick else 240.0
    points: list[Point] = []
    for size in sizes:
        if size in _SIZES:
            points += [_plain(size, skew, until) for skew in (0.8, 0.6)]
        if size in _INDEXED and not quick:
            points.append(_with_index(size, by_time=True))
            if size in _SORTED_BY_ID:
                points.append(_with_index(size, by_time=False))
    return over_points(_CAPTION, points, (runs, quick, 1, 1), lambda samples: _claims(samples, quick))


def _claims(samples: Samples, quick: bool) -> tuple[Claim, ...]:
    def over(size: float | str, other: float | str, suffix: str = "", than: str | None = None) -> float:
        base = DIRECTION + (suffix if than is None else than)
        return gain(samples, size, DIRECTION + suffix, base, at=other)

    large, none, tiny = over(1.0, 20.0), over(1.0, NONE), over(0.1, 1.0)
    content, cells = (gain(samples, 1.0, policy, DIRECTION) for policy in (CONTENT, CELLS))
    claims = (
        Claim("small basic windows are better (gain of 1 s over 20 s)", large > 0.5, large),
        Claim("and better than none (gain of 1 s)", none > 0.5, none),
        Claim("without an index the smaller the better (gain of 0.1 s over 1 s)", tiny > -0.02, tiny),
        Claim("ours: cells put out more than all adaptations (gain at 1 s)", cells > 0, cells),
        Claim("ours: content, at least 1.8 times as much (gain at 1 s)", content >= 0.8, content),
    )
    if quick:
        return claims
    lookups = over(0.2, 5.0, BY_TIME)
    wide, whole = (over(size, size, BY_ID, BY_TIME) for size in (100.0, NONE))
    return (
        *claims,
        Claim(
            "with an index very small ones lose by their lookups (gain of 0.2 s over 5 s)",
            lookups < -0.05,
            lookups,
        ),
        Claim(
            "lists sorted by identifier are worse with large ones (gain at 100 s)", wide < -0.05, wide
        ),
        Claim("most of all without any (gain)", whole < min(wide, -0.5), whole),
    )
