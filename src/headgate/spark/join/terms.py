"""What a join's call fixed for its workers, and what follows from that for any two blocks."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from headgate.errors import BadArgument
from headgate.joins.blocks_match import Reach
from headgate.joins.conditions import Condition, Equal, Predicate
from headgate.joins.lag_stats import LAG_STATS, LagStatsConfig

__all__ = ["WORK", "JoinTerms", "WorkConfig", "columns_digest"]


@dataclass(frozen=True)
class WorkConfig:
    """The numbers of a shard's work in a batch.

    `headgate bench join-numbers` sweeps those that act without a clock; `scores` bounds the time of a
    choice, and `telling_comparisons` decides which calls are timed.
    """

    #: Share of the work that goes to a random few of the comparisons not chosen. It is what the estimate
    #: of completeness costs: half of it makes the standard error 1.4 times as large.
    explore: float = 0.05
    #: Rows up to which neighbouring basic windows share a block. Fewer choose more finely (half of it
    #: finds 8 % more pairs of a sparse stream), and each call costs as much as comparing some thousand.
    small_rows: int = 256
    #: Rows of a block at most. Fewer choose more finely where a basic window has more rows (half of it
    #: finds a sixth more there), and double scores and calls; kernels are as fast as with larger blocks.
    full_rows: int = 8192
    #: How many of a side's latest blocks take up small new ones. With one, a stream whose rows come in
    #: no order of time leaves a block for each batch and basic window.
    open_blocks: int = 4
    #: Scores of a row and a block that a batch can afford (some 20 ns each); more of them, and
    #: neighbouring blocks share one.
    scores: int = 2_000_000
    #: A call with fewer comparisons says what a call costs, and not what a comparison does.
    telling_comparisons: float = 20_000.0
    #: For conditions whose content tells nothing.
    lag_stats: LagStatsConfig = LAG_STATS

    def __post_init__(self) -> None:
        if not 0 <= self.explore < 1:
            raise BadArgument(f"explore={self.explore!r}: give a share of the work, in [0, 1)")
        if not 1 <= self.small_rows <= self.full_rows:
            raise BadArgument(
                f"small_rows={self.small_rows!r}, full_rows={self.full_rows!r}: give 1 row or more, and "
                "no fewer in a full block"
            )
        for name in ("open_blocks", "scores"):
            value = getattr(self, name)
            if value < 1:
                raise BadArgument(f"{name}={value!r}: give 1 or more")


#: The defaults.
WORK = WorkConfig()


def columns_digest(
    sides: Sequence[Sequence[tuple[str, str]]], condition: Condition, times: Sequence[str]
) -> str:
    """Which columns both sides have, by name and type in their order, and which of them the join reads.

    Stored rows have the columns of the call that stored them, by position: under another call they
    would come out with values in the wrong columns, or be compared by a column that new rows are not.
    """
    read: list[Sequence[str]] = [(condition.left, condition.right), times]
    if isinstance(condition, Predicate):
        read += [condition.left_columns, condition.right_columns]
    text = json.dumps([sides, read], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class JoinTerms:
    """The condition and the windows, as every shard reads them."""

    condition: Condition
    #: How long a left row waits for right ones, and a right row for left ones, in microseconds.
    windows_us: tuple[int, int]
    basic_us: int
    seed: int
    #: Row types whose pay-offs are learnt by themselves.
    kinds: int = 1
    #: Rank by what the items of row and block say, where they say anything.
    by_content: bool = True
    #: Shards of the matrix: rows of a state that was spread over others would not meet.
    shards: int = 1
    config: WorkConfig = WORK
    #: Which columns rows have, and which of them are compared (`columns_digest`).
    columns: str = ""

    @property
    def lags(self) -> int:
        """Basic windows that a block can be older or newer than one that it meets."""
        return -(-max(self.windows_us) // self.basic_us) + 1

    @property
    def layout(self) -> str:
        """What a restart must not change. It is stored: the words are those of 0.1.0, and stay."""
        left, right, basic = (us / 1e6 for us in (*self.windows_us, self.basic_us))
        kind = type(self.condition).__name__.lower()
        return (
            f"{kind}, within {left:g} s and {right:g} s, basic window {basic:g} s, "
            f"{self.shards} places, {self.kinds} row types"
        )

    @property
    def widest_us(self) -> int:
        """How much event time a block may span: more would keep its first rows too long."""
        return max(self.basic_us, min(self.windows_us) // 4, max(self.windows_us) // 8)

    def reach(self, side: int) -> Reach:
        """From a probing row of this side to rows of the other one."""
        left, right = self.windows_us
        return Reach(right, left) if side == 0 else Reach(left, right)

    def cost(self, probes: int, rows: float) -> float:
        """Comparisons: all of them, or a binary search for each probe."""
        if isinstance(self.condition, Equal):
            return probes * (1.0 + math.log2(1.0 + rows))
        return float(probes) * rows

    def lag(self, probe_bucket: int, target_bucket: int) -> int:
        """The distance between two blocks in basic windows, from 0; those of the future come first."""
        return probe_bucket - target_bucket + self.lags
