"""Join-2007, Figure 10: average output against the skew, with rate adaptation and random drop.

Settings of Figures 8 and 9, averaged over the paper's 105 s; windows of 20 s
where a name says no other. The cycle is two windows long, so that a longer window stretches f with it.
"""

from __future__ import annotations

import itertools

from headgate_lab.figures.figure import Claim, Samples
from headgate_lab.figures.join.points import Point, PointRun, lines, over_points
from headgate_lab.figures.join.policies import (
    CELLS,
    IMPROVEMENT_AXIS,
    OUTPUT,
    OUTPUT_AXIS,
    RANDOM,
    RATE,
    gain,
    sharing,
)
from headgate_lab.figures.join.schedule import RATES
from headgate_lab.figures.sweep import Caption, Sweep
from headgate_lab.papers.join.rules import Cells, Content, RandomDrop, RateAdaptive
from headgate_lab.sim.join.cpu import JoinSetup
from headgate_lab.sim.join.stream import Workload

__all__ = ["sweep"]

_SKEWS, _QUICK = (0.2, 0.4, 0.6, 0.8, 1.0), (0.2, 0.6, 1.0)
_WINDOWS = (10.0, 20.0, 40.0)
_CAPTION = Caption(
    "join_fig10",
    "Average output with rate adaptation",
    "skewness kappa",
    (IMPROVEMENT_AXIS, OUTPUT_AXIS),
)


def _suffix(window: float) -> str:
    return "" if window == 20.0 else f", w = {window:g} s"


def _point(skew: float, window: float) -> Point:
    ours = (Cells(), Content()) if window == 20.0 else ()
    return Point(
        skew,
        Workload(
            rates=RATES[:-1],
            skew=skew,
            shift_s=0.0,
            cycle_s=2.0 * window,
        ),
        JoinSetup(sharing(3), windows_s=(window, 0.0)),
        lines(RandomDrop(), RateAdaptive(), *ours, suffix=_suffix(window), bounded=True),
        warm_s=0.0,
        metrics=(OUTPUT,),
    )


def sweep(runs: int | None, quick: bool) -> Sweep[PointRun]:
    """Every skew with every window."""
    skews = _QUICK if quick else _SKEWS
    points = [_point(skew, window) for skew in skews for window in _WINDOWS]
    return over_points(_CAPTION, points, (runs, quick, 1, 4), lambda samples: _claims(samples, skews))


def _claims(samples: Samples, skews: tuple[float, ...]) -> tuple[Claim, ...]:
    def more(skew: float, window: float = 20.0, policy: str = RATE) -> float:
        return gain(samples, skew, policy + _suffix(window), RANDOM + _suffix(window))

    steps = [
        more(skew, window) - more(less, window)
        for window in _WINDOWS
        for less, skew in itertools.pairwise(skews)
    ]
    wider = [
        more(skew, window) - more(skew, shorter)
        for skew in skews
        if skew >= 0.6
        for shorter, window in itertools.pairwise(_WINDOWS)
    ]
    least = min(more(skew, window) for skew in skews for window in _WINDOWS)
    ours = min(more(skew, policy=CELLS) for skew in skews)
    return (
        Claim("the gain grows with the skew (least growth in a step)", min(steps) > 0, min(steps)),
        Claim(
            "and with the window, from kappa 0.6 on (least growth in a step)", min(wider) > 0, min(wider)
        ),
        Claim("rate adaptation never loses (least gain)", least > -0.01, least),
        Claim("ours: nor do cells (least gain, w = 20 s)", ours > -0.01, ours),
    )
