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

import functools
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.core.plan import Plan
from headgate.errors import GuardedFunctionError, SnapshotError
from headgate.joins.blocks_match import Reach, match
from headgate.joins.cell_stats import CellStats
from headgate.joins.choice import choose
from headgate.joins.conditions import Condition, Equal, Predicate
from headgate.joins.item_counts import ItemCounts, densities
from headgate.spark.join.block import FULL, SMALL, Block, Summary, cut, gathered
from headgate.spark.join.pack import TIME
from headgate.spark.join.state import Index, Stored
from headgate.spark.join.tally import Done, Pairs

__all__ = ["NO_WATERMARK", "BlockStore", "JoinWork"]

Places = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

#: A call with fewer comparisons says what a call costs, and not what a comparison does.
_TELLING = 20_000.0
#: Earlier than any row.
NO_WATERMARK = -(1 << 62)
#: Scores of a row and a block that a batch can afford; more of them, and neighbouring blocks share one.
_SCORES = 2_000_000
#: How many of a side's latest blocks take up small new ones.
_OPEN = 4
#: Share of the work that goes to a random few of the comparisons not chosen.
_EXPLORE = 0.05
#: Batches after which what cells paid counts half.
_HALF_LIFE = 8.0
#: Groups of probing rows, each with its own draw of what cells pay.
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
    #: Places of the grid: rows of a state that was spread over others would not meet.
    places: int = 1

    @property
    def _lags(self) -> int:
        """Basic windows that a block can be older or newer than one that it meets."""
        return -(-max(self.windows_us) // self.basic_us) + 1

    def fresh(self) -> Index:
        """A place that has seen nothing yet."""
        return Index(CellStats(2 * self._lags + 1, self.kinds), self.layout)

    @property
    def layout(self) -> str:
        """What a restart must not change."""
        left, right, basic = (us / 1e6 for us in (*self.windows_us, self.basic_us))
        kind = type(self.condition).__name__.lower()
        return (
            f"{kind}, within {left:g} s and {right:g} s, basic window {basic:g} s, "
            f"{self.places} places, {self.kinds} row types"
        )

    def restored(self, value: bytes) -> Index:
        """A place as the state has it; refused if it was another join's."""
        index = Index.from_bytes(value)
        if index.layout != self.layout:
            raise SnapshotError(
                f"the checkpoint holds the windows of another join ({index.layout}; now {self.layout}): "
                "call hg.join as before (budget= says how many cores), or start with a new checkpoint"
            )
        return index

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
        done = Done(CellStats(index.cells.lags, index.cells.kinds))
        # Late is what was behind the watermark when the last batch ended, as Spark has it: an operator
        # in front of the join may emit rows that the present watermark has just passed.
        late = NO_WATERMARK if index.watermark_us is None else index.watermark_us
        index.watermark_us = max(late, watermark_us)
        new = self._new_blocks(arrived, late, done)
        candidates = self._candidates(index, new)
        for probe in new:
            wanted = sum(self._cost(1, t.n) for p, t in candidates if p is probe)
            done.want(probe.buckets(self.basic_us), wanted)
        allowed = self._allowed(plan, done.wanted, index)
        if allowed is None:
            for probe, target in candidates:
                self._compare(probe, [target], None, None, store, done)
        else:
            self._choose(candidates, allowed, plan, index, store, done, (batch, place))
        index.pay(done.total("found"), done.made)
        index.cells.learn(done.cells, 1.0, _HALF_LIFE)
        self._keep(index, store, new)
        self._expire(index, store, watermark_us)
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
        results = 0.0 if plan.work is None else plan.work.result_units * index.pay_off
        limits = [] if plan.work is None else [plan.work.units]
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
        groups = self._grouped(candidates)
        summaries = {id(t): self._summary(t, store) for _, t in candidates}
        rows = np.array([sum(self._cost(1, t.n) for t in targets) for _, targets in groups])
        # Matches for each comparison: where a search finds them, there are more of them than one a row.
        expected = [
            e * (sum(t.n for t in targets) / r)
            for e, (_, targets), r in zip(
                self._expected(groups, summaries, index, rng), groups, rows, strict=True
            )
        ]
        worth = [w for p, ts in groups if (w := _worth(p, ts, summaries)) is not None]
        chosen = choose(
            expected,
            rows,
            allowed,
            result_cost=0.0 if plan.work is None else plan.work.result_units,
            worth=worth if len(worth) == len(groups) else None,
            explore=_EXPLORE,
            seed=int(rng.integers(1 << 62)),
        )
        for (probe, targets), certain, sampled, chances in zip(
            groups, chosen.picked, chosen.sampled, chosen.probabilities, strict=True
        ):
            if len(certain):
                self._compare(probe, targets, certain, None, store, done)
            if len(sampled):
                self._compare(probe, targets, sampled, chances, store, done)
        done.widen_error_if_sample_empty()

    def _grouped(self, candidates: list[tuple[Block, _Side]]) -> list[tuple[Block, list[_Side]]]:
        """Neighbouring targets of a probe share a score where there are too many of them."""
        scores = sum(probe.n for probe, _ in candidates)
        size = max(1, -(-scores // _SCORES))
        found: list[tuple[Block, list[_Side]]] = []
        for probe in {id(p): p for p, _ in candidates}.values():
            own = sorted((t for p, t in candidates if p is probe), key=lambda t: t.span)
            found += [(probe, own[start : start + size]) for start in range(0, len(own), size)]
        return found

    def _summary(self, target: _Side, store: BlockStore) -> Summary:
        if target.new is not None:
            return target.new.summary
        assert target.stored is not None
        return store.summary(target.stored)

    def _expected(
        self,
        groups: list[tuple[Block, list[_Side]]],
        summaries: dict[int, Summary],
        index: Index,
        rng: np.random.Generator,
    ) -> list[Floats]:
        """The share of a group's rows that each probing row is expected to match."""
        draws = index.cells.draw(rng, _DRAWS)
        found = []
        for probe, targets in groups:
            by_content = self._by_content(probe, [summaries[id(t)].counts for t in targets])
            if by_content is None:
                kinds, total = probe.rows.kind, sum(t.n for t in targets)
                by_content = np.zeros(probe.n)
                for t in targets:
                    lag = self._lag(probe, t)
                    drawn = index.cells.densities(draws, probe.side, lag, kinds)
                    by_content += drawn * (t.n / total)
            found.append(by_content)
        return found

    def _by_content(self, probe: Block, counts: list[ItemCounts | None]) -> Floats | None:
        """What the items of a row and of some blocks say together; None if they say nothing."""
        known = [c for c in counts if c is not None]
        if not self.by_content or not known or len(known) < len(counts):
            return None
        together = functools.reduce(ItemCounts.add, known)
        return densities(self.condition, probe.rows, together, probe_is_left=probe.side == 0)

    def _lag(self, probe: Block, target: _Side) -> int:
        """The cell's number of the distance between two blocks; those of the future come first."""
        return probe.bucket - target.bucket + self._lags

    def _compare(
        self,
        probe: Block,
        targets: list[_Side],
        picked: Places | None,
        chances: Floats | None,
        store: BlockStore,
        done: Done,
    ) -> None:
        """Compare, keep the pairs, and learn what the comparisons paid."""
        probes = probe.n if picked is None else len(picked)
        kinds = probe.rows.kind if picked is None else probe.rows.kind[picked]
        places: list[Places] = []
        worths: list[Floats | None] = []
        for target in targets:
            other = target.new
            if other is None:
                assert target.stored is not None
                other = store.block(target.stored)
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
            if comparisons >= _TELLING or isinstance(self.condition, Predicate):
                done.compare_s += time.perf_counter() - began
                done.timed += comparisons
            matches = np.bincount(i, minlength=probe.n)
            if picked is not None:
                matches = matches[picked]
            done.cells.add(
                probe.side, self._lag(probe, target), kinds, np.full(len(kinds), other.n), matches
            )
            places.append(i)
            worths.append(_worths(probe, i, other, j))
            if len(i):
                done.pairs.append(
                    Pairs(probe, i, other, j) if probe.side == 0 else Pairs(other, j, probe, i)
                )
        known = [w for w in worths if w is not None]
        done.count(
            probe.buckets(self.basic_us),
            picked,
            chances,
            np.concatenate(places),
            np.concatenate(known) if len(known) == len(places) else None,
            sum(self._cost(1, t.n) for t in targets),
        )

    def _test(self, probe: Block, other: Block) -> Any:
        """A person's own predicate over candidate pairs, as the kernel calls it."""
        if not isinstance(self.condition, Predicate):
            return None
        condition = self.condition
        left, right = (probe, other) if probe.side == 0 else (other, probe)

        def test(i: Places, j: Places) -> Any:
            ours, theirs = (i, j) if probe.side == 0 else (j, i)
            frames = (
                _frame(left, condition.left_columns, ours),
                _frame(right, condition.right_columns, theirs),
            )
            try:
                return _truth(condition.function(*frames))
            except Exception as error:
                raise GuardedFunctionError(
                    f"the predicate of the join raised {type(error).__name__}: {error}; it gets two "
                    f"pandas frames with the columns {list(condition.left_columns)} and "
                    f"{list(condition.right_columns)}, one candidate pair a row"
                ) from error

        return test

    def _keep(self, index: Index, store: BlockStore, new: list[Block]) -> None:
        """Put the batch's rows into the state; small neighbours become one block."""
        for block in new:
            latest = [s for s in index.blocks if s.side == block.side][-_OPEN:]
            last = next((s for s in reversed(latest) if self._together(s, block)), None)
            if last is not None:
                block = store.block(last).with_rows_of(block)
                store.remove(last)
                index.blocks.remove(last)
            index.blocks.append(store.put(block))

    def _together(self, last: Stored, block: Block) -> bool:
        first, final = block.rows.span
        span = max(final, last.span[1]) - min(first, last.span[0])
        most = FULL if last.bucket == block.bucket else SMALL
        return last.n + block.n <= most and span <= self._widest_us


def _worth(probe: Block, targets: list[_Side], summaries: dict[int, Summary]) -> Floats | None:
    """What a match of each probing row is worth, on average over some blocks."""
    total, found = sum(t.n for t in targets), np.zeros(probe.n)
    for t in targets:
        worths = summaries[id(t)].worths
        if worths is None or probe.rows.value is None:
            return None
        found += worths.expected(probe.rows.value) * (t.n / total)
    return found


def _worths(probe: Block, i: Places, other: Block, j: Places) -> Floats | None:
    """What each pair is worth: the larger of its rows' utilities."""
    if probe.rows.value is None or other.rows.value is None:
        return None
    return np.maximum(probe.rows.value[i], other.rows.value[j])


def _frame(block: Block, columns: Sequence[str], places: Places) -> Any:
    """Candidate rows as pandas, for a predicate; whole numbers with nulls among them stay whole."""
    import pandas as pd

    rows = block.batch.select(list(columns)).take(pa.array(places))
    frame = rows.to_pandas()
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if column.null_count and pa.types.is_integer(column.type):
            frame[name] = pd.array(column.to_pylist(), dtype="Int64")
    return frame


def _truth(answers: Any) -> npt.NDArray[np.bool_]:
    """A predicate's answers; null is no match, as in SQL."""
    import pandas as pd

    found = pd.Series(answers)
    return np.asarray(found.where(found.notna(), False).astype(bool))
