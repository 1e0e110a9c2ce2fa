"""Las-2020, Figure 4: latency and drops against under-provisioning (Zipf-1.0, AVG(6.4 ms))."""

from __future__ import annotations

from headgate_lab.figures.figure import Claim, Samples
from headgate_lab.figures.las.points import Point, PointRun, over_points
from headgate_lab.figures.las.policies import (
    BASE,
    BOUND,
    DROPPED,
    DROPPED_AXIS,
    FULL,
    LAS,
    LATENCY,
    LATENCY_AXIS,
    OURS,
    OURS_KNOWN,
    STRAW,
)
from headgate_lab.figures.sweep import Caption, Sweep
from headgate_lab.sim.las.stream import StreamLaw

__all__ = ["sweep"]

_TAU = 0.0064
_UNDER = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.1, 0.0, -0.1)
_QUICK = (0.9, 0.5, 0.25, 0.0, -0.1)
_CAPTION = Caption(
    "las_fig4",
    "LAS against under-provisioning",
    "under-provisioning",
    (LATENCY_AXIS, DROPPED_AXIS),
    _TAU,
)


def sweep(runs: int | None, quick: bool) -> Sweep[PointRun]:
    """Every policy at every load, as items for a runner."""
    xs = _QUICK if quick else _UNDER
    points = [Point(u, StreamLaw(under=u)) for u in xs]
    loaded = [u for u in xs if u >= 0]
    return over_points(
        _CAPTION, points, (runs, quick, 10, 100), lambda samples: _claims(samples, loaded)
    )


def _claims(samples: Samples, loaded: list[float]) -> tuple[Claim, ...]:
    mean = samples.mean
    idle = [mean(-0.1, name, LATENCY) for name in (BASE, STRAW, LAS, FULL)]
    worst = min(mean(u, name, LATENCY) for u in loaded for name in (BASE, STRAW))
    las = [mean(u, LAS, LATENCY) for u in loaded]
    full = max(max(samples.all(u, FULL, LATENCY)) for u in loaded)
    least = min(mean(u, FULL, LATENCY) for u in loaded)
    more = max(mean(u, FULL, DROPPED) - mean(u, BASE, DROPPED) for u in loaded)
    between = min(mean(u, LAS, DROPPED) - mean(u, FULL, DROPPED) for u in loaded)
    saved = [1 - mean(u, OURS, DROPPED) / mean(u, FULL, DROPPED) for u in loaded]
    known = 1 - mean(0.25, OURS_KNOWN, DROPPED) / mean(0.25, FULL, DROPPED)
    above = mean(0.25, OURS, DROPPED) - mean(0.25, BOUND, DROPPED)
    farthest = max(mean(u, OURS, DROPPED) - mean(u, BOUND, DROPPED) for u in loaded)
    spared = mean(-0.1, OURS, DROPPED) - mean(-0.1, FULL, DROPPED)
    ours = max(mean(u, OURS, LATENCY) for u in loaded)
    return (
        Claim(
            "over-provisioned by 10 %, all four perform alike (greatest over least latency)",
            max(idle) / min(idle) < 1.1,
            max(idle) / min(idle),
        ),
        Claim(
            "otherwise Base Line and Straw-Man shed too little (their least mean latency, s)",
            worst > 3 * _TAU,
            worst,
        ),
        Claim(
            "LAS comes close to tau, if it starts with learnt costs (its greatest mean latency, s)",
            max(las) < 1.25 * _TAU,
            max(las),
        ),
        Claim(
            "Full Knowledge always keeps the target (its greatest latency of any run, s)",
            full <= _TAU,
            full,
        ),
        Claim(
            "Full Knowledge stays far below the target (its least mean latency, s)",
            least < 0.75 * _TAU,
            least,
        ),
        Claim(
            "Full Knowledge drops no more than the competitors (greatest excess over Base Line)",
            more <= 0.0005,
            more,
        ),
        Claim("LAS drops a little more than Full Knowledge (least excess)", 0 < between < 0.05, between),
        Claim(
            "ours: the default price drops fewer than Full Knowledge everywhere (least saving)",
            min(saved) > 0,
            min(saved),
        ),
        Claim(
            "ours: with known costs it drops at least 40 % fewer at 25 % (saving)", known >= 0.4, known
        ),
        Claim(
            "ours: at 25 % it drops at most 0.03 more than the clairvoyant bound (excess)",
            above < 0.03,
            above,
        ),
        Claim(
            "ours: and comes as close to tau as LAS (its greatest mean latency, s)",
            ours < 1.25 * _TAU,
            ours,
        ),
        Claim(
            "ours: over-provisioned by 10 % it drops what Full Knowledge must drop (excess)",
            spared < 0.0005,
            spared,
        ),
        Claim(
            "ours: at every load within 0.06 of the bound (greatest excess)", farthest < 0.06, farthest
        ),
    )
