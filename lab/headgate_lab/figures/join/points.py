"""Join rules at points along an axis, each run on a stream of its own that all lines of a point share.

A line is a rule and its name; the rule None is the bound, which knows the match density and needs no
run. The first line of a point is the one that the others' improvement is measured against. The first
seconds are not counted: windows fill and the rules learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from headgate_lab.figures import sweep as sweeping
from headgate_lab.figures.join.policies import BOUND, DROPPED, IMPROVEMENT, OUTPUT, VALUE, metrics
from headgate_lab.figures.sweep import Sample
from headgate_lab.papers.join.rules import Rule
from headgate_lab.sim.join.bound import Bound, bound
from headgate_lab.sim.join.cpu import JoinSetup, run
from headgate_lab.sim.join.stream import Workload, stream

__all__ = ["Line", "Point", "PointRun", "best_of", "lines", "over_points", "run_point"]


@dataclass(frozen=True)
class Line:
    """One line of the figure; the rule None stands for the bound."""

    name: str
    rule: Rule | None


@dataclass(frozen=True)
class Point:
    """One point on the x axis: streams, machine, and who is compared."""

    x: float | str
    workload: Workload
    setup: JoinSetup
    lines: tuple[Line, ...]
    #: Nothing before this second is counted.
    warm_s: float = 60.0
    #: Which of the metrics to give.
    metrics: tuple[str, ...] = (OUTPUT, DROPPED)


#: One run at one point.
PointRun = sweeping.PointRun[Point]


def lines(*rules: Rule, suffix: str = "", bounded: bool = False) -> tuple[Line, ...]:
    """Rules under their public names, and the bound if asked for; a suffix tells settings apart."""
    found = [Line(rule.name + suffix, rule) for rule in rules]
    return (*found, Line(BOUND + suffix, None)) if bounded else tuple(found)


@lru_cache(maxsize=16)
def best_of(workload: Workload, setup: JoinSetup) -> Bound:
    """The bound, once for all runs: it is the workload's, not a stream's."""
    return bound(workload, setup)


def run_point(item: PointRun) -> list[Sample]:
    """Every line on the stream of one run."""
    point, found = item.point, list[Sample]()
    arrivals, stop = stream(point.workload, item.seed), point.workload.seconds
    wanted = VALUE if VALUE in point.metrics else OUTPUT
    base: float | None = None
    for line in point.lines:
        if line.rule is None:
            best = best_of(point.workload, point.setup)
            values = {
                OUTPUT: best.output_rate(point.warm_s, stop),
                VALUE: best.utility_rate(point.warm_s, stop),
            }
        else:
            result = run(arrivals, point.setup, line.rule, seed=item.seed)
            values = metrics(result, point.warm_s, stop)
            if wanted == VALUE:
                values[VALUE] = result.utility_rate(point.warm_s, stop)
        kept = {name: value for name, value in values.items() if name in point.metrics}
        if base is None:
            base = values[wanted]
        elif base > 0:
            kept[IMPROVEMENT] = values[wanted] / base - 1.0
        found.append((point.x, line.name, kept))
    return found


#: Point after point, each with all its runs.
over_points = sweeping.sweeps_of(run_point)
