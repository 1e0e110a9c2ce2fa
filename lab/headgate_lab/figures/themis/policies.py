"""What the THEMIS figures compare, by public name, and the measures of one run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from headgate.fairness.jain import jain
from headgate_lab.figures.figure import Axis, Samples
from headgate_lab.sim.themis.federation import FederationRun
from headgate_lab.sim.themis.shedders import Balance, Mirrored, Random

__all__ = [
    "BALANCE",
    "DISTANCE",
    "INSTANT",
    "JAIN",
    "JAIN_AXIS",
    "MEAN",
    "MEAN_AXIS",
    "MIN",
    "MIN_AXIS",
    "MIRROR",
    "NODE_TUPLES",
    "OPTIMUM",
    "OSCILLATION",
    "RANDOM",
    "SHEDDERS",
    "STD",
    "STD_AXIS",
    "WASTE",
    "bound_metrics",
    "gain",
    "metrics",
]

RANDOM, BALANCE, MIRROR, OPTIMUM = "random", "BALANCE-SIC", "mirror", "optimum"
#: All that run; the optimum is computed.
SHEDDERS = (Random(), Balance(), Mirrored())

JAIN, INSTANT = "jain", "jain_instant"
MEAN, MIN, STD = "mean_sic", "min_sic", "std_sic"
OSCILLATION, WASTE, DISTANCE = "oscillation", "waste", "distance"

JAIN_AXIS = Axis(JAIN, "Jain's index")
MEAN_AXIS = Axis(MEAN, "mean SIC")
MIN_AXIS = Axis(MIN, "least SIC")
STD_AXIS = Axis(STD, "std of SIC")

#: Tuples a second that a node can process: Figure 8's SIC of 0.1 at 528,000 tuples a second.
NODE_TUPLES = 52_800.0


#: Digits that a table shows at most; what is smaller is rounding.
_DIGITS = 6


def bound_metrics(q_sic: npt.NDArray[np.float64]) -> dict[str, float]:
    """Fairness of one value a query."""
    return _rounded(
        {
            JAIN: jain(q_sic),
            MEAN: float(q_sic.mean()),
            MIN: float(q_sic.min()),
            STD: float(q_sic.std()),
        }
    )


def metrics(
    run: FederationRun, warm_s: float, best: npt.NDArray[np.float64] | None = None
) -> dict[str, float]:
    """Everything after the first seconds; `best` is the optimum's q_SIC, if it is known."""
    means = run.means(warm_s)
    found = bound_metrics(means) | {
        INSTANT: run.jain_instant(warm_s),
        OSCILLATION: run.oscillation(warm_s),
        WASTE: run.waste(warm_s),
    }
    if best is not None:
        found[DISTANCE] = float(np.abs(means - best).mean())
    return _rounded(found)


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, _DIGITS) for name, value in values.items()}


def gain(samples: Samples, x: float | str, metric: str = JAIN, policy: str = BALANCE) -> float:
    """By how much a policy is above random shedding at a point."""
    return samples.mean(x, policy, metric) / samples.mean(x, RANDOM, metric) - 1.0
