"""How long a node takes to decide: the improved shedder beside uniform, random and BALANCE-SIC."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from headgate.fairness.balance_sic import BalanceSic
from headgate.fairness.mirror import Mirror, MirrorSettings
from headgate.fairness.random_shedding import RandomShedding

__all__ = ["decision_ms"]


def decision_ms(
    fragments: int = 2000, sources: int = 20, repeats: int = 15, kept: float = 0.3, seed: int = 0
) -> dict[str, Any]:
    """Milliseconds of CPU and on the clock for one decision, the median of some; and their ratios.

    Each (fragment, source) offers 10 to 65 tuples, 1.5 million in all, and `kept` of them fit. Uniform
    is what a gate does without fairness: one rate for all rows, as whole tuples.
    """
    random = np.random.default_rng(seed)
    rows = fragments * sources
    query = np.repeat(np.arange(fragments), sources)
    offered = random.integers(10, 66, rows)
    sic = np.asarray(1.0 / (40.0 * offered * sources), np.float64)
    derived = np.zeros(rows, np.bool_)
    reported = random.uniform(0.8, 1.2, fragments) * kept
    capacity = kept * float(offered.sum())
    node = _node(fragments)

    ways: dict[str, Callable[[], object]] = {
        "mirror": lambda: node.decide(query, offered, sic, derived, capacity, reported),
        "uniform": lambda: np.floor(offered * min(1.0, capacity / float(offered.sum()))),
        "random": lambda: RandomShedding().keep(offered, capacity, random),
        "BALANCE-SIC": lambda: BalanceSic().keep(
            query, offered, sic * offered, capacity, reported, random
        ),
    }
    found = {name: _median_ms(decide, repeats) for name, decide in ways.items()}
    return {
        "fragments": fragments,
        "sources": sources,
        "tuples": int(offered.sum()),
        "cpu_ms": {name: cpu for name, (cpu, _) in found.items()},
        "wall_ms": {name: wall for name, (_, wall) in found.items()},
        # Uniform is one multiplication; what matters is how much of an interval a decision takes.
        "share_of_interval": found["mirror"][0] / (1e3 * node.settings.interval_s),
        "mirror_over_published": found["mirror"][0] / found["BALANCE-SIC"][0],
    }


def _node(queries: int) -> Mirror:
    node = MirrorSettings().build()
    for number in range(queries):
        node.join(number, 1.0)
    return node


def _median_ms(decide: Callable[[], object], repeats: int) -> tuple[float, float]:
    decide()
    cpu, wall = [], []
    for _ in range(repeats):
        cpu_before, wall_before = time.process_time(), time.perf_counter()
        decide()
        cpu.append(1e3 * (time.process_time() - cpu_before))
        wall.append(1e3 * (time.perf_counter() - wall_before))
    return float(np.median(cpu)), float(np.median(wall))
