"""Themis-2016, section 7.5: BALANCE-SIC against two central optimisations.

The simple set-up: 60 AVG-all queries of two fragments, all sources on the first node, whose capacity is
that of 3.4 queries (the paper has 3 whole ones and a part of one). FIT [34] maximises the sum of the
outputs, [44] the sum of their logarithms. It is there twice: windows start when their query does, or all
in step. Out of step, a batch waits up to a second for the second window to end, another time for each
query, and BALANCE-SIC gives more to those that wait longer.

The complex one: 20 AVG-all queries of three fragments, 20 COV and 20 TOP-5 of two, on 4 nodes at random;
capacities are not stated.

The paper compares the Jain index of [44]'s normalised log-rates with that of BALANCE-SIC's SIC values.
Logarithms are nearly equal whatever is done, so both are given here, of SIC and of log-rates, for all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headgate.fairness.jain import jain
from headgate_lab.figures.figure import Claim, Samples
from headgate_lab.figures.sweep import Caption, Sample, Sweep, how_many
from headgate_lab.figures.themis.policies import (
    BALANCE,
    JAIN,
    JAIN_AXIS,
    MEAN,
    MEAN_AXIS,
    MIN,
    MIN_AXIS,
    MIRROR,
    OPTIMUM,
    SHEDDERS,
    bound_metrics,
)
from headgate_lab.papers.themis.anchors import fit, log_utility, max_min
from headgate_lab.sim.themis.deployment import AVG_ALL, COV, TOP_5
from headgate_lab.sim.themis.federation import run as run_federation
from headgate_lab.sim.themis.layout import Layout, PlacedFragment, place
from headgate_lab.sim.themis.optimum import fluid

__all__ = ["FIT", "IN_STEP", "LOG", "SIMPLE", "run", "sweep"]

FIT, LOG = "FIT", "log utility"
SIMPLE, IN_STEP = "simple", "simple, in step"
FULL, EMPTY, LOG_RATES = "full_queries", "empty_queries", "jain_log_rates"
_QUERIES = 60
_CAPACITIES, _FEW = (0.1, 0.3, 0.5, 0.7), (0.1, 0.5)
_CAPTION = Caption(
    "themis_sec75",
    "BALANCE-SIC and central optimisation",
    "set-up, and capacity / load",
    (JAIN_AXIS, MEAN_AXIS, MIN_AXIS),
)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CentralRun:
    """A set-up and a seed: an item of the work; no capacity stands for the simple set-up."""

    x: str
    capacity: float | None
    seconds: float
    seed: int


def sweep(runs: int | None, quick: bool) -> Sweep[CentralRun]:
    """The simple set-up, and the complex one at some capacities."""
    count = how_many(runs, quick, few=1, many=3)
    points: dict[str, float | None] = {SIMPLE: None, IN_STEP: None}
    points |= {f"complex, {capacity:g}": capacity for capacity in (_FEW if quick else _CAPACITIES)}
    items = [
        CentralRun(x, capacity, 40.0 if quick else 300.0 if capacity is None else 120.0, seed)
        for x, capacity in points.items()
        for seed in range(count)
    ]
    return Sweep(_CAPTION, count, items, run, _claims)


def run(item: CentralRun) -> list[Sample]:
    """The central answers and the shedders on one layout."""
    if item.capacity is None:
        layout = _simple(item.seed, in_step=item.x == IN_STEP)
    else:
        layout = _complex(item.capacity, item.seed)
    loads, found = fluid(layout), list[Sample]()
    for name, central in ((FIT, fit), (LOG, log_utility), (OPTIMUM, max_min)):
        found.append((item.x, name, _metrics(layout, central(loads).q_sic)))
    for shedder in SHEDDERS:
        result = run_federation(layout, shedder, item.seconds, item.seed)
        found.append((item.x, shedder.name, _metrics(layout, result.means(20.0))))
    return found


def _metrics(layout: Layout, q_sic: Floats) -> dict[str, float]:
    """Fairness, how many queries get all or nothing, and Jain's index of the normalised log-rates."""
    load = np.bincount(layout.fragment_query, layout.fragment_load, minlength=layout.queries)
    measured = bound_metrics(q_sic)
    return {metric: measured[metric] for metric in (JAIN, MEAN, MIN)} | {
        LOG_RATES: jain(np.log1p(q_sic * load) / np.log1p(load)),
        FULL: float((q_sic > 0.999).sum()),
        EMPTY: float((q_sic < 0.001).sum()),
    }


