"""What the LAS figures compare, by public name, and the metrics of one run."""

from __future__ import annotations

from headgate_lab.figures.figure import Axis
from headgate_lab.sim.las.queue import LasRun

__all__ = [
    "BASE",
    "BOUND",
    "DROPPED",
    "DROPPED_AXIS",
    "FULL",
    "HARD_KNOWN",
    "LAS",
    "LATENCY",
    "LATENCY_AXIS",
    "OURS",
    "OURS_KNOWN",
    "SHEDDING",
    "SHEDDING_AXIS",
    "SOFT",
    "STRAW",
    "metrics",
]

BASE, STRAW, LAS, FULL = "Base Line", "Straw-Man", "LAS", "Full Knowledge"
OURS, OURS_KNOWN, HARD_KNOWN, SOFT = (
    "balanced price",
    "balanced price, known costs",
    "hard price, known costs",
    "soft price",
)
BOUND = "clairvoyant bound"
LATENCY, DROPPED, SHEDDING = "average_queueing_latency_s", "dropped_ratio", "shedding_ratio"

#: The paper's axes.
LATENCY_AXIS = Axis(LATENCY, "average queueing latency (ms)", 1e3, log=True)
DROPPED_AXIS = Axis(DROPPED, "dropped ratio")
SHEDDING_AXIS = Axis(SHEDDING, "shedding ratio against Base Line")


def metrics(result: LasRun, base: LasRun | None = None) -> dict[str, float]:
    """The paper's metrics of one run; the shedding ratio only where Base Line drops at all."""
    found = {LATENCY: result.average_latency_s, DROPPED: result.dropped_ratio}
    if base is not None and base.dropped:
        found[SHEDDING] = (result.dropped - base.dropped) / base.dropped
    return found
