"""Join-2007, Figure 11: the stream rates over time, and how the fractions r_1 and r_2 follow them.

All adaptations (Algorithms 1 to 4), windows of 20 s on both streams, tau = 5/8 of the cycle. The paper
sees r_2 reduced first. With its own formula, which delays stream 2, the matches are in window 2, at
three quarters of it, and so r_1 must go; r_2 would if stream 1 were delayed. Figure 12 is the output of
these runs.
"""

from __future__ import annotations

from headgate_lab.figures.figure import Claim, Samples
from headgate_lab.figures.join.points import lines
from headgate_lab.figures.join.policies import DIRECTION
from headgate_lab.figures.join.schedule import (
    FRACTION_1,
    FRACTION_2,
    FRACTION_AXES,
    RATE_AXIS,
    ScheduleRun,
    over_time,
    phase_mean,
    schedule,
)
from headgate_lab.figures.sweep import Caption, Sweep
from headgate_lab.papers.join.rules import Directed

__all__ = ["sweep"]

_CAPTION = Caption(
    "join_fig11", "Stream rates and the fractions r_1, r_2", "time (s)", (RATE_AXIS, *FRACTION_AXES)
)


def sweep(runs: int | None, quick: bool) -> Sweep[ScheduleRun]:
    """The schedule under all adaptations."""
    shown = schedule(lines(Directed()), shift=0.625, fractions=True)
    return over_time(_CAPTION, [shown], (runs, quick, 3, 10), _claims)


def _claims(samples: Samples) -> tuple[Claim, ...]:
    def r(window: str, phase: str) -> float:
        return phase_mean(samples, phase, DIRECTION, window)

    apart = r(FRACTION_2, "500 settled") - r(FRACTION_1, "500 settled")
    least = min(r(FRACTION_1, "before"), r(FRACTION_2, "before"))
    useless = r(FRACTION_1, "300 settled")
    last = min(samples.mean(165.0, DIRECTION, window) for window in (FRACTION_1, FRACTION_2))
    return (
        Claim("both are 1 while 100 tuples/s come (least mean)", least > 0.99, least),
        Claim(
            "the less useful window is reduced first: window 1, by the formula printed "
            "(r_2 - r_1 in the last 5 s at 500)",
            apart > 0.1,
            apart,
        ),
        Claim("which is r_2, as the text has it (the same)", apart < -0.1, apart),
        Claim("all of it goes before the other (its mean, settled at 300)", useless < 0.1, useless),
        Claim("both return to 1 within a minute (the lesser, in the last 5 s)", last > 0.95, last),
    )