def _simple(seed: int, in_step: bool) -> Layout:
    random = np.random.default_rng([seed, 66])
    placed = []
    for query in range(_QUERIES):
        rates = (150.0,) * AVG_ALL.sources
        phases = np.zeros(2) if in_step else random.random(2)
        placed.append(PlacedFragment(query, 0, rates, 1, 2 * query + 1, phases[0]))
        placed.append(PlacedFragment(query, 1, (), 1, None, phases[1]))
    return place(placed, [3.4 * 150.0 * AVG_ALL.sources] * 2)


def _complex(capacity: float, seed: int) -> Layout:
    random = np.random.default_rng([seed, 67])
    placed: list[PlacedFragment] = []
    for query in range(_QUERIES):
        kind, count = ((AVG_ALL, 3), (COV, 2), (TOP_5, 2))[query % 3]
        last = len(placed) + count - 1
        for node in random.permutation(4)[:count]:
            at = len(placed)
            feeds = None if at == last else last if kind.shape == "tree" else at + 1
            rates = (150.0,) * kind.sources
            placed.append(PlacedFragment(query, int(node), rates, kind.outputs, feeds, random.random()))
    total = 150.0 * sum(len(fragment.rates) for fragment in placed)
    return place(placed, [capacity * total / 4] * 4)


def _claims(samples: Samples) -> tuple[Claim, ...]:
    complex_ = list(dict.fromkeys(row.x for row in samples.rows() if str(row.x).startswith("complex")))

    def mean(x: float | str, policy: str, metric: str = JAIN) -> float:
        return samples.mean(x, policy, metric)

    middle = complex_[1] if len(complex_) == 2 else complex_[2]
    behind = min(mean(x, BALANCE) - mean(x, LOG) for x in complex_)
    logs = min(mean(x, LOG, LOG_RATES) for x in complex_)
    richer = mean(middle, LOG, MEAN) / mean(middle, BALANCE, MEAN) - 1.0
    near = max(mean(x, OPTIMUM) - mean(x, MIRROR) for x in (SIMPLE, IN_STEP, *complex_))
    corner = (mean(SIMPLE, FIT, FULL), mean(SIMPLE, FIT, EMPTY))
    return (
        Claim(
            "FIT serves 3 of 60 queries whole, one in part and the rest not (queries served whole)",
            corner == (3.0, _QUERIES - 4.0),
            corner[0],
        ),
        Claim("which is not fair (Jain)", mean(SIMPLE, FIT) < 0.1, mean(SIMPLE, FIT)),
        Claim("log utility is fair there (Jain)", mean(SIMPLE, LOG) > 0.999, mean(SIMPLE, LOG)),
        Claim("and so is BALANCE-SIC (Jain)", mean(SIMPLE, BALANCE) > 0.97, mean(SIMPLE, BALANCE)),
        Claim(
            "the same with all windows in step (Jain)",
            mean(IN_STEP, BALANCE) > 0.97,
            mean(IN_STEP, BALANCE),
        ),
        Claim("ours: and mirror (Jain)", mean(SIMPLE, MIRROR) > 0.97, mean(SIMPLE, MIRROR)),
        Claim(
            "complex: log utility has 0.87 (Jain of SIC at half the load)",
            0.82 < mean(middle, LOG) < 0.92,
            mean(middle, LOG),
        ),
        Claim(
            "complex: BALANCE-SIC has 0.97 (Jain at half the load)",
            mean(middle, BALANCE) > 0.96,
            mean(middle, BALANCE),
        ),
        Claim("complex: BALANCE-SIC is the fairer one (least difference)", behind > 0, behind),
        Claim("complex: 0.87 is of the normalised log-rates (least of them)", logs < 0.92, logs),
        Claim(
            "ours: log utility's mean SIC is the higher one (gain at half the load)", richer > 0, richer
        ),
        Claim("ours: mirror is within 0.01 of the optimum's Jain (greatest)", near < 0.01, near),
    )
