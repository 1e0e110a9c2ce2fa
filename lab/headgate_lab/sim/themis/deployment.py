"""Who runs what, where: a federation's nodes, queries, fragments and sources (themis-2016, section 7).

Table 1's complex workload: an AVG-all fragment has 10 sources and is a leaf or the root of a tree, TOP-5
(20 sources) and COV (2) form chains; every fragment emits once a second. Table 2's Emulab sources give
150 tuples a second in batches of 50. Each fragment of a query is on another node (section 3).

The paper states no capacities. Here a node's is a share of the mean load that a node is offered, or a
number of tuples a second. Placement is uniform or Zipf over the nodes; a query's fragments are drawn
without replacement. Windows start at random moments, as queries do, and each node decides at its own
time. That matters to BALANCE-SIC. With all in step, as under one clock, it oscillates more and wastes
more; out of step, queries whose results are longer on their way are fed longer and get more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from headgate.errors import BadArgument
from headgate_lab.sim.themis.layout import Layout, PlacedFragment, Timing, place

__all__ = [
    "AVG_ALL",
    "COMPLEX",
    "COV",
    "TOP_5",
    "Deployment",
    "QueryKind",
    "draw",
]


@dataclass(frozen=True)
class QueryKind:
    """One of Table 1's queries: a fragment's sources and output tuples, and how fragments are linked."""

    name: str
    sources: int
    outputs: int
    shape: Literal["tree", "chain"]


AVG_ALL = QueryKind("AVG-all", 10, 1, "tree")
TOP_5 = QueryKind("TOP-5", 20, 5, "chain")
COV = QueryKind("COV", 2, 1, "chain")
#: The complex workload, a third each: 10.67 sources a fragment.
COMPLEX = (AVG_ALL, TOP_5, COV)


@dataclass(frozen=True)
class Deployment:
    """What to draw a `Layout` from.

    Give `fragments` (queries are added until there are so many) or `queries`. A query has one of
    `per_query` fragments, with probabilities `weights` (None: equal). `capacity` is a node's, as a share
    of the mean load; `node_tuples_s` is the same in tuples a second and goes before it. A source's rate
    is one of `rates`. `in_step` has all windows start, and all nodes decide, at the same moments.
    """

    nodes: int = 18
    fragments: int | None = 2000
    queries: int | None = None
    per_query: tuple[int, ...] = (1, 2, 3, 4, 5, 6)
    weights: tuple[float, ...] | None = None
    kinds: tuple[QueryKind, ...] = COMPLEX
    zipf: float = 0.0
    capacity: float = 0.2
    node_tuples_s: float | None = None
    rates: tuple[float, ...] = (150.0,)
    batch: int = 50
    timing: Timing = field(default_factory=Timing)
    in_step: bool = False

    def __post_init__(self) -> None:
        if (self.fragments is None) == (self.queries is None):
            raise BadArgument(
                f"fragments={self.fragments!r}, queries={self.queries!r}: give one, None for the other"
            )
        if min(self.fragments or 1, self.queries or 1, self.nodes, self.batch) < 1:
            raise BadArgument("nodes, fragments or queries, and batch: give 1 or more of each")
        if not self.per_query or min(self.per_query) < 1 or max(self.per_query) > self.nodes:
            raise BadArgument(
                f"per_query={self.per_query!r}: give 1 to {self.nodes} fragments, "
                "because each fragment of a query is on another node"
            )
        if self.weights is not None and (
            len(self.weights) != len(self.per_query)
            or min(self.weights) < 0
            or not sum(self.weights) > 0
        ):
            raise BadArgument(f"weights={self.weights!r}: give one for each of per_query, 0 or more")
        if not self.rates or not min(self.rates) > 0 or not self.kinds or self.zipf < 0:
            raise BadArgument("rates, kinds and zipf: give rates above 0, some kinds, zipf of 0 or more")
        if not self.capacity > 0 or not (self.node_tuples_s or 1.0) > 0:
            raise BadArgument("capacity and node_tuples_s: give a share, or tuples a second, above 0")


def draw(deployment: Deployment, seed: int = 0) -> Layout:
    """One layout, from a seed."""
    random = np.random.default_rng([seed, 61])
    counts = _fragment_counts(deployment, random)
    ranks = np.arange(1, deployment.nodes + 1, dtype=np.float64)
    chances = ranks**-deployment.zipf / (ranks**-deployment.zipf).sum()
    apart = 0.0 if deployment.in_step else 1.0
    placed: list[PlacedFragment] = []
    # As many of each kind as can be, in any order.
    kinds = random.permutation(np.arange(len(counts)) % len(deployment.kinds))
    for query, count in enumerate(counts):
        kind = deployment.kinds[int(kinds[query])]
        first, last = len(placed), len(placed) + count - 1
        nodes = random.choice(deployment.nodes, size=count, replace=False, p=chances)
        for at, node in enumerate(nodes, first):
            feeds = None if at == last else last if kind.shape == "tree" else at + 1
            rates = tuple(random.choice(deployment.rates, size=kind.sources))
            phase = apart * float(random.random()) * deployment.timing.window_s
            placed.append(PlacedFragment(query, int(node), rates, kind.outputs, feeds, phase))
    timing = deployment.timing
    decide = apart * random.random(deployment.nodes) * timing.interval_s
    layout = place(placed, np.ones(deployment.nodes), deployment.batch, timing, decide)
    each = deployment.node_tuples_s
    if each is None:
        # Bursts come on top of the load that the capacity was chosen for.
        each = deployment.capacity * float(layout.source_rate.sum()) / deployment.nodes
    layout.capacity[:] = each
    return layout


def _fragment_counts(deployment: Deployment, random: np.random.Generator) -> list[int]:
    choices, weights = np.array(deployment.per_query), deployment.weights
    chances = None if weights is None else np.array(weights) / sum(weights)
    if deployment.queries is not None:
        return [int(c) for c in random.choice(choices, size=deployment.queries, p=chances)]
    assert deployment.fragments is not None
    counts: list[int] = []
    while sum(counts) < deployment.fragments:
        counts.append(int(random.choice(choices, p=chances)))
    return counts
