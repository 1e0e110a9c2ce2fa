"""One batch at one place of a join: what to compare, the pairs found, what stays in the state.

The rows that came probe the blocks of the other side that are within reach of them; of two new blocks
the left one probes. So every pair is looked at once, in the batch in which its later row came. If the
full join fits into the plan's work, it is made. If not, comparisons are ranked by what they are
expected to yield (`headgate.joins.choice`), and a random few of the rest are made as well, so that
what was missed can be estimated.

Nothing here follows a clock but the timings that are reported: the same batch with the same plan and
the same state makes the same comparisons.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.joins.blocks_match import Reach, match
from headgate.joins.cell_stats import CellStats
from headgate.joins.choice import choose, missed
from headgate.joins.conditions import Condition, Equal, Predicate
from headgate.joins.item_counts import densities
from headgate.plan import Plan
from headgate.spark.join_block import FULL, SMALL, Block, Summary, cut, gathered
from headgate.spark.join_pack import TIME
from headgate.spark.join_state import Index, Stored

__all__ = ["BlockStore", "Done", "JoinWork", "Pairs"]

Places = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

#: A call with fewer comparisons says what a call costs, and not what a comparison does.
_TELLING = 20_000.0
#: Share of the work that goes to a random few of the comparisons not chosen.
_EXPLORE = 0.05
#: Batches after which what cells paid counts half.
_HALF_LIFE = 8.0
#: Groups of probing rows, each with its own draw of what cells pay (note 5.1).
_DRAWS = 32


class BlockStore(Protocol):
    """Where blocks are between batches."""

    def block(self, stored: Stored) -> Block:
        """Read one."""

    def summary(self, stored: Stored) -> Summary:
        """Read what the choice needs of one."""

    def put(self, block: Block) -> Stored:
        """Write one."""

    def remove(self, stored: Stored) -> None:
        """Forget one."""


@dataclass(frozen=True)
class Pairs:
    """Matches of one block with another: places in the left one and in the right one."""

    left: Block
    i: Places
    right: Block
    j: Places


@dataclass
class WindowTally:
    """Pairs of one basic window of probing rows."""

    found: float = 0.0
    missed: float = 0.0
    variance: float = 0.0
    worth: float = 0.0
    missed_worth: float = 0.0
    worth_variance: float = 0.0


@dataclass
class Done:
    """What a batch came to at a place."""

    pairs: list[Pairs] = field(default_factory=list)
    windows: dict[int, WindowTally] = field(default_factory=dict)
    #: Rows on time and rows too late, of each side.
    rows: list[int] = field(default_factory=lambda: [0, 0])
    late: list[int] = field(default_factory=lambda: [0, 0])
    wanted: float = 0.0
    made: float = 0.0
    #: Seconds in the kernels, and the comparisons that took them; of small calls neither.
    compare_s: float = 0.0
    timed: float = 0.0

    #: Comparisons that lots chose.
    sampled: float = 0.0

    def own_up(self) -> None:
        """A sample that found nothing does not prove that nothing was missed.

        Its estimate is 0, and so would be its error. As in the rule of three, the error is then what one
        pair found in the sample would have stood for.
        """
        skipped = self.wanted - self.made
        if not self.windows or skipped <= 0.0 or self.total("variance") > 0.0:
            return
        error = skipped / self.sampled if self.sampled else skipped
        last = self.windows[max(self.windows)]
        last.variance = error * error
        if self.total("worth") > 0.0 and self.total("worth_variance") <= 0.0:
            last.worth_variance = (error * self.total("worth") / max(1.0, self.total("found"))) ** 2

    def total(self, name: str) -> float:
        """Over all windows."""
        return float(sum(getattr(w, name) for w in self.windows.values()))


@dataclass(frozen=True)
class _Side:
    """A target of a probe: in the state, or new."""

    n: int
    span: tuple[int, int]
    bucket: int
    stored: Stored | None = None
    new: Block | None = None


@dataclass(frozen=True)
class JoinWork:
    """What a join's call fixed for its workers."""

    condition: Condition
    #: How long a left row waits for right ones, and a right row for left ones, in microseconds.
    windows_us: tuple[int, int]
    basic_us: int
    seed: int
    #: Row types whose pay-offs are learnt by themselves.
    kinds: int = 1
    #: Rank by what the items of row and block say, where they say anything.
    by_content: bool = True

    @property
    def _lags(self) -> int:
        """Basic windows that a block can be older or newer than one that it meets."""
        return -(-max(self.windows_us) // self.basic_us) + 1

    def fresh(self) -> Index:
        """A place that has seen nothing yet."""
        return Index(CellStats(2 * self._lags + 1, self.kinds))

    def run(
        self,
        index: Index,
        store: BlockStore,
        arrived: Iterable[tuple[int, bytes]],
        watermark_us: int,
        plan: Plan,
        batch: int,
        place: int = 0,
    ) -> Done:
        """One batch; `arrived` are payloads by side. Changes index and store."""
        done = Done()
        new = self._new_blocks(arrived, watermark_us, done)
        self._expire(index, store, watermark_us)
        candidates = self._candidates(index, new)
        costs = np.array([self._cost(p.n, t.n) for p, t in candidates], np.float64)
        done.wanted = float(costs.sum())
        for probe in new:
            for bucket in np.unique(probe.buckets(self.basic_us)):
                done.windows.setdefault(int(bucket), WindowTally())
        allowed = self._allowed(plan, done.wanted, index)
        if allowed is None:
            for probe, target in candidates:
                self._compare(probe, target, None, None, index, store, done)
        else:
            self._choose(candidates, allowed, plan, index, store, done, (batch, place))
        index.pay(done.total("found"), done.made)
        index.cells.decay(1.0, _HALF_LIFE)
        self._keep(index, store, new)
        return done

    def _reach(self, side: int) -> Reach:
        """From a probing row of this side to rows of the other one."""
        left, right = self.windows_us
        return Reach(right, left) if side == 0 else Reach(left, right)

    def _cost(self, probes: int, rows: int) -> float:
        """Comparisons: all of them, or a binary search for each probe."""
        if isinstance(self.condition, Equal):
            return probes * (1.0 + math.log2(1.0 + rows))
        return float(probes) * rows

    def _new_blocks(
        self, arrived: Iterable[tuple[int, bytes]], watermark_us: int, done: Done
    ) -> list[Block]:
        """The batch's rows as blocks, without those that came too late."""
        payloads: dict[int, list[bytes]] = {0: [], 1: []}
        for side, payload in arrived:
            payloads[side].append(payload)
        found = []
        for side, parts in payloads.items():
            if not parts:
                continue
            rows = gathered(parts)
            on_time = rows.filter(pc.greater_equal(rows.column(TIME), watermark_us))
            done.rows[side] = on_time.num_rows
            done.late[side] = rows.num_rows - on_time.num_rows
            found += cut(side, on_time, self.basic_us, self._widest_us, self.condition)
        return found

    @property
    def _widest_us(self) -> int:
        """How much event time a block may span: more would keep its first rows too long."""
        return max(self.basic_us, min(self.windows_us) // 4, max(self.windows_us) // 8)

    def _expire(self, index: Index, store: BlockStore, watermark_us: int) -> None:
        """Forget blocks that no row on time can reach any more."""
        for stored in list(index.blocks):
            if stored.span[1] + self.windows_us[stored.side] < watermark_us:
                store.remove(stored)
                index.blocks.remove(stored)

    def _candidates(self, index: Index, new: Sequence[Block]) -> list[tuple[Block, _Side]]:
        """Every new block with every block of the other side within its reach."""
        found = []
        for probe in new:
            reach = self._reach(probe.side)
            first, last = probe.rows.span
            others = [
                _Side(s.n, s.span, s.bucket, stored=s) for s in index.blocks if s.side != probe.side
            ]
            if probe.side == 0:
                others += [_Side(b.n, b.rows.span, b.bucket, new=b) for b in new if b.side == 1]
            for other in others:
                if other.span[1] - first >= -reach.before_us and other.span[0] - last <= reach.after_us:
                    found.append((probe, other))
        return found

    def _allowed(self, plan: Plan, wanted: float, index: Index) -> float | None:
        """Units that may be spent; None if all of it fits."""
        results = plan.result_units * index.pay_off
        limits = [] if plan.work is None else [plan.work]
        limits += [] if plan.default >= 1.0 else [plan.default * wanted * (1.0 + results)]
        if not limits or wanted * (1.0 + results) <= min(limits):
            return None
        return min(limits)

    def _choose(
        self,
        candidates: list[tuple[Block, _Side]],
        allowed: float,
        plan: Plan,
        index: Index,
        store: BlockStore,
        done: Done,
        when: tuple[int, int],
    ) -> None:
        """Make the comparisons that are expected to pay most, and a random few of the others."""
        rng = np.random.default_rng([self.seed, *when])
        summaries = {id(t): self._summary(t, store) for _, t in candidates}
        expected = self._expected(candidates, summaries, index, rng)
        worth = [w for p, t in candidates if (w := _worth(p, summaries[id(t)])) is not None]
        rows = np.array([self._cost(1, t.n) for _, t in candidates], np.float64)
        # Matches for each comparison: where a search finds them, there are more of them than one a row.
        expected = [e * (t.n / r) for e, (_, t), r in zip(expected, candidates, rows, strict=True)]
        chosen = choose(
            expected,
            rows,
            allowed,
            result_cost=plan.result_units,
            worth=worth if len(worth) == len(candidates) else None,
            explore=_EXPLORE,
            seed=int(rng.integers(1 << 62)),
        )
        for (probe, target), certain, sampled, chances in zip(
            candidates, chosen.picked, chosen.sampled, chosen.probabilities, strict=True
        ):
            if len(certain):
                self._compare(probe, target, certain, None, index, store, done)
            if len(sampled):
                self._compare(probe, target, sampled, chances, index, store, done)
                done.sampled += self._cost(len(sampled), target.n)
        done.own_up()

    def _summary(self, target: _Side, store: BlockStore) -> Summary:
        if target.new is not None:
            return target.new.summary
        assert target.stored is not None
        return store.summary(target.stored)

    def _expected(
        self,
        candidates: list[tuple[Block, _Side]],
        summaries: dict[int, Summary],
        index: Index,
        rng: np.random.Generator,
    ) -> list[Floats]:
        """The share of a block's rows that each probing row is expected to match."""
        by_content = []
        for probe, target in candidates:
            counts = summaries[id(target)].counts
            found = None
            if counts is not None and self.by_content:
                found = densities(self.condition, probe.rows, counts, probe_is_left=probe.side == 0)
            by_content.append(found)
        if all(found is not None for found in by_content):
            return [found for found in by_content if found is not None]
        draws = index.cells.draw(rng, _DRAWS)
        return [
            index.cells.densities(draws, probe.side, self._lag(probe, target), probe.rows.kind)
            for probe, target in candidates
        ]

    def _lag(self, probe: Block, target: _Side) -> int:
        """The cell's number of the distance between two blocks; those of the future come first."""
        return probe.bucket - target.bucket + self._lags

    def _compare(
        self,
        probe: Block,
        target: _Side,
        picked: Places | None,
        chances: Floats | None,
        index: Index,
        store: BlockStore,
        done: Done,
    ) -> None:
        """Compare, note the pairs, and learn what the comparisons paid."""
        other = target.new
        if other is None:
            assert target.stored is not None
            other = store.block(target.stored)
        probes = probe.n if picked is None else len(picked)
        comparisons = self._cost(probes, other.n)
        began = time.perf_counter()
        i, j = match(
            self.condition,
            probe.rows,
            other.rows,
            picked,
            self._reach(probe.side),
            probe_is_left=probe.side == 0,
            test=self._test(probe, other),
        )
        if comparisons >= _TELLING:
            done.compare_s += time.perf_counter() - began
            done.timed += comparisons
        done.made += comparisons
        worths = _worths(probe, i, other, j)
        matches = np.bincount(i, minlength=probe.n)
        kinds = probe.rows.kind
        if picked is not None:
            matches, kinds = matches[picked], kinds[picked]
        index.cells.add(
            probe.side, self._lag(probe, target), kinds, np.full(len(kinds), other.n), matches
        )
        self._tally(done, probe, picked, chances, i, worths)
        if len(i):
            done.pairs.append(
                Pairs(probe, i, other, j) if probe.side == 0 else Pairs(other, j, probe, i)
            )

    def _tally(
        self,
        done: Done,
        probe: Block,
        picked: Places | None,
        chances: Floats | None,
        i: Places,
        worths: Floats | None,
    ) -> None:
        """Count pairs by the basic window of their probing row, and what the sampled ones stand for."""
        buckets = probe.buckets(self.basic_us)
        first = int(buckets.min())
        of_pairs = buckets[i] - first
        found = np.bincount(of_pairs)
        worth = None if worths is None else np.bincount(of_pairs, worths)
        for place in np.flatnonzero(found):
            tally = done.windows[first + int(place)]
            tally.found += int(found[place])
            tally.worth += 0.0 if worth is None else float(worth[place])
        if chances is None or picked is None:
            return
        pairs = np.bincount(i, minlength=probe.n)[picked]
        values = None if worths is None else np.bincount(i, worths, probe.n)[picked]
        for bucket in np.unique(buckets[picked[pairs > 0]]):
            own = buckets[picked] == bucket
            tally = done.windows[int(bucket)]
            count, variance = missed(pairs[own], chances[own])
            tally.missed += count
            tally.variance += variance
            if values is not None:
                count, variance = missed(values[own], chances[own])
                tally.missed_worth += count
                tally.worth_variance += variance

    def _test(self, probe: Block, other: Block) -> Any:
        """A person's own predicate over candidate pairs, as the kernel calls it."""
        if not isinstance(self.condition, Predicate):
            return None
        condition = self.condition
        left, right = (probe, other) if probe.side == 0 else (other, probe)

        def test(i: Places, j: Places) -> Any:
            ours, theirs = (i, j) if probe.side == 0 else (j, i)
            return condition.function(
                _frame(left, condition.left_columns, ours),
                _frame(right, condition.right_columns, theirs),
            )

        return test

    def _keep(self, index: Index, store: BlockStore, new: list[Block]) -> None:
        """Put the batch's rows into the state; small neighbours become one block."""
        for block in new:
            last = next((s for s in reversed(index.blocks) if s.side == block.side), None)
            if last is not None and self._together(last, block):
                block = store.block(last).with_rows_of(block)
                store.remove(last)
                index.blocks.remove(last)
            index.blocks.append(store.put(block))

    def _together(self, last: Stored, block: Block) -> bool:
        first, final = block.rows.span
        span = max(final, last.span[1]) - min(first, last.span[0])
        most = FULL if last.bucket == block.bucket else SMALL
        return last.n + block.n <= most and span <= self._widest_us


def _worth(probe: Block, summary: Summary) -> Floats | None:
    """What a match of each probing row is worth, on average."""
    if summary.worths is None or probe.rows.value is None:
        return None
    return summary.worths.expected(probe.rows.value)


def _worths(probe: Block, i: Places, other: Block, j: Places) -> Floats | None:
    """What each pair is worth: the larger of its rows' utilities."""
    if probe.rows.value is None or other.rows.value is None:
        return None
    return np.maximum(probe.rows.value[i], other.rows.value[j])


def _frame(block: Block, columns: Sequence[str], places: Places) -> Any:
    """Candidate rows as pandas, for a predicate."""
    return block.batch.select(list(columns)).take(pa.array(places)).to_pandas()
