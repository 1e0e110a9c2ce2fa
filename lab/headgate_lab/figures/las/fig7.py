"""Las-2020, Figure 7: latency and shedding ratio against the law of the keys."""

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

_LAWS: dict[str, float | None] = {
    "uniform": None,
    "zipf-0.5": 0.5,
    "zipf-1.0": 1.0,
    "zipf-1.5": 1.5,
    "zipf-2.0": 2.0,
    "zipf-2.5": 2.5,
    "zipf-3.0": 3.0,
}
_QUICK = ("uniform", "zipf-1.0", "zipf-2.0", "zipf-3.0")
_CAPTION = Caption(
    "las_fig7", "LAS against the law of the keys", "law", (LATENCY_AXIS, SHEDDING_AXIS), 0.0064
)


def sweep(runs: int | None, quick: bool) -> Sweep[PointRun]:
    """Every policy for every law of the keys, as items for a runner."""
    xs = [name for name in _LAWS if not quick or name in _QUICK]
    points = [Point(name, StreamLaw(zipf=_LAWS[name])) for name in xs]
    return over_points(_CAPTION, points, (runs, quick, 10, 100), lambda samples: _claims(samples, xs))


def _claims(samples: Samples, xs: list[str]) -> tuple[Claim, ...]:
    mean = samples.mean
    bad = min(mean(law, name, LATENCY) for law in xs for name in (BASE, STRAW))
    skewed, even = samples.all("zipf-3.0", BASE, LATENCY), samples.all("uniform", BASE, LATENCY)
    span = (max(skewed) / min(skewed)) / (max(even) / min(even))
    gain = mean("uniform", LAS, LATENCY) / mean("zipf-3.0", LAS, LATENCY)
    falls = mean("uniform", LAS, SHEDDING) - mean("zipf-3.0", LAS, SHEDDING)
    saved = 1 - mean("zipf-1.0", OURS, DROPPED) / mean("zipf-1.0", FULL, DROPPED)
    even_saved = 1 - mean("uniform", OURS, DROPPED) / mean("uniform", FULL, DROPPED)
    return (
        Claim(
            "Base Line and Straw-Man are bad under every law (least mean latency, s)", bad > 0.03, bad
        ),
        Claim(
            "Base Line's span grows with skew (greatest over least, zipf-3.0 against uniform)",
            span > 1,
            span,
        ),
        Claim("LAS gets better with skew (uniform latency over zipf-3.0's)", gain > 2, gain),
        Claim(
            "LAS drops less with skew (fall of the shedding ratio, uniform to zipf-3.0)",
            falls > 0.01,
            falls,
        ),
        Claim(
            "ours: the default price drops at least 25 % fewer than Full Knowledge under zipf-1.0",
            saved >= 0.25,
            saved,
        ),
        Claim("ours: and at least 25 % fewer under uniform keys", even_saved >= 0.25, even_saved),
    )
