"""The clairvoyant bound of a simulated join, second by second (`headgate_lab.papers.join.bound`).

The match density is the workload's own, window contents are those of its rates (nothing is lost), and
the budget of each second goes to the best (direction, lag, type of the probe). A bound on output and a
bound on utility are two different choices; both are given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headgate.joins.conditions import Overlap
from headgate_lab.papers.join.bound import clairvoyant
from headgate_lab.sim.join.cpu import JoinSetup
from headgate_lab.sim.join.density import match_density
from headgate_lab.sim.join.stream import JoinStream, Workload

__all__ = ["Bound", "bound"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Bound:
    """The most that can come out, by second."""

    output: Floats
    utility: Floats

    def output_rate(self, start: float = 0, stop: float = math.inf) -> float:
        """Results a second, between two seconds."""
        return float(self.output[int(start) : int(min(stop, len(self.output)))].mean())

    def utility_rate(self, start: float = 0, stop: float = math.inf) -> float:
        """Utility a second, between two seconds."""
        return float(self.utility[int(start) : int(min(stop, len(self.utility)))].mean())


def bound(streams: JoinStream | Workload, setup: JoinSetup, lags: int = 400) -> Bound:
    """What a clairvoyant gets out of the workload, on average over its seeds."""
    workload = streams.workload if isinstance(streams, JoinStream) else streams
    seconds = math.ceil(workload.seconds)
    at_least = setup.condition.at_least if isinstance(setup.condition, Overlap) else 0
    shares = np.asarray(workload.types, np.float64) / sum(workload.types)
    worth = setup.layout.utility @ shares  # E[max V], by type of the probe
    output, utility = np.zeros(seconds), np.zeros(seconds)
    for second in range(seconds):
        now = second + 0.5
        chance, price, supply = [], [], []
        for side, length in enumerate(setup.windows_s):
            if length <= 0:
                continue
            step = length / lags
            lag = np.asarray((np.arange(lags) + 0.5) * step, np.float64)
            hit, common = match_density(workload, at_least, side, now, lag)
            probes = float(workload.rate(1 - side, np.array([now]))[0])
            chance.append(hit)
            price.append((common if setup.index != "none" else 1.0) + setup.result_cost * hit)
            supply.append(probes * workload.rate(side, now - lag) * step)
        hits, costs, pairs = (np.concatenate(parts) for parts in (chance, price, supply))
        costs = np.maximum(costs, 1e-12)
        output[second] = hits @ clairvoyant(hits, costs, pairs, setup.capacity)
        if len(worth) == 1:
            utility[second] = output[second] * worth[0]
            continue
        values = np.outer(hits, worth).ravel()
        each = np.repeat(costs, len(worth))
        utility[second] = values @ clairvoyant(
            values, each, np.outer(pairs, shares).ravel(), setup.capacity
        )
    return Bound(output, utility)
