"""Las-2020, Figure 6: latency and shedding ratio against the longest duration, with tau equal to it."""

from __future__ import annotations

from headgate_lab.figures.figure import Claim, Samples
from headgate_lab.figures.las.points import Point, PointRun, over_points
from headgate_lab.figures.las.policies import (
    BASE,
    FULL,
    LAS,
    LATENCY,
    LATENCY_AXIS,
    OURS,
    SHEDDING,
    SHEDDING_AXIS,
)
from headgate_lab.figures.sweep import Caption, Sweep
from headgate_lab.sim.las.stream import StreamLaw

__all__ = ["sweep"]

_LONGEST = (0.0001, 0.0002, 0.0004, 0.0008, 0.0016, 0.0032, 0.0064, 0.0128, 0.0256, 0.0512)
_QUICK = (0.0001, 0.0008, 0.0064, 0.0512)
_CAPTION = Caption(
    "las_fig6",
    "LAS against the longest duration (= tau)",
    "longest duration (s)",
    (LATENCY_AXIS, SHEDDING_AXIS),
    x_log=True,
)


def sweep(runs: int | None, quick: bool) -> Sweep[PointRun]:
    """Every policy at every longest duration, as items for a runner."""
    xs = _QUICK if quick else _LONGEST
    points = [Point(longest, StreamLaw(longest_s=longest), longest) for longest in xs]
    return over_points(_CAPTION, points, (runs, quick, 10, 100), lambda samples: _claims(samples, xs))


def _claims(samples: Samples, xs: tuple[float, ...]) -> tuple[Claim, ...]:
    mean = samples.mean
    over = max(mean(w, LAS, LATENCY) / w for w in xs)
    positive = min(min(samples.all(w, LAS, SHEDDING)) for w in xs)
    spread = max(mean(w, LAS, SHEDDING) for w in xs) - min(mean(w, LAS, SHEDDING) for w in xs)
    base = min(mean(w, BASE, LATENCY) / w for w in xs)
    full = max(abs(mean(w, FULL, LATENCY) / w - 1) for w in xs)
    ours = max(mean(w, OURS, LATENCY) / w for w in xs)
    return (
        Claim(
            "LAS stays close to tau, whatever the longest duration (greatest latency over tau)",
            over < 1.25,
            over,
        ),
        Claim("its shedding ratio is always positive (least of any run)", positive > 0, positive),
        Claim("and hardly changes (greatest minus least mean)", spread < 0.02, spread),
        Claim("Base Line is far above tau (least latency over tau)", base > 10, base),
        Claim("Full Knowledge meets tau (greatest relative distance)", full < 0.02, full),
        Claim(
            "ours: the default price keeps tau everywhere (greatest mean latency over tau)",
            ours <= 1.0,
            ours,
        ),
    )
