"""Which comparisons a shard makes where not all of them fit: those expected to yield most.

What a row will match in a block is told by the items of both, where the condition lets them tell
(`headgate.joins.item_counts`), and otherwise by what such rows found at such a lag
(`headgate.joins.lag_stats`). `headgate.joins.choice` fills the budget.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from headgate.core.plan import Plan
from headgate.joins.arrays import Floats, Indices
from headgate.joins.choice import choose
from headgate.joins.item_counts import ItemCounts, densities
from headgate.joins.lag_stats import LagStats
from headgate.spark.join.block import Block, Summary
from headgate.spark.join.state import BlockStore, Target
from headgate.spark.join.terms import JoinTerms

__all__ = ["Candidate", "Choice", "Ranking"]

#: A new block, and one that its rows may match.
Candidate = tuple[Block, Target]
_Group = tuple[Block, list[Target]]


@dataclass(frozen=True)
class Choice:
    """Rows of a probe to compare with some blocks: for certain, and because lots fell on them."""

    probe: Block
    targets: list[Target]
    certain: Indices
    sampled: Indices
    #: The chance that each sampled row had.
    chances: Floats


@dataclass(frozen=True)
class Ranking:
    """The choice of one batch."""

    terms: JoinTerms
    store: BlockStore
    stats: LagStats

    def choose(
        self,
        candidates: Sequence[Candidate],
        allowed: float,
        plan: Plan,
        rng: np.random.Generator,
    ) -> Iterator[Choice]:
        """The comparisons for so many units, in the candidates' order."""
        groups = self._grouped(candidates)
        summaries = {id(t): t.summary(self.store) for _, t in candidates}
        rows = np.array([sum(self.terms.cost(1, t.n) for t in targets) for _, targets in groups])
        # Matches for each comparison: where a search finds them, there are more of them than one a row.
        expected = [
            e * (sum(t.n for t in targets) / r)
            for e, (_, targets), r in zip(
                self._expected(groups, summaries, rng), groups, rows, strict=True
            )
        ]
        utility = [u for p, ts in groups if (u := _utility(p, ts, summaries)) is not None]
        chosen = choose(
            expected,
            rows,
            allowed,
            result_cost=0.0 if plan.work is None else plan.work.result_units,
            utility=utility if len(utility) == len(groups) else None,
            explore=self.terms.config.explore,
            seed=int(rng.integers(1 << 62)),
        )
        for (probe, targets), certain, sampled, chances in zip(
            groups, chosen.picked, chosen.sampled, chosen.probabilities, strict=True
        ):
            yield Choice(probe, targets, certain, sampled, chances)

    def _grouped(self, candidates: Sequence[Candidate]) -> list[_Group]:
        """Neighbouring targets of a probe share a score where there are too many of them."""
        scores = sum(probe.n for probe, _ in candidates)
        size = max(1, -(-scores // self.terms.config.scores))
        found: list[_Group] = []
        for probe in {id(p): p for p, _ in candidates}.values():
            own = sorted((t for p, t in candidates if p is probe), key=lambda t: t.span)
            found += [(probe, own[start : start + size]) for start in range(0, len(own), size)]
        return found

    def _expected(
        self, groups: list[_Group], summaries: dict[int, Summary], rng: np.random.Generator
    ) -> list[Floats]:
        """The share of a group's rows that each probing row is expected to match."""
        draws = self.stats.draw(rng)
        found = []
        for probe, targets in groups:
            share = self._by_content(probe, [summaries[id(t)].counts for t in targets])
            found.append(self._by_lag(probe, targets, draws) if share is None else share)
        return found

    def _by_content(self, probe: Block, counts: list[ItemCounts | None]) -> Floats | None:
        """What the items of a row and of some blocks say together; None if they say nothing."""
        known = [c for c in counts if c is not None]
        if not self.terms.by_content or not known or len(known) < len(counts):
            return None
        together = functools.reduce(ItemCounts.add, known)
        return densities(self.terms.condition, probe.rows, together, probe_is_left=probe.side == 0)

    def _by_lag(self, probe: Block, targets: list[Target], draws: Floats) -> Floats:
        """What such rows found at such lags, as drawn; on average over the blocks."""
        total, found = sum(t.n for t in targets), np.zeros(probe.n)
        for t in targets:
            lag = self.terms.lag(probe.bucket, t.bucket)
            found += self.stats.densities(draws, probe.side, lag, probe.rows.kind) * (t.n / total)
        return found


def _utility(probe: Block, targets: list[Target], summaries: dict[int, Summary]) -> Floats | None:
    """The expected utility of a match of each probing row, on average over some blocks."""
    total, found = sum(t.n for t in targets), np.zeros(probe.n)
    for t in targets:
        utilities = summaries[id(t)].utilities
        if utilities is None or probe.rows.value is None:
            return None
        found += utilities.expected(probe.rows.value) * (t.n / total)
    return found
