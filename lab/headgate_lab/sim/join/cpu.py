"""A windowed stream join on a virtual CPU of so many comparisons a second (join-2007, section 6).

Wall clocks are replaced by a budget: comparing a tuple with a stored one costs 1, in an indexed join a
posting visited and a list looked up cost 1 each, and adaptation is free. So runs are exact, repeatable
and the same on every machine. `run` drives the shipped selectors (`headgate_lab.papers.join.selectors`);
only the tuple loop is compiled. Tuples wait in a buffer that spans `buffer_s`; those that wait longer
are lost.

Time is the tuples' own: a stored tuple is out of the window when it is more than w older than the
*probe*, however long that has waited.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument
from headgate.joins.conditions import Condition, Equal, Overlap
from headgate_lab.papers.join.rules import AgeBased, Content, RandomDrop, Rule
from headgate_lab.papers.join.selectors import Layout, Observation, Selection, build
from headgate_lab.sim.compiled import compiled
from headgate_lab.sim.join.stream import JoinStream

__all__ = ["JoinRun", "JoinSetup", "run"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class JoinSetup:
    """The join and its machine.

    A window of 0 is not joined at all (section 6.3 has a window on one stream only). `basic_s` of
    infinity means no basic windows. `capacity` is comparisons a second, postings if there is an index;
    `result_cost` is what delivering one result costs, in the same unit. `utilities` are V(z) by type; an
    output counts the larger of its two.
    """

    condition: Condition
    windows_s: tuple[float, float] = (20.0, 20.0)
    basic_s: float = 1.0
    capacity: float = 600_000.0
    index: Literal["none", "hash", "time", "id"] = "none"
    utilities: tuple[float, ...] = (1.0,)
    buffer_s: float = 1.0
    result_cost: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.condition, Equal | Overlap):
            raise BadArgument(
                f"condition={self.condition!r}: the virtual CPU compares values (equal) and bitsets "
                "(overlap); other conditions run in headgate.joins"
            )
        if min(self.windows_s) < 0 or not max(self.windows_s) > 0 or math.isinf(max(self.windows_s)):
            raise BadArgument(f"windows_s={self.windows_s!r}: give two lengths in seconds, one above 0")
        if not self.basic_s > 0:
            raise BadArgument(f"basic_s={self.basic_s!r}: give seconds above 0, or math.inf for none")
        if not self.capacity > 0:
            raise BadArgument(f"capacity={self.capacity!r}: give comparisons a second, above 0")
        if self.index not in ("none", "hash", "time", "id"):
            raise BadArgument(f"index={self.index!r}: one of 'none', 'hash', 'time', 'id'")

    @property
    def layout(self) -> Layout:
        """Windows, basic windows and utilities, as the selectors see them."""
        worth = np.asarray(self.utilities, np.float64)
        return Layout(self.windows_s, self.basic_s, np.maximum(worth[:, None], worth[None, :]))


@dataclass(frozen=True)
class JoinRun:
    """What came out, by second of the run. `offered` and `dropped` stand at the tuples' arrival."""

    output: Floats
    utility: Floats
    comparisons: Floats
    offered: Floats
    dropped: Floats
    #: Tuples waiting at the end of each second.
    backlog: Floats
    #: r_1 and r_2, the shares of the windows that were to be searched (means over types).
    fractions: Floats
    fetched: int = 0

    def __post_init__(self) -> None:
        arrived, lost = self.offered.sum(), self.dropped.sum()
        if arrived != self.fetched + lost + self.backlog[-1]:
            raise AssertionError(
                "a simulated join does not add up: arrived = fetched + dropped + waiting"
            )

    def _mean(self, values: Floats, start: float, stop: float) -> float:
        return float(values[int(start) : max(int(start) + 1, int(stop))].mean())

    def output_rate(self, start: float = 0, stop: float = math.inf) -> float:
        """Results a second, between two seconds."""
        return self._mean(self.output, start, min(stop, len(self.output)))

    def utility_rate(self, start: float = 0, stop: float = math.inf) -> float:
        """Utility a second, between two seconds."""
        return self._mean(self.utility, start, min(stop, len(self.output)))

    def dropped_ratio(self, start: float = 0, stop: float = math.inf) -> float:
        """The share of the tuples that was lost."""
        last = min(stop, len(self.output))
        offered = self._mean(self.offered, start, last)
        return self._mean(self.dropped, start, last) / offered if offered else 0.0


def run(stream: JoinStream, setup: JoinSetup, rule: Rule, seed: int = 0) -> JoinRun:
    """Join the streams under a rule."""
    if stream.workload.singles != isinstance(setup.condition, Equal):
        raise BadArgument(
            f"condition={setup.condition!r} does not fit the streams: single values "
            "(size=1, spread=0) are joined by equality, sets by overlap"
        )
    if len(stream.workload.types) != len(setup.utilities):
        raise BadArgument(
            f"utilities={setup.utilities!r}: give one for each of the {len(stream.workload.types)} types"
        )
    if isinstance(rule, Content):
        from headgate_lab.sim.join.content import run_content

        return run_content(stream, setup, rule)
    return _Machine(stream, setup, rule, seed).run()


