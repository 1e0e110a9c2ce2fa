"""Figures 8 to 12 of join-2007: streams that jump from 100 to 500 and 300 tuples a second and back.

The paper's schedule is 60 s at 100, 15 s at 500 and 30 s at 300 tuples a second; a minute at 100 follows
here, because what a burst leaves behind is part of its cost. Time goes in steps of 5 s, which is how
often the published rules adapt; x is the end of a step. A phase's settled end is its last step at 500
and its last three at 300: a fraction that starts at 1 needs some steps to come down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from headgate_lab.figures.figure import Axis, Claim, Samples
from headgate_lab.figures.join.points import Line, best_of
from headgate_lab.figures.join.policies import COMPARISONS, OUTPUT, metrics, sharing
from headgate_lab.figures.sweep import Caption, Sample, Sweep, how_many
from headgate_lab.sim.join.cpu import JoinSetup, run
from headgate_lab.sim.join.stream import Workload, stream

__all__ = [
    "FRACTION_1",
    "FRACTION_2",
    "FRACTION_AXES",
    "PHASES",
    "RATES",
    "RATE_AXIS",
    "STEP_S",
    "Schedule",
    "ScheduleRun",
    "over_time",
    "phase_gain",
    "phase_mean",
    "schedule",
]

STEP_S = 5.0
RATES = ((60.0, 100.0), (75.0, 500.0), (105.0, 300.0), (165.0, 100.0))
STREAM_RATE, FRACTION_1, FRACTION_2 = "stream_rate", "fraction_1", "fraction_2"
RATE_AXIS = Axis(STREAM_RATE, "stream rate (tuples/s)")
FRACTION_AXES = (Axis(FRACTION_1, "fraction of window 1"), Axis(FRACTION_2, "fraction of window 2"))

#: Stretches of the schedule by name, from and to which second.
PHASES = {
    "before": (20.0, 60.0),
    "500": (60.0, 75.0),
    "500 settled": (70.0, 75.0),
    "300": (75.0, 105.0),
    "300 settled": (90.0, 105.0),
    "after": (105.0, 165.0),
}


@dataclass(frozen=True)
class Schedule:
    """The schedule on one machine, and who is compared."""

    workload: Workload
    setup: JoinSetup
    lines: tuple[Line, ...]
    #: Whether rows say how much of each window is processed.
    fractions: bool = False


@dataclass(frozen=True)
class ScheduleRun:
    """One run of a schedule: an item of the work."""

    schedule: Schedule
    seed: int


def schedule(
    lines: tuple[Line, ...],
    windows_s: tuple[float, float] = (20.0, 20.0),
    skew: float = 0.6,
    shift: float = 0.0,
    capacity: float = COMPARISONS,
    fractions: bool = False,
) -> Schedule:
    """The paper's schedule; `shift` is tau as a share of the cycle, which is two windows long."""
    cycle = 2.0 * max(windows_s)
    workload = Workload(rates=RATES, skew=skew, shift_s=shift * cycle, cycle_s=cycle)
    setup = JoinSetup(sharing(3), windows_s=windows_s, capacity=capacity)
    return Schedule(workload, setup, lines, fractions)


def over_time(
    caption: Caption,
    schedules: Sequence[Schedule],
    count: tuple[int | None, bool, int, int],
    claims: Callable[[Samples], tuple[Claim, ...]],
) -> Sweep[ScheduleRun]:
    """Schedule after schedule, each with all its runs; `count` is what `how_many` takes."""
    runs = how_many(*count)
    items = [ScheduleRun(one, seed) for one in schedules for seed in range(runs)]
    return Sweep(caption, runs, items, run_schedule, claims)


def run_schedule(item: ScheduleRun) -> list[Sample]:
    """Every line on the stream of one run, step by step."""
    plan, found = item.schedule, list[Sample]()
    arrivals = stream(plan.workload, item.seed)
    ends = np.arange(STEP_S, plan.workload.seconds + 0.5, STEP_S).tolist()
    steps = [(end - STEP_S, end) for end in ends]
    for line in plan.lines:
        if line.rule is None:
            best = best_of(plan.workload, plan.setup)
            found += [(end, line.name, {OUTPUT: best.output_rate(start, end)}) for start, end in steps]
            continue
        result = run(arrivals, plan.setup, line.rule, seed=item.seed)
        for start, end in steps:
            values = metrics(result, start, end)
            if plan.fractions:
                first, second = result.fractions[int(start) : int(end)].mean(axis=0)
                rate = next(rate for until, rate in RATES if end <= until)
                values |= {STREAM_RATE: rate, FRACTION_1: float(first), FRACTION_2: float(second)}
            found.append((end, line.name, values))
    return found


def phase_mean(samples: Samples, phase: str, policy: str, metric: str = OUTPUT) -> float:
    """The mean of a metric over a stretch of the schedule."""
    start, stop = PHASES[phase]
    ends = np.arange(start + STEP_S, stop + 0.5, STEP_S).tolist()
    return float(np.mean([samples.mean(end, policy, metric) for end in ends]))


def phase_gain(samples: Samples, phase: str, policy: str, over: str) -> float:
    """How much more one policy puts out than another over a stretch."""
    return phase_mean(samples, phase, policy) / phase_mean(samples, phase, over) - 1.0
