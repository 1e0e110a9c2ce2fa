"""A federation laid out: clocks, nodes, and fragments with their sources (themis-2016, section 3).

`place` makes one from fragments placed by hand; `headgate_lab.sim.themis.deployment.draw` makes the
paper's. Each fragment of a query is on another node, so a node knows its fragments by their queries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument

__all__ = ["Layout", "PlacedFragment", "Timing", "place"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Timing:
    """Clocks and network: the source time window, the shedding interval, latencies, bursts.

    Result SIC values leave a query's root every `update_s` (None: every interval) and reach the nodes
    one latency and `update_delay_s` later. A source bursts in a share of its stretches of `burst_s`, at
    `burst_factor` times its rate; `burst_keeps_mean` lowers the rate in between to make up for it.
    """

    stw_s: float = 10.0
    interval_s: float = 0.25
    window_s: float = 1.0
    latency_s: float = 0.005
    update_s: float | None = None
    update_delay_s: float = 0.0
    burst_share: float = 0.0
    burst_factor: float = 10.0
    burst_s: float = 1.0
    burst_keeps_mean: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.interval_s <= self.stw_s / 2:
            raise BadArgument(
                f"interval_s={self.interval_s}: give seconds above 0, at most half of stw_s={self.stw_s}"
            )
        if not 0 < self.window_s <= self.stw_s:
            raise BadArgument(f"window_s={self.window_s!r}: give seconds above 0, at most stw_s")
        if min(self.latency_s, self.update_delay_s) < 0:
            raise BadArgument("latency_s and update_delay_s: give seconds, 0 or more")
        if not 0 <= self.burst_share <= 1 or self.burst_factor < 1 or not self.burst_s > 0:
            raise BadArgument(
                "bursts: give burst_share in [0, 1], burst_factor of 1 or more and burst_s above 0"
            )

    @property
    def stw_ticks(self) -> int:
        """Shedding intervals in a source time window."""
        return max(1, round(self.stw_s / self.interval_s))

    @property
    def update_every(self) -> int:
        """Intervals between two messages of a query's coordinator."""
        return 1 if self.update_s is None else max(1, round(self.update_s / self.interval_s))


@dataclass(frozen=True)
class PlacedFragment:
    """A fragment on its node; `feeds` is the position of the fragment it sends to, None for the root."""

    query: int
    node: int
    rates: tuple[float, ...]
    outputs: int
    feeds: int | None
    phase: float = 0.0