class _Machine:
    """One run: the arrays that the kernel works on, and the conversation with the selector."""

    def __init__(self, stream: JoinStream, setup: JoinSetup, rule: Rule, seed: int) -> None:
        self._kernels: Any = compiled("join.kernels")
        self._stream, self._setup = stream, setup
        layout = setup.layout
        if isinstance(rule, RandomDrop | AgeBased):  # these know no basic windows, nor pay for them
            layout = Layout(layout.windows_s, math.inf, layout.utility)
        self._layout = layout
        self._selector = build(rule, layout, seed)
        self._seconds = math.ceil(stream.workload.seconds)
        self._arrivals = self._make_arrivals(seed)
        self._numbers = self._kernels.SetupNumbers(
            setup.condition.at_least if isinstance(setup.condition, Overlap) else 0,
            layout.basic_s, np.array(layout.blocks), float(setup.capacity), float(setup.buffer_s),
            float(setup.result_cost), {"none": 0, "hash": 1, "time": 1, "id": 2}[setup.index],
            layout.utility,
        )  # fmt: skip
        self._store = self._make_store()
        cells = (2, max(layout.blocks), layout.types)
        self._tally = self._kernels.Tally(
            np.zeros(1, np.int64), np.zeros(1), np.zeros(1),
            *(np.zeros(self._seconds) for _ in range(4)),
            np.zeros((2, layout.types), np.int64), *(np.zeros(cells) for _ in range(4)),
        )  # fmt: skip
        self._sides = [stream.time[stream.side == side] for side in range(2)]

    def _make_arrivals(self, seed: int) -> Any:
        stream = self._stream
        lo = stream.value.astype(np.uint64) if stream.workload.singles else stream.lo
        uniform = np.random.default_rng([seed, 5]).random(len(stream))
        return self._kernels.Arrivals(
            stream.time, stream.side, lo, stream.hi, stream.type, uniform, stream.size
        )

    def _make_store(self) -> Any:
        stream, layout = self._stream, self._layout
        rows = int(max(1, np.bincount(stream.side, minlength=2).max()))
        blocks = 2 if math.isinf(layout.basic_s) else int(self._seconds / layout.basic_s) + 3
        hashed = self._setup.index != "none" and stream.workload.singles
        lists = (2, blocks, stream.workload.items) if hashed else (2, 1, 1)
        return self._kernels.Store(
            np.zeros((2, rows)), np.zeros((2, rows), np.uint64), np.zeros((2, rows), np.uint64),
            np.zeros((2, rows), np.int64), np.zeros(2, np.int64), np.zeros((2, blocks), np.int64),
            np.zeros(2, np.int64), np.zeros(2, np.int64), np.full(lists, -1, np.int32),
            np.full((2, rows if hashed else 1), -1, np.int32),
        )  # fmt: skip

    def run(self) -> JoinRun:
        """From the first second to the last."""
        selection, now, end = self._selector.first(), 0.0, float(self._seconds)
        backlog, fractions = np.zeros(self._seconds), np.zeros((self._seconds, 2))
        asked, ask_at = 0.0, self._selector.next_instant(0.0)
        fetched_before = np.zeros((2, self._layout.types))
        cost_before, busy_before, fetched = 0.0, 0.0, 0
        while now < end:
            second = int(now)
            fractions[second] = selection.fractions.mean(axis=1)
            until = min(end, ask_at, second + 1.0)
            self._kernels.advance(
                until, self._arrivals, self._numbers, self._store, self._plan(selection), self._tally
            )
            now = until
            if now == second + 1.0 or now == end:
                backlog[second] = self._waiting(now).sum()
            if now >= ask_at:
                cost, busy = float(self._tally.comparisons.sum()), float(self._tally.busy[0])
                fetched_now = self._tally.fetched.astype(np.float64)
                seen = Observation(
                    now - asked, self._offered(asked, now), fetched_now - fetched_before,
                    self._waiting(now), cost - cost_before, busy - busy_before, self._sizes(now),
                    self._tally.seen_tuples.copy(), self._tally.seen_cost.copy(),
                    self._tally.seen_matches.copy(), self._tally.seen_utility.copy(),
                )  # fmt: skip
                selection = self._selector.select(now, seen)
                for counts in self._tally[-4:]:
                    counts[:] = 0.0
                fetched_before, cost_before, busy_before = fetched_now, cost, busy
                asked, ask_at = now, self._selector.next_instant(now)
        fetched = int(self._tally.fetched.sum())
        offered = np.bincount(self._stream.time.astype(np.int64), minlength=self._seconds)
        return JoinRun(
            self._tally.output, self._tally.utility, self._tally.comparisons,
            offered.astype(np.float64), self._tally.dropped, backlog, fractions, fetched,
        )  # fmt: skip

    def _plan(self, selection: Selection) -> Any:
        shares = selection.shares
        return self._kernels.PlanNumbers(
            np.array(selection.windows_s or self._setup.windows_s, np.float64),
            np.ascontiguousarray(selection.order, np.int64),
            np.ascontiguousarray(selection.fractions, np.float64), float(selection.sampling),
            np.zeros((1, 1, 1, 1)) if shares is None else shares, shares is not None,
        )  # fmt: skip

    def _offered(self, start: float, stop: float) -> Floats:
        return np.array(
            [float(np.diff(np.searchsorted(times, [start, stop]))[0]) for times in self._sides]
        )

    def _waiting(self, now: float) -> Floats:
        """Tuples that came and were neither fetched nor dropped, by stream."""
        begin, end = int(self._tally.position[0]), int(np.searchsorted(self._stream.time, now))
        return np.bincount(self._stream.side[begin : max(begin, end)], minlength=2).astype(np.float64)

    def _sizes(self, now: float) -> Floats:
        """Live tuples by window and basic window, newest first."""
        store, sizes = self._store, np.zeros((2, max(self._layout.blocks)))
        for side, most in enumerate(self._layout.blocks):
            count, begun = int(store.filled[side]), int(store.begun[side])
            live = np.searchsorted(store.time[side, :count], now - self._setup.windows_s[side])
            bounds = np.append(store.starts[side, max(0, begun - most) : begun], count)
            bounds = np.maximum(bounds, live)
            found = np.diff(bounds)[::-1]
            sizes[side, : len(found)] = found
        return sizes
