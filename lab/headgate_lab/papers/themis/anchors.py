"""What a central planner who knows everything would do: three allocations to hold shedders against.

All three are of a fluid: a row is the load that one query's sources put on one node, and a share
between 0 and 1 of it is kept. Derived tuples are always kept; take what they need off the
capacities first.

- `fit` (themis-2016, section 7.5, on [34]): the most SIC in total, a linear programme. Solved by
  the simplex method, as there, it ends in a corner: some queries get everything, most get nothing.
- `log_utility` (section 7.5, on [44]): the greatest sum of logarithms of the output rates, which is
  proportional fairness. A query's rate is its SIC times a constant, so the constants do not matter.
- `max_min`: the lexicographic max-min optimum, the goal of BALANCE-SIC (section 5): the least SIC
  as great as can be, then the second least, and so on; linear programmes by progressive filling.
  Not in the paper, and the upper bound of what any shedder can be.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument, HeadgateError

__all__ = ["Anchor", "Fluid", "fit", "log_utility", "max_min"]

Floats = npt.NDArray[np.float64]

#: A price of the linear programme above this is not 0.
_PRICED = 1e-9
#: The log utility is found when the next tangents would change it by less than this for each query.
_LOG_GAP = 1e-6
_LOG_ROUNDS = 60
#: How exactly the solver keeps to constraints; its own 1e-7 adds up over a thousand closed queries.
_EXACT = 1e-9
#: How far below its level a closed query may fall, tried in turn: each programme is solved to a
#: tolerance, so the next one may find that a level was a little too high.
_HAIRS = (1e-8, 1e-7, 1e-6, 1e-5)


@dataclass(frozen=True)
class Fluid:
    """Loads of queries on nodes: columns of one length, and the nodes' capacities in the same unit.

    >>> one, two = np.array([0, 0]), np.array([0, 1])
    >>> load, sic = np.full(2, 10.0), np.ones(2)
    >>> fluid = Fluid(query=two, node=one, load=load, sic=sic, capacity=np.array([5.0]))
    >>> max_min(fluid).q_sic.round(6).tolist()
    [0.25, 0.25]
    """

    query: npt.NDArray[np.int64]
    node: npt.NDArray[np.int64]
    #: What the row takes of its node if all of it is kept.
    load: Floats
    #: What the row gives to its query if all of it is kept; 1 in all for a query.
    sic: Floats
    capacity: Floats

    def __post_init__(self) -> None:
        same = self.query.shape == self.node.shape == self.load.shape == self.sic.shape
        if not same or self.query.ndim != 1 or not len(self.query):
            raise BadArgument("query, node, load and sic are columns of one length, at least one row")
        if self.query.min() < 0 or not 0 <= self.node.min() <= self.node.max() < len(self.capacity):
            raise BadArgument(f"nodes are numbers from 0 to {len(self.capacity) - 1}, queries from 0")
        numbers = (self.load, self.sic, self.capacity)
        if not all(np.isfinite(each).all() and (each >= 0).all() for each in numbers):
            raise BadArgument("load, sic and capacity are finite numbers, 0 or more")

    @property
    def queries(self) -> int:
        """How many queries there are."""
        return int(self.query.max()) + 1

    @cached_property
    def _usage(self) -> Any:
        """Nodes by rows: what a row takes of its node."""
        rows = np.arange(len(self.query))
        shape = (len(self.capacity), len(rows))
        return _sparse().csr_array((self.load, (self.node, rows)), shape=shape)

    @cached_property
    def _gain(self) -> Any:
        """Queries by rows: what a row gives to its query."""
        rows = np.arange(len(self.query))
        shape = (self.queries, len(rows))
        return _sparse().csr_array((self.sic, (self.query, rows)), shape=shape)

    def _anchor(self, kept: Floats) -> Anchor:
        share = np.clip(kept, 0.0, 1.0)
        return Anchor(share, np.asarray(self._gain @ share))


@dataclass(frozen=True)
class Anchor:
    """An allocation: the share kept of each row, and the SIC of each query."""

    kept: Floats
    q_sic: Floats


def fit(fluid: Fluid, weights: npt.ArrayLike | None = None) -> Anchor:
    """The greatest weighted sum of SIC, at a corner of what is possible."""
    weight = _weights(fluid, weights)
    found = _solve(
        -weight[fluid.query] * fluid.sic,
        fluid._usage,
        fluid.capacity,
        [(0.0, 1.0)] * len(fluid.query),
    )
    return fluid._anchor(found.x)


def log_utility(fluid: Fluid, weights: npt.ArrayLike | None = None) -> Anchor:
    """The greatest weighted sum of logarithms of SIC.

    A logarithm is the least of its tangents, so this is a linear programme with tangents added where
    the last answer was, until they change nothing (Kelley's method).
    """
    sparse, weight = _sparse(), _weights(fluid, weights)
    rows, queries = len(fluid.query), fluid.queries
    possible = np.asarray(fluid._gain @ (fluid.capacity[fluid.node] > 0).astype(np.float64))
    if not (possible > 0).all():
        raise BadArgument(
            "every query needs a row with sic above 0 on a node with capacity above 0: "
            "the logarithm of 0 has no value"
        )
    cost = np.concatenate([np.zeros(rows), -weight])
    bounds = [(0.0, 1.0)] * rows + [(None, None)] * queries
    usage = sparse.hstack([fluid._usage, sparse.csr_array((fluid._usage.shape[0], queries))])
    unit = sparse.diags_array(np.ones(queries))
    matrix, limits = [usage], [fluid.capacity]

    def touch(at: Floats) -> None:
        """A tangent for each query: u <= log(at) + (sic - at) / at."""
        matrix.append(sparse.hstack([-(sparse.diags_array(1.0 / at) @ fluid._gain), unit]))
        limits.append(np.log(at) - 1.0)

    for share in np.geomspace(1e-4, 1.0, 20):
        touch(possible * share)
    best: Anchor | None = None
    highest, spread = -np.inf, 0.5
    for _ in range(_LOG_ROUNDS):
        found = _solve(cost, sparse.vstack(matrix).tocsr(), np.concatenate(limits), bounds)
        anchor = fluid._anchor(found.x[:rows])
        sic = np.maximum(anchor.q_sic, possible * 1e-12)
        reached = float(weight @ np.log(sic))
        if reached > highest:
            best, highest = anchor, reached
        if -found.fun - highest <= _LOG_GAP * float(weight.sum()):
            break
        # Several near the answer, nearer each time: one alone would be circled for long.
        for away in np.linspace(-spread, spread, 5):
            touch(np.minimum(sic * np.exp(away), possible))
        spread /= 3.0
    if best is None:
        raise HeadgateError("the log utility was not found: no allocation is possible")
    return best


def max_min(fluid: Fluid, weights: npt.ArrayLike | None = None) -> Anchor:
    """The lexicographic max-min optimum of SIC / weight, by progressive filling.

    The least of the open queries is made as great as can be. Those with a price in that programme
    cannot be lifted in any optimum (complementary slackness); they are closed at the level, and the
    rest goes on.
    """
    sparse, weight = _sparse(), _weights(fluid, weights)
    rows, queries = len(fluid.query), fluid.queries
    gain = sparse.diags_array(1.0 / weight) @ fluid._gain
    floor = np.zeros(queries)
    open_ = np.ones(queries, np.bool_)
    # In shares of each node's capacity, so that all numbers are of one size; without any, none is kept.
    room = (fluid.capacity > 0).astype(np.float64)
    shares = sparse.diags_array(1.0 / np.where(room > 0, fluid.capacity, 1.0)) @ fluid._usage
    usage = sparse.hstack([shares, sparse.csr_array((len(room), 1))])
    cost = np.zeros(rows + 1)
    cost[-1] = -1.0
    bounds = [(0.0, 1.0)] * rows + [(0.0, None)]
    kept = np.zeros(rows)
    while open_.any():
        level = sparse.csr_array(open_[:, np.newaxis].astype(np.float64))
        matrix = sparse.vstack([usage, sparse.hstack([-gain, level])]).tocsr()
        found = _lifted(cost, matrix, bounds, room, np.where(open_, np.nan, floor))
        kept = found.x[:rows]
        prices = -np.asarray(found.ineqlin.marginals)[len(fluid.capacity) :]
        closing = open_ & (prices > _PRICED)
        if not closing.any():
            closing = open_ & (prices >= prices[open_].max())
        floor[closing] = found.x[-1]
        open_ &= ~closing
    return fluid._anchor(kept)


def _lifted(cost: Floats, matrix: Any, bounds: list[Any], room: Floats, floor: Floats) -> Any:
    """One round of filling; `floor` is nan for open queries."""
    for hair in _HAIRS:
        floors = np.where(np.isnan(floor), 0.0, hair - floor)
        found = _tried(cost, matrix, np.concatenate([room, floors]), bounds)
        if found.status == 0:
            break
    return _solved(found)


def _weights(fluid: Fluid, weights: npt.ArrayLike | None) -> Floats:
    weight = np.ones(fluid.queries) if weights is None else np.asarray(weights, np.float64)
    if weight.shape != (fluid.queries,) or not (weight > 0).all():
        raise BadArgument(
            f"weights={weights!r}: give one weight above 0 for each of {fluid.queries} queries"
        )
    return weight


def _sparse() -> Any:
    from scipy import sparse  # a second to load

    return sparse


def _solve(cost: Floats, matrix: Any, limits: Floats, bounds: list[Any]) -> Any:
    """The least cost, by the dual simplex method (HiGHS): an answer at a corner, with prices."""
    return _solved(_tried(cost, matrix, limits, bounds))


def _tried(cost: Floats, matrix: Any, limits: Floats, bounds: list[Any]) -> Any:
    from scipy.optimize import linprog  # a second to load

    exact = {"primal_feasibility_tolerance": _EXACT, "dual_feasibility_tolerance": _EXACT}
    return linprog(cost, A_ub=matrix, b_ub=limits, bounds=bounds, method="highs-ds", options=exact)


def _solved(found: Any) -> Any:
    if found.status != 0:
        raise HeadgateError(f"the linear programme was not solved: {found.message}")
    return found
