"""Join-2007, Figure 7: tuples dropped at random, against the window, without and with an inverted index.

The paper's two numbers ask for a CPU a quarter as fast as its other figures do: half dropped at 50
tuples/s and 125 s means 156,000 comparisons a second, and they fit the 600,000 of the others if its
rates are those of half a stream. Rates here are of each stream, and both readings are judged.

What is dropped depends on the load over the CPU alone, and the load goes with the square of the rate. So
the indexed runs, whose windows take minutes to fill, are made at a quarter of the rate with a sixteenth
of the CPU.
"""

from __future__ import annotations

from headgate_lab.figures.figure import Claim, Samples
from headgate_lab.figures.join.points import Point, PointRun, lines, over_points
from headgate_lab.figures.join.policies import (
    COMPARISONS,
    DROPPED,
    DROPPED_AXIS,
    POSTINGS,
    RANDOM,
    sharing,
)
from headgate_lab.figures.sweep import Caption, Sweep
from headgate_lab.papers.join.rules import RandomDrop
from headgate_lab.sim.join.cpu import JoinSetup
from headgate_lab.sim.join.stream import Workload

__all__ = ["sweep"]

_RATES = (50.0, 100.0, 200.0)
_WINDOWS, _QUICK = (25.0, 50.0, 75.0, 125.0), (25.0, 125.0)
_INDEXED, _INDEXED_QUICK = (125.0, 250.0, 625.0), (125.0,)
_COUNTED_S = 40.0
#: Indexed runs have their rates divided by this and their CPU by its square.
_SLOWER = 4.0
_CAPTION = Caption("join_fig7", "Tuples dropped for want of CPU", "window size (s)", (DROPPED_AXIS,))


def _name(rate: float, indexed: bool) -> str:
    return f"{RANDOM}, {'index, ' if indexed else ''}{rate:g}/s"


def _point(window: float, rate: float, indexed: bool, slower: float = 1.0) -> Point:
    return Point(
        window,
        Workload(
            rates=((2.0 * window + _COUNTED_S, rate / slower),),
            cycle_s=2.0 * window,
            shift_s=1.25 * window,
        ),
        JoinSetup(
            sharing(3),
            windows_s=(window, window),
            capacity=(POSTINGS if indexed else COMPARISONS) / slower**2,
            index="time" if indexed else "none",
        ),
        lines(RandomDrop(), suffix=_name(rate, indexed).removeprefix(RANDOM)),
        warm_s=2.0 * window,
        metrics=(DROPPED,),
    )


def sweep(runs: int | None, quick: bool) -> Sweep[PointRun]:
    """All of it; two windows pass, for what came before the CPU was full must leave, and 40 s count."""
    windows, indexed = (_QUICK, _INDEXED_QUICK) if quick else (_WINDOWS, _INDEXED)
    points = [
        _point(window, rate, index, _SLOWER if index else 1.0)
        for window in sorted({*windows, *indexed})
        for index, shown in ((False, windows), (True, indexed))
        for rate in _RATES
        if window in shown
    ]
    return over_points(
        _CAPTION, points, (runs, quick, 1, 2), lambda samples: _claims(samples, indexed[-1])
    )


def _claims(samples: Samples, longest: float) -> tuple[Claim, ...]:
    def dropped(window: float, rate: float, indexed: bool = False) -> float:
        return samples.mean(window, _name(rate, indexed), DROPPED)

    printed, read, far = dropped(125.0, 50.0), dropped(125.0, 100.0), dropped(125.0, 200.0)
    slow, fast = dropped(longest, 100.0, True), dropped(longest, 200.0, True)
    eased = far - dropped(125.0, 200.0, True)
    claims = (
        Claim(
            "no index, 50 tuples/s, 125 s: about half is dropped (dropped ratio)",
            0.35 < printed < 0.65,
            printed,
        ),
        Claim("the same at 100 tuples/s of each stream (dropped ratio)", 0.35 < read < 0.65, read),
        Claim("an index drops less (dropped ratio saved at 200 tuples/s and 125 s)", eased > 0.1, eased),
    )
    if longest < 600.0:
        return claims
    return (
        *claims,
        Claim(
            "index, 100 tuples/s, 625 s: about a quarter is dropped (dropped ratio)",
            0.15 < slow < 0.35,
            slow,
        ),
        Claim("the same at 200 tuples/s of each stream (dropped ratio)", 0.15 < fast < 0.35, fast),
    )
