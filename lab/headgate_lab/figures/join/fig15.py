"""Join-2007, Figure 15: what selective processing gains over random drop, against the stream rate.

All adaptations, kappa 0.8 where a name says no other, tau = 5/8 of the cycle. Overlap (three common
items) and equality (5,000 values); nested loops over windows of 20 s, an inverted index or a hash table
over 200 s. A hash table finds its matches at once and is nowhere near saturated at these rates, so it
has nothing to shed; 8 million postings a second put the onset of dropping where the paper has it. The
indexed runs keep half of the counts at each adaptation, as in Figure 14.
"""

from __future__ import annotations

from headgate.joins.conditions import equal
from headgate_lab.figures.figure import Claim, Samples
from headgate_lab.figures.join.points import Point, PointRun, lines, over_points
from headgate_lab.figures.join.policies import (
    CELLS,
    CONTENT,
    DIRECTION,
    DROPPED_AXIS,
    IMPROVEMENT_AXIS,
    OUTPUT_LOG_AXIS,
    POSTINGS,
    RANDOM,
    gain,
    sharing,
)
from headgate_lab.figures.sweep import Caption, Sweep
from headgate_lab.papers.join.rules import Cells, Content, Directed, RandomDrop
from headgate_lab.sim.join.cpu import JoinSetup
from headgate_lab.sim.join.stream import Workload

__all__ = ["sweep"]

_RATES, _QUICK = (100.0, 200.0, 300.0, 400.0, 500.0), (100.0, 300.0, 500.0)
_LONG = 200.0
#: From and to when indexed runs are counted: tuples that came before the CPU was full must leave first.
_INDEXED_S = (260.0, 300.0)
EQUALITY, INDEXED, HASHED = ", equality", ", index", ", equality, hash"
_CAPTION = Caption(
    "join_fig15",
    "Improvement over random drop",
    "stream rate (tuples/s)",
    (IMPROVEMENT_AXIS, DROPPED_AXIS, OUTPUT_LOG_AXIS),
)


def _nested(rate: float, skew: float, until: float) -> Point:
    suffix, ours = ("", (Cells(), Content())) if skew == 0.8 else (f", kappa {skew:g}", ())
    return Point(
        rate,
        Workload(rates=((until, rate),), skew=skew),
        JoinSetup(sharing(3)),
        lines(RandomDrop(), Directed(), *ours, suffix=suffix, bounded=skew == 0.8),
    )


def _equality(rate: float, skew: float, until: float, hashed: bool = False) -> Point:
    window = _LONG if hashed else 20.0
    suffix = (HASHED if hashed else EQUALITY) + ("" if skew == 0.8 else f", kappa {skew:g}")
    return Point(
        rate,
        Workload(
            rates=((until, rate),),
            skew=skew,
            items=5000,
            size=1.0,
            spread=0.0,
            cycle_s=2.0 * window,
            shift_s=1.25 * window,
        ),
        JoinSetup(
            equal("value"),
            windows_s=(window, window),
            capacity=POSTINGS if hashed else JoinSetup(sharing(3)).capacity,
            index="hash" if hashed else "none",
        ),
        lines(RandomDrop(), Directed(), suffix=suffix),
        warm_s=_INDEXED_S[0] if hashed else 60.0,
    )


def _indexed(rate: float) -> Point:
    return Point(
        rate,
        Workload(rates=((_INDEXED_S[1], rate),), skew=0.8, cycle_s=2 * _LONG, shift_s=1.25 * _LONG),
        JoinSetup(sharing(3), windows_s=(_LONG, _LONG), capacity=POSTINGS, index="time"),
        lines(RandomDrop(), Directed(decay=0.5), suffix=INDEXED),
        warm_s=_INDEXED_S[0],
    )


def sweep(runs: int | None, quick: bool) -> Sweep[PointRun]:
    """Rate after rate; with an index unless quick."""
    rates, until = (_QUICK, 120.0) if quick else (_RATES, 240.0)
    points: list[Point] = []
    for rate in rates:
        for skew in (0.8, 0.6):
            points += [_nested(rate, skew, until), _equality(rate, skew, until)]
        if not quick:
            points += [_indexed(rate), _equality(rate, 0.8, _INDEXED_S[1], hashed=True)]
    return over_points(_CAPTION, points, (runs, quick, 1, 1), lambda samples: _claims(samples, quick))


def _claims(samples: Samples, quick: bool) -> tuple[Claim, ...]:
    def more(rate: float, suffix: str = "", policy: str = DIRECTION) -> float:
        return gain(samples, rate, policy + suffix, RANDOM + suffix)

    idle = max(abs(more(100.0, suffix)) for suffix in ("", EQUALITY))
    content, cells = gain(samples, 500.0, CONTENT, DIRECTION), gain(samples, 500.0, CELLS, DIRECTION)
    claims = (
        Claim("nested overlap: up to +500 % (gain at 500 tuples/s)", more(500.0) >= 3.5, more(500.0)),
        Claim(
            "nested equality gains less than overlap (gain at 500)",
            0 < more(500.0, EQUALITY) < more(500.0),
            more(500.0, EQUALITY),
        ),
        Claim("nothing gained, nothing lost at 100 tuples/s (greatest of either)", idle < 0.02, idle),
        Claim("ours: cells put out more than all adaptations (gain at 500)", cells > 0, cells),
        Claim("ours: content, at least 1.8 times as much (gain at 500)", content >= 0.8, content),
    )
    if quick:
        return claims
    before = max(abs(more(rate, INDEXED)) for rate in (100.0, 200.0, 300.0))
    late, hashed = more(500.0, INDEXED), max(abs(more(rate, HASHED)) for rate in (300.0, 500.0))
    return (
        *claims,
        Claim("inverted index: no gain up to 300 tuples/s (greatest of either)", before < 0.1, before),
        Claim("inverted index: up to about +100 % (gain at 500)", 0.6 < late < 1.4, late),
        Claim("hash table: no gain and no loss (greatest of either)", hashed < 0.02, hashed),
    )
