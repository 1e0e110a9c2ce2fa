"""Las-2020, Figure 9: seven phases with abrupt changes, in windows of 4,000 tuples (tau = 64 ms).

The run starts cold. LAS is drawn with the paper's window N = 1024 and with N = 128: with 1024 it is not
stable again before phase F is over.
"""

from __future__ import annotations

import numpy as np

from headgate_lab.figures.figure import Claim, Samples
from headgate_lab.figures.las.policies import (
    DROPPED,
    DROPPED_AXIS,
    FULL,
    LAS,
    LATENCY,
    LATENCY_AXIS,
    OURS,
    STRAW,
)
from headgate_lab.figures.sweep import Caption, Sample, Sweep, how_many
from headgate_lab.papers.las import AckedPrice, AverageLatency, LasSettings
from headgate_lab.sim.las.queue import PublishedPolicy, run
from headgate_lab.sim.las.stream import phases

__all__ = ["sweep"]

_TAU, _WINDOW, _PHASE = 0.064, 4000, 20_000
_SMALL = "LAS, N = 128"
_CAPTION = Caption("las_fig9", "Seven phases", "tuples", (LATENCY_AXIS, DROPPED_AXIS), _TAU)


def sweep(runs: int | None, quick: bool) -> Sweep[int]:
    """All of it: an item is a seed, whose stream has all the phases."""
    count = how_many(runs, quick, few=5, many=20)
    return Sweep(_CAPTION, count, range(count), _run_seed, _claims)


def _run_seed(seed: int) -> list[Sample]:
    found: list[Sample] = []
    stream, target = phases(seed, length=_PHASE), AverageLatency(_TAU)
    for name, policy in (
        (STRAW, PublishedPolicy(STRAW, target)),
        (LAS, LasSettings(target, seed=seed)),
        (_SMALL, LasSettings(target, seed=seed, window=128)),
        (FULL, PublishedPolicy(FULL, target)),
        (OURS, AckedPrice(target, seed=seed)),
    ):
        latency, dropped = run(stream, policy, warm=False).windows(_WINDOW)
        for number, (q, alpha) in enumerate(zip(latency, dropped, strict=True)):
            values = {DROPPED: float(alpha)}
            if not np.isnan(q):
                values[LATENCY] = float(q)
            found.append((float((number + 1) * _WINDOW), name, values))
    return found


def _phase(
    samples: Samples, phase: str, policy: str, metric: str
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The means of a phase's windows, in order; a window in which no run kept a tuple has no latency."""
    begin = "ABCDEFG".index(phase) * _PHASE
    xs = range(begin + _WINDOW, begin + _PHASE + 1, _WINDOW)
    return np.array(
        [samples.mean(float(p), policy, metric) for p in xs if samples.has(float(p), policy, metric)]
    )


def _claims(samples: Samples) -> tuple[Claim, ...]:
    def latency(phase: str, policy: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return _phase(samples, phase, policy, LATENCY)

    settled = float(latency("A", LAS)[1:].max())
    apart = float(latency("A", STRAW)[-1] / latency("A", LAS)[-1])
    jump = float(_phase(samples, "B", LAS, DROPPED).mean())
    shifted = float(latency("D", LAS)[1:].max())
    lost = float(latency("D", STRAW)[-1])
    idle = float(max(latency("E", name).max() for name in (LAS, FULL)))
    first, last = float(latency("F", LAS)[0]), float(latency("F", LAS)[-1])
    small = float(latency("F", _SMALL)[2:].max())
    after = float(_phase(samples, "G", LAS, DROPPED).mean() - _phase(samples, "A", LAS, DROPPED).mean())
    straw = float(latency("G", STRAW).min())
    ours, drops = float(latency("F", OURS)[1:].max()), float(_phase(samples, "F", OURS, DROPPED).mean())
    fewer = 1 - drops / float(_phase(samples, "F", FULL, DROPPED).mean())
    return (
        Claim(
            "A: LAS soon keeps tau (greatest latency after the first window, s)",
            settled <= _TAU,
            settled,
        ),
        Claim(
            "A: Straw-Man drifts away from LAS (ratio of latencies in the last window)", apart > 3, apart
        ),
        Claim("B: LAS answers with more drops (mean dropped ratio)", 0.45 < jump < 0.6, jump),
        Claim("D: LAS keeps tau after one window (s)", shifted <= _TAU, shifted),
        Claim("D: Straw-Man does not (latency of the last window, s)", lost > 10 * _TAU, lost),
        Claim("E: LAS and Full Knowledge have no queue (greatest latency, s)", idle < 0.1 * _TAU, idle),
        Claim("F: LAS is bad at first (latency of the first window, s)", first > 10 * _TAU, first),
        Claim(
            "F: LAS converges within the phase (latency of the last window, s)", last <= 2 * _TAU, last
        ),
        Claim("F: with N = 128 it does, after two windows (s)", small <= 2 * _TAU, small),
        Claim("G: little effect on LAS (dropped ratio above A's)", after < 0.05, after),
        Claim("G: Straw-Man cannot recover (least latency, s)", straw > 10 * _TAU, straw),
        Claim(
            "ours: F is over after one window at most (greatest latency from the second on, s)",
            ours <= 1.05 * _TAU,
            ours,
        ),
        Claim("ours: with fewer drops in F than Full Knowledge (saving)", fewer > 0.25, fewer),
    )
