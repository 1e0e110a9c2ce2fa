"""One batch at one shard of a join: what to compare, the pairs found, what stays in the state.

The rows that came probe the blocks of the other side that are within reach of them; of two new blocks
the left one probes. So every pair is looked at once, in the batch in which its later row came. If the
full join fits into the plan's work, it is made. If not, comparisons are ranked by what they are
expected to yield (`headgate.spark.join.ranking`), and a random few of the rest are made as well, so that
what was missed can be estimated.

Nothing here follows a clock but the timings that are reported: the same batch with the same plan and
the same state makes the same comparisons.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from headgate.core.plan import Plan
from headgate.errors import SnapshotError
from headgate.joins.lag_stats import LagStats
from headgate.spark.join.block import Block, cut, gathered
from headgate.spark.join.comparing import Comparer
from headgate.spark.join.left_out.items_told import items_of
from headgate.spark.join.pack import TIME
from headgate.spark.join.ranking import Candidate, Ranking
from headgate.spark.join.state import BlockStore, Index, Stored, Target
from headgate.spark.join.tally import Done
from headgate.spark.join.terms import JoinTerms

__all__ = ["NO_WATERMARK", "JoinWork"]

#: Earlier than any row.
NO_WATERMARK = -(1 << 62)


@dataclass(frozen=True)
class JoinWork:
    """A join's batches at a shard; what it keeps between them is the index and the store."""

    terms: JoinTerms

    def fresh(self) -> Index:
        """The index of a shard that has seen nothing yet."""
        terms = self.terms
        stats = LagStats(2 * terms.lags + 1, terms.kinds, terms.config.lag_stats)
        return Index(stats, terms.layout, columns=terms.columns)

    def restored(self, value: bytes) -> Index:
        """A shard's index as the state has it; refused if it was another join's."""
        index = Index.from_bytes(value, self.terms.config.lag_stats)
        if index.layout != self.terms.layout:
            raise SnapshotError(
                f"the checkpoint holds the windows of another join ({index.layout}; now "
                f"{self.terms.layout}): call hg.join as before (budget= says how many cores), or start "
                "with a new checkpoint"
            )
        if index.columns not in ("", self.terms.columns):  # earlier versions kept none
            raise SnapshotError(
                "the checkpoint holds the windows of another join (a side has other columns or types, "
                "or on= or time= names another column): call hg.join with the same columns in the same "
                "order, or start with a new checkpoint"
            )
        index.columns = self.terms.columns
        return index

    def run(
        self,
        index: Index,
        store: BlockStore,
        arrived: Iterable[tuple[int, bytes]],
        watermark_us: int,
        plan: Plan,
        batch: int,
        shard: int = 0,
        copies: tuple[int, int] = (1, 1),
    ) -> Done:
        """One batch; `arrived` are payloads by side. Changes index and store.

        The rows of each side are at so many shards (`copies`), this one among them.
        """
        terms = self.terms
        done = Done(LagStats(index.stats.lags, index.stats.kinds))
        # Late is what was behind the watermark when the last batch ended, as Spark has it: an operator
        # in front of the join may emit rows that the present watermark has just passed.
        late = NO_WATERMARK if index.watermark_us is None else index.watermark_us
        index.watermark_us = max(late, watermark_us)
        new = self._new_blocks(arrived, late, done)
        candidates = self._candidates(index, new)
        for probe in new:
            own = [t for p, t in candidates if p is probe]
            wanted = sum(terms.cost(1, t.n) for t in own)
            full = sum(terms.cost(1, t.weight) for t in own)
            weights = None if probe.chances is None else 1.0 / probe.chances
            done.want(probe.buckets(terms.basic_us), wanted, weights, full)
            done.heaviest = max(done.heaviest, probe.heaviest, *(t.heaviest for t in own))
        allowed = self._allowed(plan, done.wanted, index)
        comparer = Comparer(terms, store, done)
        if allowed is None:
            for probe, target in candidates:
                comparer.compare(probe, [target])
        else:
            rng = np.random.default_rng([terms.seed, batch, shard])
            for one in Ranking(terms, store, index.stats).choose(candidates, allowed, plan, rng):
                if len(one.certain):
                    comparer.compare(one.probe, one.targets, one.certain)
                if len(one.sampled):
                    comparer.compare(one.probe, one.targets, one.sampled, one.chances)
            if plan.work is not None and plan.work.result_units > 0.0:
                spent = done.made + plan.work.result_units * done.total("found")
                index.spend(spent, allowed)
            done.widen_error_if_sample_empty()
        done.add_variance_of_rows(copies)
        index.pay(done.total("found") + done.total("missed"), done.wanted)
        index.stats.learn(done.stats)
        self._keep(index, store, new)
        self._expire(index, store, watermark_us)
        if plan.work is not None:  # under a target the next batch may have to leave rows out
            done.items = items_of(terms, index, store, new)
        return done

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
            # They are in order of time: the first one tells whether any is late.
            on_time = rows
            if rows.num_rows and rows.column(TIME)[0].as_py() < watermark_us:
                on_time = rows.filter(pc.greater_equal(rows.column(TIME), watermark_us))
            done.rows[side] = on_time.num_rows
            done.late[side] = rows.num_rows - on_time.num_rows
            found += cut(side, on_time, self.terms)
        return found

    def _expire(self, index: Index, store: BlockStore, watermark_us: int) -> None:
        """Forget blocks that no row on time can reach any more."""
        for stored in list(index.blocks):
            if stored.span[1] + self.terms.windows_us[stored.side] < watermark_us:
                store.remove(stored)
                index.blocks.remove(stored)

    def _candidates(self, index: Index, new: Sequence[Block]) -> list[Candidate]:
        """Every new block with every block of the other side within its reach."""
        found = []
        for probe in new:
            reach = self.terms.reach(probe.side)
            first, last = probe.rows.span
            others = [Target.of(s) for s in index.blocks if s.side != probe.side]
            if probe.side == 0:
                others += [Target.of(b) for b in new if b.side == 1]
            for other in others:
                if other.span[1] - first >= -reach.before_us and other.span[0] - last <= reach.after_us:
                    found.append((probe, other))
        return found

    def _allowed(self, plan: Plan, wanted: float, index: Index) -> float | None:
        """Units that may be spent; None if all of it fits."""
        work = plan.work
        results = 0.0 if work is None else work.result_units * index.pay_off
        limits = [] if plan.default >= 1.0 else [plan.default * wanted * (1.0 + results)]
        if wanted * (1.0 + results) <= min([*limits, np.inf if work is None else work.units]):
            return None
        if work is not None:  # results are fewer than a choice expects: it is given as much more
            limits.append(work.units / (index.used if work.result_units > 0.0 else 1.0))
        return min(limits)

    def _keep(self, index: Index, store: BlockStore, new: list[Block]) -> None:
        """Put the batch's rows into the state; small neighbours become one block."""
        for block in new:
            latest = [s for s in index.blocks if s.side == block.side][-self.terms.config.open_blocks :]
            last = next((s for s in reversed(latest) if self._together(s, block)), None)
            if last is not None:
                block = store.block(last).with_rows_of(block)
                store.remove(last)
                index.blocks.remove(last)
            index.blocks.append(store.put(block))

    def _together(self, last: Stored, block: Block) -> bool:
        """Whether a new block may be added to a stored one."""
        first, final = block.rows.span
        span = max(final, last.span[1]) - min(first, last.span[0])
        config = self.terms.config
        most = config.full_rows if last.bucket == block.bucket else config.small_rows
        return last.n + block.n <= most and span <= self.terms.widest_us
