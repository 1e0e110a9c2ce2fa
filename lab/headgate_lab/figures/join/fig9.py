"""Join-2007, Figure 9: the output over time of rate adaptation and of random drop.

Settings of Figure 8. Skew and CPU are not in the paper's text; 0.6 and 600,000 comparisons a second come
closest to its two numbers, in the settled end of each phase. Its means over the phases come out in the
opposite order: of the 15 s at 500, five pass before r first falls. Cells and content are ours; the bound
knows the match density and spends every comparison where it is highest.
"""

from __future__ import annotations

from headgate_lab.figures.figure import Claim, Samples
from headgate_lab.figures.join.points import lines
from headgate_lab.figures.join.policies import (
    CELLS,
    CONTENT,
    DROPPED,
    DROPPED_AXIS,
    OUTPUT_AXIS,
    RANDOM,
    RATE,
)
from headgate_lab.figures.join.schedule import ScheduleRun, over_time, phase_gain, phase_mean, schedule
from headgate_lab.figures.sweep import Caption, Sweep
from headgate_lab.papers.join.rules import Cells, Content, RandomDrop, RateAdaptive

__all__ = ["sweep"]

_CAPTION = Caption("join_fig9", "Output with rate adaptation", "time (s)", (DROPPED_AXIS, OUTPUT_AXIS))


def sweep(runs: int | None, quick: bool) -> Sweep[ScheduleRun]:
    """The schedule under the published two, ours and the bound."""
    shown = lines(RandomDrop(), RateAdaptive(), Cells(), Content(), bounded=True)
    plan = schedule(shown, windows_s=(20.0, 0.0))
    return over_time(_CAPTION, [plan], (runs, quick, 3, 10), _claims)


def _claims(samples: Samples) -> tuple[Claim, ...]:
    def gain(phase: str, policy: str = RATE) -> float:
        return phase_gain(samples, phase, policy, RANDOM)

    idle = phase_mean(samples, "before", RANDOM, DROPPED)
    spared = phase_mean(samples, "after", RATE, DROPPED)
    return (
        Claim("nothing is dropped at 100 tuples/s (dropped ratio of random drop)", idle < 0.001, idle),
        Claim(
            "about +100 % at 500 tuples/s, settled (gain over random drop)",
            0.75 < gain("500 settled") < 1.35,
            gain("500 settled"),
        ),
        Claim(
            "about +50 % at 300 tuples/s, settled (gain)",
            0.35 < gain("300 settled") < 0.7,
            gain("300 settled"),
        ),
        Claim("about +100 % over the whole phase at 500 (gain)", gain("500") > 0.75, gain("500")),
        Claim(
            "over whole phases, too, 500 gains more than 300 (difference of gains)",
            gain("500") > gain("300"),
            gain("500") - gain("300"),
        ),
        Claim(
            "back at 100 tuples/s rate adaptation is as good as random drop (gain, a minute after)",
            gain("after") > -0.05,
            gain("after"),
        ),
        Claim("though it then drops nothing (its dropped ratio)", spared < 0.001, spared),
        Claim(
            "ours: cells are never below random drop after a burst (gain)",
            gain("after", CELLS) > -0.02,
            gain("after", CELLS),
        ),
        Claim(
            "ours: nor content (gain)",
            gain("after", CONTENT) > -0.02,
            gain("after", CONTENT),
        ),
        Claim(
            "ours: cells gain more than rate adaptation at 500, over the whole phase (gain)",
            gain("500", CELLS) > gain("500"),
            gain("500", CELLS),
        ),
    )
