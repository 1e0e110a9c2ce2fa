"""The slow, obvious twin of `sim.join.cpu.run`: Python sets, `BasicWindows`, `InvertedIndex`.

It also runs the conditions that have no kernel: `condition` may be any, with `values` by tuple.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from headgate.joins.conditions import Condition
from headgate_lab.papers.join.basic_windows import BasicWindows
from headgate_lab.papers.join.inverted_index import InvertedIndex
from headgate_lab.papers.join.matching import matches
from headgate_lab.papers.join.rules import AgeBased, RandomDrop, Rule
from headgate_lab.papers.join.selectors import Layout, Observation, Selection, build
from headgate_lab.sim.join.cpu import JoinRun, JoinSetup
from headgate_lab.sim.join.stream import JoinStream


class NaiveJoin:
    """One run, tuple by tuple."""

    def __init__(
        self,
        stream: JoinStream,
        setup: JoinSetup,
        rule: Rule,
        seed: int = 0,
        condition: Condition | None = None,
        values: list[Any] | None = None,
    ) -> None:
        self.stream, self.setup = stream, setup
        self.condition = condition or setup.condition
        self.values = values or [
            int(stream.value[n]) if stream.value[n] >= 0 else stream.items(n) for n in range(len(stream))
        ]
        self.layout = setup.layout
        if isinstance(rule, RandomDrop | AgeBased):
            self.layout = Layout(setup.windows_s, math.inf, self.layout.utility)
        self.selector = build(rule, self.layout, seed)
        self.uniform = np.random.default_rng([seed, 5]).random(len(stream))
        self.seconds = math.ceil(stream.workload.seconds)
        self.windows = [
            BasicWindows[int](w, self.layout.basic_s) if w > 0 else None for w in setup.windows_s
        ]
        self.pairs: list[tuple[int, int]] = []

    def run(self) -> JoinRun:
        types, most = self.layout.types, max(self.layout.blocks)
        self.out, self.gain, self.cost, self.dropped = (np.zeros(self.seconds) for _ in range(4))
        self.fetched = np.zeros((2, types))
        self.seen = [np.zeros((2, most, types)) for _ in range(4)]
        self.position, self.free, self.busy = 0, 0.0, 0.0
        backlog, fractions = np.zeros(self.seconds), np.zeros((self.seconds, 2))
        selection, now, asked = self.selector.first(), 0.0, 0.0
        ask_at = self.selector.next_instant(0.0)
        before = (np.zeros((2, types)), 0.0, 0.0)
        while now < self.seconds:
            second = int(now)
            fractions[second] = selection.fractions.mean(axis=1)
            now = min(float(self.seconds), ask_at, second + 1.0)
            self.advance(now, selection)
            backlog[second] = self.waiting(now).sum()
            if now >= ask_at:
                after = (self.fetched.copy(), float(self.cost.sum()), self.busy)
                offered = np.zeros(2)
                for time, side in zip(self.stream.time, self.stream.side, strict=True):
                    offered[side] += asked <= time < now
                selection = self.selector.select(
                    now,
                    Observation(
                        now - asked, offered, after[0] - before[0], self.waiting(now),
                        after[1] - before[1], after[2] - before[2], self.sizes(now),
                        *(counts.copy() for counts in self.seen),
                    ),
                )  # fmt: skip
                for counts in self.seen:
                    counts[:] = 0
                before, asked, ask_at = after, now, self.selector.next_instant(now)
        offered_by_second = np.bincount(self.stream.time.astype(int), minlength=self.seconds)
        return JoinRun(
            self.out, self.gain, self.cost, offered_by_second.astype(float), self.dropped, backlog,
            fractions, int(self.fetched.sum()),
        )  # fmt: skip

    def waiting(self, now: float) -> Any:
        left = np.zeros(2)
        for index in range(self.position, len(self.stream)):
            left[self.stream.side[index]] += self.stream.time[index] < now
        return left

    def sizes(self, now: float) -> Any:
        out = np.zeros((2, max(self.layout.blocks)))
        for side, window in enumerate(self.windows):
            if window is not None:
                out[side, : window.blocks] = window.sizes(now)
        return out

    def advance(self, until: float, selection: Selection) -> None:
        while self.position < len(self.stream):
            index = self.position
            born = float(self.stream.time[index])
            now = max(self.free, born)
            if now >= until:
                return
            self.position += 1
            if born < now - self.setup.buffer_s:
                self.dropped[int(born)] += 1
                continue
            side, kind = int(self.stream.side[index]), int(self.stream.type[index])
            self.fetched[side, kind] += 1
            if self.windows[side] is not None:
                self.windows[side].insert(born, index)  # type: ignore[union-attr]
            found, gain, cost = self.probe(index, side, kind, born, selection)
            self.out[int(now)] += found
            self.gain[int(now)] += gain
            self.cost[int(now)] += cost
            self.busy += cost / self.setup.capacity
            self.free = now + cost / self.setup.capacity

    def probe(
        self, index: int, side: int, kind: int, born: float, selection: Selection
    ) -> tuple[int, float, float]:
        other = 1 - side
        window = self.windows[other]
        if window is None:
            return 0, 0.0, 0.0
        # rows stay for the whole window: a reduced one may grow again
        window.window_s = (selection.windows_s or self.setup.windows_s)[other]
        fully = self.uniform[index] < selection.sampling
        if selection.shares is not None:
            shares = selection.shares[index % len(selection.shares), other, kind]
            lots = [(j, window.live(j, born)) for j in range(window.blocks)]
            lots = [(j, rows[len(rows) - int(shares[j] * len(rows) + 0.5) :]) for j, rows in lots]
        elif fully:
            lots = [(j, window.live(j, born)) for j in range(window.blocks)]
        else:
            order = selection.order[other][: window.blocks]
            fraction = float(selection.fractions[other, kind])
            lots = [(int(j), rows) for j, rows in window.select(order, fraction, born)]
        total, gained, spent = 0, 0.0, 0.0
        for number, rows in lots:
            if not rows:
                continue
            hits = [row for row in rows if self.match(side, index, row)]
            self.pairs += [(index, row) if side == 0 else (row, index) for row in hits]
            worth = sum(self.layout.utility[kind, self.stream.type[row]] for row in hits)
            cost = self.price(index, rows, window.live(number, born))
            total, gained, spent = total + len(hits), gained + worth, spent + cost
            if fully or selection.shares is not None:
                new = (len(rows), cost + self.setup.result_cost * len(hits), len(hits), worth)
                for counts, amount in zip(self.seen, new, strict=True):
                    counts[other, number, kind] += amount
        window.window_s = self.setup.windows_s[other]
        return total, gained, spent + self.setup.result_cost * total

    def match(self, side: int, index: int, row: int) -> bool:
        left, right = (index, row) if side == 0 else (row, index)
        return matches(self.condition, self.values[left], self.values[right])

    def price(self, index: int, rows: list[int], whole: list[int]) -> float:
        """Comparisons, or what a real index over the basic window is charged."""
        if self.setup.index == "none":
            return len(rows)
        built = InvertedIndex("id" if self.setup.index == "id" else "time")
        for row in whole:
            built.insert(row, float(self.stream.time[row]), self.values[row])
        since = float(self.stream.time[rows[0]])
        return built.search(self.condition, self.values[index], since).cost


def every_pair(
    condition: Condition, stream: JoinStream, values: list[Any], windows_s: tuple[float, float]
) -> set[tuple[int, int]]:
    """All that the join would give without a budget, by comparing everything with everything."""
    pairs = set()
    for later in range(len(stream)):
        for earlier in range(later):
            side = int(stream.side[earlier])
            if stream.side[later] == side:
                continue
            if stream.time[earlier] < stream.time[later] - windows_s[side]:
                continue
            left, right = (earlier, later) if side == 0 else (later, earlier)
            if matches(condition, values[left], values[right]):
                pairs.add((left, right))
    return pairs
