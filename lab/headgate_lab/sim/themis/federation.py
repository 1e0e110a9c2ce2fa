"""A federation in virtual time: sources, shedders, windows, results (themis-2016, section 6).

Time goes in shedding intervals, and each node decides at its own moment of them. It is offered what came
since its last decision: batches of source tuples, and derived batches of upstream fragments. If that is
more than fits, its shedder chooses; what is kept joins the open window of its fragment. A window that
ends sends one derived batch, with the SIC of all it held (Equation 3), to the next fragment, or a result
to the user. A query's result SIC is the sum over the trailing source time window (Equation 4), and
reaches the nodes a latency later.

Processing takes no time of its own: a node's limit is the tuples it may keep in an interval. Networks
have latency and no bandwidth. Operators that lose SIC (filters, joins) are not modelled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument
from headgate.fairness.jain import jain, mean_jain
from headgate_lab.sim.themis.deployment import Deployment, draw
from headgate_lab.sim.themis.layout import Layout
from headgate_lab.sim.themis.shedders import Derived, NodeShedder, Offer, Shedding, Site
from headgate_lab.sim.themis.sources import Sources

__all__ = ["FederationRun", "run"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

#: Sums of capacities that should be whole may be a little below.
_WHOLE = 1e-9


@dataclass(frozen=True, eq=False)
class FederationRun:
    """What came out: a row for each interval, a column for each query where it says so.

    The measures are taken between two seconds; the first STW and the length of the pipelines should be
    left out.
    """

    interval_s: float
    #: Result SIC over the trailing STW, by interval and query.
    q_sic: Floats
    #: Source SIC that nodes accepted, and SIC of derived batches that they shed, by interval.
    accepted: Floats
    lost: Floats
    #: Tuples by interval.
    offered: Floats
    kept: Floats

    def _rows(self, start_s: float, stop_s: float) -> slice:
        first = math.ceil(start_s / self.interval_s)
        last = len(self.q_sic) if math.isinf(stop_s) else round(stop_s / self.interval_s)
        if not 0 <= first < last <= len(self.q_sic):
            raise BadArgument(
                f"from {start_s} s to {stop_s} s: the run is "
                f"{len(self.q_sic) * self.interval_s:g} s long; give a stretch inside it"
            )
        return slice(first, last)

    def means(self, start_s: float = 0.0, stop_s: float = math.inf) -> Floats:
        """Each query's q_SIC, averaged over time."""
        means: Floats = self.q_sic[self._rows(start_s, stop_s)].mean(axis=0)
        return means

    def jain(self, start_s: float = 0.0, stop_s: float = math.inf) -> float:
        """Jain's index of the time averages."""
        return jain(self.means(start_s, stop_s))

    def jain_instant(self, start_s: float = 0.0, stop_s: float = math.inf) -> float:
        """The time average of Jain's index."""
        return mean_jain(self.q_sic[self._rows(start_s, stop_s)])

    def oscillation(self, start_s: float = 0.0, stop_s: float = math.inf) -> float:
        """The standard deviation of a query's q_SIC over time, averaged over the queries."""
        return float(self.q_sic[self._rows(start_s, stop_s)].std(axis=0).mean())

    def waste(self, start_s: float = 0.0, stop_s: float = math.inf) -> float:
        """The share of the accepted source SIC that was shed further on."""
        rows = self._rows(start_s, stop_s)
        accepted = float(self.accepted[rows].sum())
        return float(self.lost[rows].sum()) / accepted if accepted else 0.0


def run(
    deployment: Deployment | Layout, shedding: Shedding, seconds: float = 90.0, seed: int = 0
) -> FederationRun:
    """Run a federation with one kind of shedder on all its nodes."""
    layout = draw(deployment, seed) if isinstance(deployment, Deployment) else deployment
    if not seconds >= layout.timing.stw_s:
        raise BadArgument(
            f"seconds={seconds!r}: give at least one source time window, {layout.timing.stw_s:g}"
        )
    return _Federation(layout, shedding, seed).run(round(seconds / layout.timing.interval_s))


