"""Join-2007, Figure 8: the stream rates over time, and how the fraction r follows them.

Rate adaptation alone (Algorithm 1), streams in step (tau = 0), and a window of 20 s on one stream only,
window 1; so r is `fraction_1`. Figure 9 is the output of the same runs.
"""

from __future__ import annotations

from headgate_lab.figures.figure import Claim, Samples
from headgate_lab.figures.join.points import lines
from headgate_lab.figures.join.policies import DROPPED, DROPPED_AXIS, RATE
from headgate_lab.figures.join.schedule import (
    FRACTION_1,
    FRACTION_AXES,
    RATE_AXIS,
    ScheduleRun,
    over_time,
    phase_mean,
    schedule,
)
from headgate_lab.figures.sweep import Caption, Sweep
from headgate_lab.papers.join.rules import RateAdaptive

__all__ = ["sweep"]

_CAPTION = Caption(
    "join_fig8",
    "Stream rates and the fraction r",
    "time (s)",
    (RATE_AXIS, FRACTION_AXES[0], DROPPED_AXIS),
)


def sweep(runs: int | None, quick: bool) -> Sweep[ScheduleRun]:
    """The schedule under rate adaptation."""
    shown = schedule(lines(RateAdaptive()), windows_s=(20.0, 0.0), fractions=True)
    return over_time(_CAPTION, [shown], (runs, quick, 3, 10), _claims)


def _claims(samples: Samples) -> tuple[Claim, ...]:
    def r(phase: str) -> float:
        return phase_mean(samples, phase, RATE, FRACTION_1)

    last = samples.mean(165.0, RATE, FRACTION_1)
    slow = samples.mean(125.0, RATE, FRACTION_1)
    eased = samples.mean(105.0, RATE, FRACTION_1) / samples.mean(80.0, RATE, FRACTION_1)
    lost = samples.mean(65.0, RATE, DROPPED)
    return (
        Claim("r is 1 while 100 tuples/s come (mean)", r("before") > 0.99, r("before")),
        Claim(
            "r falls at 500 tuples/s (mean of the last 5 s)", r("500 settled") < 0.5, r("500 settled")
        ),
        Claim(
            "r rises again at 300 (in the last 5 s over the first 5 s)",
            eased > 1.05,
            eased,
        ),
        Claim("r returns to 1 when the burst is over (in the last 5 s)", last > 0.95, last),
        Claim("soon (r 20 s after it)", slow > 0.95, slow),
        Claim(
            "partial processing drops no tuples (dropped ratio in the burst's first 5 s)",
            lost < 0.01,
            lost,
        ),
    )
