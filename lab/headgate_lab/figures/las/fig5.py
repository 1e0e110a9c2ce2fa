"""Las-2020, Figure 5: latency and shedding ratio against the threshold tau (25 % under-provisioned)."""

from __future__ import annotations

from headgate_lab.figures.figure import Claim, Samples
from headgate_lab.figures.las.points import Point, PointRun, over_points
from headgate_lab.figures.las.policies import (
    BASE,
    DROPPED,
    FULL,
    LAS,
    LATENCY,
    LATENCY_AXIS,
    OURS,
    SHEDDING,
    SHEDDING_AXIS,
    STRAW,
)
from headgate_lab.figures.sweep import Caption, Sweep
from headgate_lab.sim.las.stream import StreamLaw

__all__ = ["sweep"]

_TAUS = (0.0, 0.0001, 0.0002, 0.0004, 0.0008, 0.0016, 0.0032, 0.0064, 0.0128, 0.0256, 0.0512)
_QUICK = (0.0, 0.0004, 0.0016, 0.0064, 0.0512)
_CAPTION = Caption("las_fig5", "LAS against the threshold", "tau (s)", (LATENCY_AXIS, SHEDDING_AXIS))


def sweep(runs: int | None, quick: bool) -> Sweep[PointRun]:
    """Every policy at every threshold, as items for a runner."""
    xs = _QUICK if quick else _TAUS
    points = [Point(tau, StreamLaw(), tau) for tau in xs]
    return over_points(_CAPTION, points, (runs, quick, 10, 100), lambda samples: _claims(samples, xs))


def _claims(samples: Samples, xs: tuple[float, ...]) -> tuple[Claim, ...]:
    mean = samples.mean
    large = [tau for tau in xs if tau >= 0.0032]
    exact = max(abs(mean(tau, FULL, LATENCY) - tau) for tau in xs)
    straw = mean(0.0512, STRAW, LATENCY) / mean(0.0512, BASE, LATENCY)
    early = mean(0.0004, STRAW, SHEDDING)
    better = max(mean(tau, LAS, LATENCY) / mean(tau, BASE, LATENCY) for tau in xs)
    far = mean(0.0512, LAS, LATENCY) / mean(0.0512, FULL, LATENCY)
    extra = max(mean(tau, LAS, DROPPED) - mean(tau, FULL, DROPPED) for tau in large)
    saved = min(1 - mean(tau, OURS, DROPPED) / mean(tau, FULL, DROPPED) for tau in large)
    return (
        Claim("Full Knowledge meets every threshold (greatest distance, s)", exact < 0.0002, exact),
        Claim(
            "Straw-Man copes with tiny thresholds by dropping far more (shedding ratio at 0.4 ms)",
            early > 0.2,
            early,
        ),
        Claim(
            "for large thresholds Straw-Man becomes Base Line (ratio of latencies at 51.2 ms)",
            0.5 < straw < 1.5,
            straw,
        ),
        Claim("LAS is far better than Base Line (greatest ratio of latencies)", better < 0.2, better),
        Claim(
            "for large thresholds LAS approaches Full Knowledge (ratio of latencies at 51.2 ms)",
            0.8 < far < 1.25,
            far,
        ),
        Claim(
            "from 3.2 ms on LAS drops slightly more than Full Knowledge (greatest excess)",
            0 < extra < 0.05,
            extra,
        ),
        Claim(
            "ours: the default price drops at least 25 % fewer than Full Knowledge from 3.2 ms on",
            saved >= 0.25,
            saved,
        ),
    )