class _Federation:
    """The state of one run."""

    def __init__(self, layout: Layout, shedding: Shedding, seed: int) -> None:
        self._layout, self._timing = layout, layout.timing
        self._sources = Sources(layout, seed)
        self._fragments, self._rows = layout.fragment_bounds, layout.source_bounds
        # Whole tuples: what is left over of an interval's capacity is carried to the next.
        self._per_tick = layout.capacity * self._timing.interval_s
        self._left = np.zeros(layout.nodes)
        self._shares, self._delays = layout.shares, layout.delay_ticks
        self._shedders: list[NodeShedder] = [
            shedding.build(self._site(node), np.random.default_rng([seed, 62, node]))
            for node in range(layout.nodes)
        ]
        self._window = np.zeros(len(layout.feeds))
        self._hops, self._reports = layout.hop_ticks, layout.report_ticks
        self._order = np.argsort(layout.node_phase, kind="stable").tolist()
        self._derived = [self._feeders(node) for node in range(layout.nodes)]
        #: SIC of derived batches on their way, by interval of arrival and fragment of origin.
        self._sent = np.full((int(self._hops.max(initial=0)) + 1, len(layout.feeds)), -1.0)
        self._results = np.zeros((self._timing.stw_ticks, layout.queries))
        self._delivered = 0.0

    def _site(self, node: int) -> Site:
        mine, rows = self._span(self._fragments, node), self._span(self._rows, node)
        return Site(
            self._shares[mine],
            self._delays[mine],
            self._layout.source_fragment[rows] - mine.start,
            self._timing,
        )

    @staticmethod
    def _span(bounds: Integers, node: int) -> slice:
        return slice(int(bounds[node]), int(bounds[node + 1]))

    def _feeders(self, node: int) -> Integers:
        """The fragments that send to a node's, in the order of those they send to."""
        layout = self._layout
        to = np.where(layout.feeds >= 0, layout.fragment_node[layout.feeds], -1)
        found = np.flatnonzero(to == node)
        return found[np.argsort(layout.feeds[found], kind="stable")]

    def run(self, ticks: int) -> FederationRun:
        """Interval after interval, node after node as they decide; at the end the books must balance."""
        q_sic = np.zeros((ticks, self._layout.queries))
        accepted, lost, offered, kept = np.zeros((4, ticks))
        for tick in range(ticks):
            batches, sic = self._sources.next()
            ends = self._layout.ends(tick)
            self._results[tick % len(self._results)] = 0.0
            q_sic[tick] = self._results.sum(axis=0)
            for node in self._order:
                mine, rows = self._span(self._fragments, node), self._span(self._rows, node)
                offer = self._offer(node, tick, batches[rows], sic[rows], q_sic)
                sources, chosen = self._shedders[node].keep(offer)
                derived, gained = offer.derived, sources * offer.sic
                used = int(sources.sum()) + int(derived.tuples[chosen].sum())
                if used > offer.capacity:
                    raise AssertionError(f"a shedder kept {used} tuples where {offer.capacity} fit")
                self._left[node] -= int(self._left[node] + _WHOLE)
                self._window[mine] += np.bincount(
                    np.concatenate((self._layout.source_fragment[rows] - mine.start, derived.fragment)),
                    np.concatenate((gained, derived.sic * chosen)),
                    minlength=len(offer.reported),
                )
                self._close_windows(tick, mine, ends[mine], q_sic[tick])
                offered[tick] += offer.tuples
                kept[tick] += used
                accepted[tick] += gained.sum()
                lost[tick] += derived.sic[~chosen].sum()
        self._check(float(accepted.sum()), float(lost.sum()))
        return FederationRun(self._timing.interval_s, q_sic, accepted, lost, offered, kept)

    def _offer(self, node: int, tick: int, batches: Integers, sic: Floats, q_sic: Floats) -> Offer:
        """What came since the node's last decision, and the result SIC values that it knows."""
        layout, mine = self._layout, self._span(self._fragments, node)
        heard_at = tick - self._reports[mine]
        heard_at -= heard_at % self._timing.update_every
        known = q_sic[np.maximum(heard_at, 0), layout.fragment_query[mine]]
        reported = np.where(heard_at >= 0, known, 0.0)
        slot, origin = self._sent[tick % len(self._sent)], self._derived[node]
        origin = origin[slot[origin] >= 0.0]
        derived = Derived(layout.feeds[origin] - mine.start, layout.outputs[origin], slot[origin].copy())
        slot[origin] = -1.0
        self._left[node] += self._per_tick[node]
        capacity = int(self._left[node] + _WHOLE)
        return Offer(capacity, batches, sic, layout.batch, derived, reported)

    def _close_windows(self, tick: int, mine: slice, ends: Flags, q_sic: Floats) -> None:
        """Send derived batches on their way, and results to the users."""
        ended = mine.start + np.flatnonzero(ends & (self._window[mine] > 0.0))
        root = self._layout.feeds[ended] < 0
        sends, roots = ended[~root], ended[root]
        self._sent[(tick + self._hops[sends]) % len(self._sent), sends] = self._window[sends]
        result, query = self._window[roots], self._layout.fragment_query[roots]
        self._results[tick % len(self._results), query] += result
        q_sic[query] += result
        self._delivered += float(result.sum())
        self._window[ended] = 0.0

    def _check(self, accepted: float, lost: float) -> None:
        waiting = float(self._window.sum()) + float(self._sent[self._sent >= 0.0].sum())
        if not math.isclose(accepted, self._delivered + lost + waiting, rel_tol=1e-9, abs_tol=1e-9):
            raise AssertionError(
                "a simulated federation does not add up: accepted SIC = results + shed + waiting"
            )
