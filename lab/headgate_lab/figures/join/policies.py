"""What the join figures compare, by public name, and the metrics of a stretch of one run."""

from __future__ import annotations

from headgate.joins.conditions import Condition, overlap
from headgate_lab.figures.figure import Axis, Samples
from headgate_lab.sim.join.cpu import JoinRun

__all__ = [
    "BOUND",
    "CELLS",
    "COMPARISONS",
    "CONTENT",
    "DIRECTION",
    "DROPPED",
    "DROPPED_AXIS",
    "IMPROVEMENT",
    "IMPROVEMENT_AXIS",
    "OUTPUT",
    "OUTPUT_AXIS",
    "OUTPUT_LOG_AXIS",
    "POSTINGS",
    "RANDOM",
    "RATE",
    "TIME",
    "UTILITY",
    "VALUE",
    "VALUE_AXIS",
    "gain",
    "metrics",
    "sharing",
]

RANDOM, RATE, TIME, DIRECTION, UTILITY = (
    "random drop",
    "rate",
    "rate+time",
    "rate+time+direction",
    "utility",
)
CELLS, CONTENT, BOUND = "cells", "content", "bound"
OUTPUT, VALUE, DROPPED, IMPROVEMENT = "output_rate", "output_utility", "dropped_ratio", "improvement"

#: The virtual CPU: comparisons a second, and postings a second where there is an index. The paper's own
#: statements disagree by a factor of four; these agree with all of its figures but the seventh.
COMPARISONS, POSTINGS = 600_000.0, 8_000_000.0

OUTPUT_AXIS = Axis(OUTPUT, "output rate (tuples/s)")
OUTPUT_LOG_AXIS = Axis(OUTPUT, "output rate (tuples/s)", log=True)
VALUE_AXIS = Axis(VALUE, "output utility (1/s)")
DROPPED_AXIS = Axis(DROPPED, "dropped ratio")
IMPROVEMENT_AXIS = Axis(IMPROVEMENT, "improvement (%)", 100.0)


def sharing(items: int) -> Condition:
    """The paper's overlap join: sets that share so many items."""
    return overlap("items", at_least=items)


def metrics(run: JoinRun, start: float, stop: float) -> dict[str, float]:
    """Results a second and the share of tuples that no window ever saw, between two seconds of a run."""
    return {OUTPUT: run.output_rate(start, stop), DROPPED: run.dropped_ratio(start, stop)}


def gain(
    samples: Samples, x: float | str, policy: str, over: str, metric: str = OUTPUT, at: float | str = ""
) -> float:
    """How much more one policy yields than another at a point, from the means over the runs."""
    return samples.mean(x, policy, metric) / samples.mean(at or x, over, metric) - 1.0