@dataclass(frozen=True, eq=False)
class Layout:
    """A deployment as arrays; fragments are in the order of their nodes, sources of their fragments."""

    timing: Timing
    queries: int
    #: Tuples a second, by node.
    capacity: Floats
    batch: int
    fragment_query: Integers
    fragment_node: Integers
    #: The fragment that the output goes to, or -1.
    feeds: Integers
    outputs: Integers
    #: Window ends are at phase + whole windows.
    phase: Floats
    #: When in an interval each node decides, in seconds.
    node_phase: Floats
    source_fragment: Integers
    source_rate: Floats

    @property
    def nodes(self) -> int:
        """How many there are."""
        return len(self.capacity)

    @property
    def sources_of_query(self) -> Integers:
        """|S| of every query (Equation 1)."""
        return np.bincount(self.fragment_query[self.source_fragment], minlength=self.queries)

    @property
    def fragment_bounds(self) -> Integers:
        """Fragments of node n are those from bounds[n] to bounds[n + 1]."""
        return np.searchsorted(self.fragment_node, np.arange(self.nodes + 1))

    @property
    def source_bounds(self) -> Integers:
        """The same for sources."""
        return np.searchsorted(self.fragment_node[self.source_fragment], np.arange(self.nodes + 1))

    @property
    def shares(self) -> Floats:
        """The share of its query's sources that each fragment has."""
        own = np.bincount(self.source_fragment, minlength=len(self.feeds))
        return own / self.sources_of_query[self.fragment_query]

    @property
    def fragment_load(self) -> Floats:
        """Source tuples a second that each fragment is offered, on average."""
        timing = self.timing
        more = 1.0 + timing.burst_share * (timing.burst_factor - 1.0)
        load = np.bincount(self.source_fragment, self.source_rate, minlength=len(self.feeds))
        return np.asarray(load if timing.burst_keeps_mean else load * more, np.float64)

    @property
    def derived_load(self) -> Floats:
        """Derived tuples a second that reach each node if none is shed."""
        sends = self.feeds >= 0
        to = self.fragment_node[self.feeds[sends]]
        each = self.outputs[sends] / self.timing.window_s
        return np.asarray(np.bincount(to, each, minlength=self.nodes), np.float64)

    @property
    def hop_ticks(self) -> Integers:
        """Intervals from a fragment's output to the decision of the node it is sent to; 0 for roots.

        A node that decides later in the interval may do so in the same one.
        """
        to = self.fragment_node[np.maximum(self.feeds, 0)]
        hops = self._ticks(self.fragment_node, to, self.timing.latency_s)
        return np.where(self.feeds < 0, 0, hops)

    @property
    def report_ticks(self) -> Integers:
        """Intervals from a result to the decision of each fragment's node that knows of it."""
        roots = np.empty(self.queries, np.int64)
        roots[self.fragment_query[self.feeds < 0]] = self.fragment_node[self.feeds < 0]
        late = self.timing.latency_s + self.timing.update_delay_s
        return self._ticks(roots[self.fragment_query], self.fragment_node, late)

    def _ticks(self, sender: Integers, receiver: Integers, late_s: float) -> Integers:
        gap = self.node_phase[sender] - self.node_phase[receiver]
        ticks = np.ceil(np.round((gap + late_s) / self.timing.interval_s, 9)).astype(np.int64)
        # Nodes that decide at one time do not hear of each other before the next.
        return np.maximum(ticks, np.where(gap < 0, 0, 1))

    def ends(self, tick: int) -> npt.NDArray[np.bool_]:
        """Which fragments have a window that ends with their node's interval."""
        late = (self.node_phase[self.fragment_node] - self.phase) / self.timing.window_s
        step = self.timing.interval_s / self.timing.window_s
        return np.floor((tick + 1) * step + late) > np.floor(tick * step + late)

    @property
    def delay_ticks(self) -> Floats:
        """Mean intervals from accepting a source tuple to seeing it in a reported result SIC."""
        timing = self.timing
        step, window = timing.interval_s, timing.window_s
        in_window = (max(1.0, window / step) - 1.0) / 2.0
        rest, hops = np.full(len(self.feeds), -1.0), self.hop_ticks
        # In the nodes' own time, in which decisions are at whole intervals.
        phase = self.phase - self.node_phase[self.fragment_node]
        for first in range(len(rest)):
            path = [first]
            while rest[path[-1]] < 0 and self.feeds[path[-1]] >= 0:
                path.append(int(self.feeds[path[-1]]))
            if rest[path[-1]] < 0:
                rest[path[-1]] = 0.0
            for at in reversed(path[:-1]):
                to = int(self.feeds[at])
                sent = math.ceil(round(phase[at] / step, 9))
                came = sent + int(hops[at])
                # The first window that ends after the decision before: this one closes it.
                windows = math.floor(round(((came - 1) * step - phase[to]) / window, 9)) + 1
                ends = phase[to] + window * windows
                rest[at] = rest[to] + math.ceil(round(ends / step, 9)) - sent
        return rest + in_window + self.report_ticks


def place(
    fragments: Sequence[PlacedFragment],
    capacity: Sequence[float] | Floats,
    batch: int = 50,
    timing: Timing | None = None,
    node_phase: Sequence[float] | Floats | None = None,
) -> Layout:
    """A layout from fragments placed by hand; by node, tuples a second and when it decides."""
    _check(fragments, len(capacity))
    order = sorted(range(len(fragments)), key=lambda at: fragments[at].node)
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    sorted_ = [fragments[at] for at in order]
    return Layout(
        timing or Timing(),
        1 + max(fragment.query for fragment in fragments),
        np.asarray(capacity, np.float64),
        batch,
        np.array([fragment.query for fragment in sorted_]),
        np.array([fragment.node for fragment in sorted_]),
        np.array([-1 if f.feeds is None else position[f.feeds] for f in sorted_]),
        np.array([fragment.outputs for fragment in sorted_]),
        np.array([fragment.phase for fragment in sorted_], np.float64),
        np.zeros(len(capacity)) if node_phase is None else np.asarray(node_phase, np.float64),
        np.repeat(np.arange(len(order)), [len(fragment.rates) for fragment in sorted_]),
        np.array([rate for fragment in sorted_ for rate in fragment.rates], np.float64),
    )


def _check(fragments: Sequence[PlacedFragment], nodes: int) -> None:
    if not fragments:
        raise BadArgument("fragments=[]: give at least one")
    places = [(fragment.query, fragment.node) for fragment in fragments]
    if len(set(places)) < len(places):
        raise BadArgument("two fragments of a query are on one node: put them on different nodes")
    if not all(0 <= node < nodes for _, node in places):
        raise BadArgument(f"a fragment is on no node: give nodes 0 to {nodes - 1}")
    for fragment in fragments:
        at, steps = fragment, 0
        while at.feeds is not None:
            at, steps = fragments[at.feeds], steps + 1
            if steps > len(fragments) or at.query != fragment.query:
                raise BadArgument(
                    f"query {fragment.query}: its fragments must lead to one root of its own"
                )
