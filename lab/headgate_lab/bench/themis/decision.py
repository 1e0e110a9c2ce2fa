"""``headgate bench themis-decision``: how long a node takes to decide, by shedder.

The improved shedder beside BALANCE-SIC, as the class and as the compiled twin of the simulator, random
shedding, and uniform: what a gate does without fairness. All on one core, about the same offer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from headgate.fairness.balance_sic import BalanceSic
from headgate.fairness.mirror import Mirror, MirrorSettings
from headgate.fairness.random_shedding import RandomShedding
from headgate_lab.sim.compiled import compiled

__all__ = ["decision_ms", "run"]

MIRROR, UNIFORM, RANDOM, BALANCE = "mirror", "uniform", "random", "BALANCE-SIC"
COMPILED = f"{BALANCE}, compiled"


def run(*, quick: bool) -> dict[str, Any]:
    """2,000 fragments of 20 sources on one node; a tenth of that if it must be quick."""
    size, repeats = (200, 5) if quick else (2000, 15)
    found = decision_ms(size, repeats=repeats, with_twin=True)
    cpu, wall = found["cpu_ms"], found["wall_ms"]
    ratios = {
        "share_of_interval": found["share_of_interval"],
        "mirror_vs_random": cpu[MIRROR] / cpu[RANDOM],
        "mirror_vs_published": cpu[MIRROR] / cpu[BALANCE],
        "mirror_vs_published_compiled": cpu[MIRROR] / cpu[COMPILED],
        "mirror_vs_uniform": cpu[MIRROR] / cpu[UNIFORM],
        "published_vs_random": cpu[BALANCE] / cpu[RANDOM],
    }
    rows = [{"shedder": name, "cpu_ms": cpu[name], "wall_ms": wall[name]} for name in cpu]
    context = {name: found[name] for name in ("fragments", "sources", "tuples", "kept")}
    return {
        "bench": "themis-decision",
        "ratios": ratios,
        "context": context | {"tables": {"one decision, median": rows}},
    }


def decision_ms(
    fragments: int = 2000,
    sources: int = 20,
    repeats: int = 15,
    kept: float = 0.3,
    seed: int = 0,
    *,
    with_twin: bool = False,
) -> dict[str, Any]:
    """Milliseconds of CPU and on the clock for one decision, the median of some; and their ratios.

    Each (fragment, source) offers 10 to 65 tuples, 1.5 million in all, and `kept` of them fit. Uniform
    is one rate for all rows, as whole tuples. Each shedder decides about the same offer: batches of a
    source for random and BALANCE-SIC, counts for the others. The compiled twin needs numba.
    """
    random = np.random.default_rng(seed)
    rows = fragments * sources
    query = np.repeat(np.arange(fragments), sources)
    offered = random.integers(10, 66, rows)
    sic = np.asarray(1.0 / (40.0 * offered * sources), np.float64)
    derived = np.zeros(rows, np.bool_)
    reported = random.uniform(0.8, 1.2, fragments) * kept
    capacity = kept * float(offered.sum())
    node, published = _node(fragments), BalanceSic()
    ways: dict[str, Callable[[], object]] = {
        MIRROR: lambda: node.decide(query, offered, sic, derived, capacity, reported),
        UNIFORM: lambda: np.floor(offered * min(1.0, capacity / float(offered.sum()))),
        RANDOM: lambda: RandomShedding().keep(offered, capacity, random),
        BALANCE: lambda: published.keep(query, offered, sic * offered, capacity, reported, random),
    }
    if with_twin:
        twin: Any = compiled("themis.kernels").keep

        def by_twin() -> object:
            totals, ties = sic * offered, random.permutation(fragments)
            start = published.project(query, totals, reported)
            return twin(query, offered, totals, int(capacity), start, ties)

        ways[COMPILED] = by_twin
    found = {name: _median_ms(decide, repeats) for name, decide in ways.items()}
    return {
        "fragments": fragments,
        "sources": sources,
        "tuples": int(offered.sum()),
        "kept": kept,
        "cpu_ms": {name: cpu for name, (cpu, _) in found.items()},
        "wall_ms": {name: wall for name, (_, wall) in found.items()},
        # Uniform is one multiplication; what matters is how much of an interval a decision takes.
        "share_of_interval": found[MIRROR][0] / (1e3 * node.settings.interval_s),
        "mirror_over_published": found[MIRROR][0] / found[BALANCE][0],
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
