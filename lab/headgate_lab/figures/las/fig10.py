"""Las-2020, Figure 10: the seven phases of Figure 9 on a real query, completion latency over time.

The paper ran them on Storm, one tuple at a time with tau = 64 ms; on Spark a row waits about a batch, so
durations and tau are larger here (1 to 40 ms, tau = 2 s) and phases are counted in rows. As in the paper
the figure shows completion latency: from arrival to the end of the execution. N is 128, because with
1024 LAS has no matrices before the third phase.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headgate_lab.figures.figure import Axis, Claim, Drawn, Samples
from headgate_lab.figures.las.policies import DROPPED, DROPPED_AXIS, FULL, LAS, OURS, STRAW
from headgate_lab.figures.on_spark import COMPLETION, guarded_runs, windows_of
from headgate_lab.papers.las import LasSettings
from headgate_lab.sim.las.stream import StreamLaw, phases
from headgate_lab.spark.trace_source import Trace

__all__ = ["build"]

_TAU = 2.0
_LAW = StreamLaw(items=256, values=64, shortest_s=0.001, longest_s=0.04)
_LENGTH, _QUICK = 1500, 500
_WINDOWS = 5
_POLICIES = {
    STRAW: "straw-man",
    LAS: LasSettings(window=128, epsilon=0.01),
    FULL: "full-knowledge",
    OURS: "balanced",
}


def build(runs: int | None, quick: bool, progress: Callable[[int, int], None]) -> Drawn:
    """Run the guarded query under every policy, and draw its latencies."""
    count, length = runs or 1, _QUICK if quick else _LENGTH
    samples, window = Samples(), length // _WINDOWS
    for name, _, found in guarded_runs(_POLICIES, count, lambda s: _trace(s, length), _TAU, progress):
        for number, values in enumerate(windows_of(found, 7 * _WINDOWS), 1):
            samples.add(float(number * window), name, values)
    return Drawn(
        "las_fig10",
        f"Seven phases of {length} rows on Spark, tau = {_TAU:g} s",
        "rows",
        count,
        samples.rows(),
        _claims(samples, length),
        (Axis(COMPLETION, "average completion latency (s)", log=True), DROPPED_AXIS),
        _TAU,
    )


def _trace(seed: int, length: int) -> Trace:
    stream = phases(seed, _LAW, length)
    return Trace(stream.arrivals_s, [f"item-{item}" for item in stream.items], stream.durations_s)


def _claims(samples: Samples, length: int) -> tuple[Claim, ...]:
    def of(phase: str, policy: str, metric: str = COMPLETION, last: int = 2) -> float:
        """The mean over the last windows of a phase in which anything was kept; 0 if nothing was."""
        end = ("ABCDEFG".index(phase) + 1) * length
        xs = [float(end - n * (length // _WINDOWS)) for n in range(_WINDOWS)]
        found = [samples.mean(p, policy, metric) for p in xs if samples.has(p, policy, metric)]
        return float(np.mean(found[:last])) if found else 0.0

    las, ours, full = of("B", LAS), of("B", OURS), of("B", FULL)
    straw = of("F", STRAW)
    fewer = 1 - of("B", OURS, DROPPED) / of("B", FULL, DROPPED)
    calm = of("E", OURS, DROPPED)
    doubled = of("F", OURS)
    return (
        Claim("B: LAS stays near tau (completion, s)", las < 1.5 * _TAU, las),
        Claim("B: Full Knowledge stays near tau (completion, s)", full < 1.5 * _TAU, full),
        Claim("F: Straw-Man does not recover (completion, s)", straw > 2 * _TAU, straw),
        Claim("ours: B stays near tau (completion, s)", ours < 1.5 * _TAU, ours),
        Claim("ours: fewer drops in B than Full Knowledge (saving)", fewer > 0.25, fewer),
        Claim("ours: E, over-provisioned, drops next to nothing (ratio)", calm < 0.02, calm),
        Claim(
            "ours: F, costs doubled at once, ends near tau (completion, s)",
            doubled < 1.5 * _TAU,
            doubled,
        ),
    )
