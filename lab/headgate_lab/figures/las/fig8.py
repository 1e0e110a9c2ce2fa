"""Las-2020, Figure 8: latency and drops against the precision epsilon.

In the paper epsilon sets two things at once: the sketch's columns, and the margin on every estimate. The
series "LAS, margin 1.05" holds the margin and varies only the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from headgate_lab.figures.figure import Claim, Samples
from headgate_lab.figures.las.policies import (
    DROPPED,
    DROPPED_AXIS,
    FULL,
    LAS,
    LATENCY,
    LATENCY_AXIS,
    metrics,
)
from headgate_lab.figures.sweep import Caption, Sample, Sweep, how_many
from headgate_lab.papers.las import AckedPrice, AverageLatency, LasSettings
from headgate_lab.sim.las.queue import PublishedPolicy, run
from headgate_lab.sim.las.stream import StreamLaw

__all__ = ["sweep"]

_TAU = 0.0064
_EPSILONS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.001)
_QUICK = (1.0, 0.1, 0.05, 0.01, 0.001)
_FIXED, _SKETCH = "LAS, margin 1.05", "balanced price, sketch"
_CAPTION = Caption(
    "las_fig8",
    "LAS against the precision",
    "epsilon",
    (LATENCY_AXIS, DROPPED_AXIS),
    _TAU,
    x_log=True,
)


def sweep(runs: int | None, quick: bool) -> Sweep[int]:
    """All of it: an item is a seed, because every epsilon sees the same stream."""
    count = how_many(runs, quick)
    xs = _QUICK if quick else _EPSILONS
    run_all = partial(_run_seed, xs)
    return Sweep(_CAPTION, count, range(count), run_all, lambda samples: _claims(samples, xs))


def _run_seed(xs: Sequence[float], seed: int) -> list[Sample]:
    found: list[Sample] = []
    stream, target = StreamLaw().draw(seed), AverageLatency(_TAU)
    full = run(stream, PublishedPolicy(FULL, target))
    for epsilon in xs:
        las = LasSettings(target, epsilon=epsilon, seed=seed)
        fixed = LasSettings(target, epsilon=epsilon, seed=seed, margin=1.05)
        ours = AckedPrice(target, costs="sketch", epsilon=epsilon, seed=seed)
        for name, policy in ((LAS, las), (_FIXED, fixed), (_SKETCH, ours)):
            found.append((epsilon, name, metrics(run(stream, policy))))
        found.append((epsilon, FULL, metrics(full)))
    return found


def _claims(samples: Samples, xs: tuple[float, ...]) -> tuple[Claim, ...]:
    mean = samples.mean
    small = max(mean(e, LAS, LATENCY) for e in xs if e <= 0.1)
    columns = mean(0.001, _FIXED, LATENCY) / mean(0.05, _FIXED, LATENCY)
    ours = [mean(e, _SKETCH, DROPPED) for e in xs if e <= 0.05]
    saved = 1 - max(ours) / mean(0.05, FULL, DROPPED)
    latency = max(mean(e, _SKETCH, LATENCY) for e in xs)
    return (
        Claim(
            "a large epsilon drops many tuples (dropped ratio at 1)",
            mean(1.0, LAS, DROPPED) > 0.5,
            mean(1.0, LAS, DROPPED),
        ),
        Claim(
            "and brings latency close to 0 (s, at 1)",
            mean(1.0, LAS, LATENCY) < 0.1 * _TAU,
            mean(1.0, LAS, LATENCY),
        ),
        Claim(
            "for epsilon <= 0.1 latency is at most tau (greatest mean latency, s)", small <= _TAU, small
        ),
        Claim(
            "with the margin held at 1.05, more columns help (latency at 0.001 over that at 0.05)",
            columns < 0.75,
            columns,
        ),
        Claim(
            "ours: a price on sketched costs drops fewer than Full Knowledge for epsilon <= 0.05",
            saved > 0,
            saved,
        ),
        Claim(
            "ours: and stays within 1.1 tau for every epsilon (greatest mean latency, s)",
            latency <= 1.1 * _TAU,
            latency,
        ),
    )
