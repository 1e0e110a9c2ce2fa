"""``headgate bench themis-deployments``: how near to the fair optimum, by deployment and shedder.

Federations of themis-2016's complex workload in virtual time: random shedding, BALANCE-SIC as published,
the improved shedder, and the lexicographic max-min optimum of a planner who knows everything. The goal
is the improved one's: its worst served query has at least 0.98 of what the worst has in the optimum.

The index is not the goal: it is of queries' averages over time, and BALANCE-SIC's oscillation does not
show in it. The optimum is of a fluid and at rest, so its instantaneous index is its index. In step means
that all windows start and all nodes decide at the same moments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headgate_lab.bench.progress import bench_progress
from headgate_lab.figures.themis.points import Point, PointRun, run_point
from headgate_lab.figures.themis.policies import (
    BALANCE,
    DISTANCE,
    INSTANT,
    JAIN,
    MEAN,
    MIN,
    MIRROR,
    OPTIMUM,
    OSCILLATION,
    RANDOM,
    WASTE,
)
from headgate_lab.sim.themis.deployment import Deployment

__all__ = ["DEPLOYMENTS", "run"]

#: By the name that ends the ratios.
DEPLOYMENTS = {
    "18_nodes_even": Deployment(18, 2000, capacity=0.2),
    "18_nodes_even_in_step": Deployment(18, 2000, capacity=0.2, in_step=True),
    "18_nodes_zipf_1": Deployment(18, 2000, zipf=1.0, capacity=0.3),
    "18_nodes_zipf_1_in_step": Deployment(18, 2000, zipf=1.0, capacity=0.3, in_step=True),
    "18_nodes_zipf_1_half": Deployment(18, 2000, zipf=1.0, capacity=0.5),
    "6_nodes_zipf_1": Deployment(6, None, 200, (1, 2, 3), zipf=1.0, capacity=0.3),
    "10_nodes_1_or_3_fragments": Deployment(10, 2000, None, (1, 3), zipf=1.0, capacity=0.4),
}
_QUICK = {"6_nodes_zipf_1": Deployment(6, None, 60, (1, 2, 3), zipf=1.0, capacity=0.3)}
#: The seconds of a run, and of its beginning that is not counted.
_SPAN, _SHORT = (90.0, 30.0), (40.0, 20.0)
_SEEDS = 2
#: The metrics of a run by the names that are printed.
_COLUMNS = {
    "jain": JAIN,
    "jain_instant": INSTANT,
    "minimum": MIN,
    "mean": MEAN,
    "oscillation": OSCILLATION,
    "waste": WASTE,
    "distance": DISTANCE,
}


def run(*, quick: bool) -> dict[str, Any]:
    """A row for each deployment and shedder, averaged over the seeds; the goals as ratios."""
    deployments = _QUICK if quick else DEPLOYMENTS
    seeds, span = (1, _SHORT) if quick else (_SEEDS, _SPAN)
    rows: list[dict[str, Any]] = []
    ratios: dict[str, float] = {}
    with bench_progress() as progress:
        task = progress.add_task("virtual time", total=seeds * len(deployments))
        for name, deployment in deployments.items():
            progress.update(task, description=name.replace("_", " "))
            runs = []
            for seed in range(seeds):
                point = Point(name, deployment, *span, shown=tuple(_COLUMNS.values()))
                runs.append(_run(point, seed))
                progress.advance(task)
            rows += _rows(name, runs)
            ratios |= _ratios(name, runs)
    least = min(value for name, value in ratios.items() if name.startswith("minimum_vs_optimum"))
    return {
        "bench": "themis-deployments",
        "ratios": {"least_minimum_vs_optimum": least, **ratios},
        "context": {
            "goals": {"least_minimum_vs_optimum": 0.98},
            "seeds": seeds,
            "seconds": span[0],
            "not_counted_s": span[1],
            "tables": {"result SIC by deployment": rows},
        },
    }


Measured = Mapping[str, Mapping[str, float]]


def _run(point: Point, seed: int) -> Measured:
    """Every metric of every shedder in one run; the optimum rests, wastes nothing and is where it is."""
    found = {policy: dict(metrics) for _, policy, metrics in run_point(PointRun(point, seed))}
    at_rest = {OSCILLATION: 0.0, WASTE: 0.0, DISTANCE: 0.0}
    found[OPTIMUM] |= {INSTANT: found[OPTIMUM][JAIN], **at_rest}
    return found


def _rows(name: str, runs: Sequence[Measured]) -> list[dict[str, Any]]:
    return [
        {"deployment": name.replace("_", " "), "policy": policy}
        | {column: _mean([run[policy][metric] for run in runs]) for column, metric in _COLUMNS.items()}
        for policy in (RANDOM, BALANCE, MIRROR, OPTIMUM)
    ]


def _ratios(name: str, runs: Sequence[Measured]) -> dict[str, float]:
    """Layouts differ by seed, so each run is held against its own optimum."""

    def ratio(policy: str, other: str, metric: str) -> float:
        return _mean([run[policy][metric] / run[other][metric] for run in runs])

    return {
        f"minimum_vs_optimum_{name}": ratio(MIRROR, OPTIMUM, MIN),
        f"published_minimum_vs_optimum_{name}": ratio(BALANCE, OPTIMUM, MIN),
        f"random_minimum_vs_optimum_{name}": ratio(RANDOM, OPTIMUM, MIN),
        f"mean_vs_optimum_{name}": ratio(MIRROR, OPTIMUM, MEAN),
        f"published_mean_vs_optimum_{name}": ratio(BALANCE, OPTIMUM, MEAN),
        f"published_jain_vs_random_{name}": ratio(BALANCE, RANDOM, JAIN),
        f"jain_vs_published_{name}": ratio(MIRROR, BALANCE, JAIN),
        f"jain_instant_vs_published_{name}": ratio(MIRROR, BALANCE, INSTANT),
    }


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
