"""What a call of `join` may say, checked before anything is built."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from headgate.durations import Duration, seconds
from headgate.errors import BadArgument, WrongKindOfFrame
from headgate.joins.conditions import Condition
from headgate.settings import RETENTION_S, GateSettings

__all__ = [
    "OUTPUTS",
    "RANKS",
    "JoinWindows",
    "check_choices",
    "check_frame",
    "check_pair",
    "how_many_shards",
    "join_settings",
]

log = logging.getLogger("headgate")

OUTPUTS = ("pairs", "lists", "counts")
RANKS = ("content", "pay-off")
#: Basic windows of a window, where the call says nothing. join-2007's Figure 14 drawn again is flat from
#: a tenth to a fortieth of the window, and falls on both sides (`headgate figures join-fig14`).
_BASIC_WINDOWS = 20
#: More of them, and bookkeeping costs more than comparing.
_MOST_BASIC = 1000
#: The target where the call says how many cores, and not how long.
_HOLD = "2 seconds"


def check_frame(side: str, frame: Any) -> None:
    """Refuse what is no stream, or has a name twice."""
    if not hasattr(frame, "sparkSession") or not hasattr(frame, "isStreaming"):
        raise BadArgument(f"{side}={frame!r} is no DataFrame: hg.join(left, right, on=..., ...)")
    if not frame.isStreaming:
        raise WrongKindOfFrame(
            f"the {side} DataFrame is not a stream: hg.join keeps windows of two streams; join batch "
            "DataFrames with Spark's own join, or read this one with spark.readStream"
        )
    twice = sorted({c for c in frame.columns if frame.columns.count(c) > 1})
    if twice:
        raise BadArgument(f"the {side} DataFrame has more than one column {twice[0]!r}: rename one")


def check_choices(on: Any, how: str, output: str, rank: str) -> None:
    """Refuse what is no condition, an outer join, an unknown output."""
    if not isinstance(on, Condition):
        raise BadArgument(
            f'on={on!r} is no condition: give hg.overlap("keywords", at_least=3), hg.equal(...), '
            "hg.subset(...), hg.superset(...), hg.inner_product(...) or hg.predicate(...)"
        )
    if how != "inner":
        raise BadArgument(
            f"how={how!r}: only 'inner'. Under shedding a row without a match cannot be told from one "
            "whose comparisons were skipped, so an outer join would not be honest"
        )
    if output not in OUTPUTS:
        raise BadArgument(f"output={output!r}: one of {', '.join(map(repr, OUTPUTS))}")
    if rank not in RANKS:
        raise BadArgument(f"rank={rank!r}: one of {', '.join(map(repr, RANKS))}")


def check_pair(name: str, value: Any) -> None:
    """Refuse what is not one thing for each side."""
    if not isinstance(value, tuple) or len(value) != 2:
        raise BadArgument(f"{name}={value!r}: give two, one for the left side and one for the right")


@dataclass(frozen=True)
class JoinWindows:
    """How far apart the rows of a pair may be, and in which steps of event time rows are kept."""

    #: How long a left row waits for right ones, and a right row for left ones, in microseconds.
    windows_us: tuple[int, int]
    basic_us: int

    @classmethod
    def of(cls, within: Any, basic_window: Duration | None) -> JoinWindows:
        """The windows that the call asks for; refused if they make no sense together."""
        pair = within if isinstance(within, tuple) else (within, within)
        if len(pair) != 2:
            raise BadArgument(f"within={within!r}: give one duration, or two: (left, right)")
        left, right = (round(seconds(part, "within") * 1e6) for part in pair)
        longest = max(left, right)
        if basic_window is None:
            return cls((left, right), max(1, longest // _BASIC_WINDOWS))
        basic_us = max(1, round(seconds(basic_window, "basic_window") * 1e6))
        if basic_us > longest:
            raise BadArgument(
                f"basic_window={basic_window!r} is longer than the window within={within!r}: give a "
                "part of it, such as a twentieth"
            )
        if longest > _MOST_BASIC * basic_us:
            raise BadArgument(
                f"basic_window={basic_window!r} makes {longest // basic_us:,} basic windows of "
                f"within={within!r}: give at least a {_MOST_BASIC:,}th of it"
            )
        return cls((left, right), basic_us)


def join_settings(
    hold: Duration | None,
    budget: str | float | None,
    mode: str,
    on_failure: str,
    retention: Duration = RETENTION_S,
) -> GateSettings:
    """How much, as a gate says it."""
    share = _share(budget)
    if share is not None and hold is not None:
        raise BadArgument(
            f"hold={hold!r} with budget={budget!r}: a target and a share cannot both hold; give one"
        )
    if hold is None and isinstance(budget, str) and share is None:
        hold = _HOLD
    if hold is None:
        return GateSettings(rate=share or 1.0, mode=mode, on_failure=on_failure, retention=retention)
    return GateSettings(hold=hold, mode=mode, on_failure=on_failure, retention=retention)


def _share(budget: str | float | None) -> float | None:
    """A budget such as "25 %": the share of the full join's comparisons."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", budget) if isinstance(budget, str) else None
    if found is None:
        return None
    if not 0.0 < float(found[1]) <= 100.0:
        raise BadArgument(f"budget={budget!r}: give a share above 0 % and at most 100 %")
    return float(found[1]) / 100.0


def how_many_shards(spark: SparkSession, budget: str | float | None) -> int:
    """How many shards of the join compare in parallel."""
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 200)
    if isinstance(budget, str) and _share(budget) is None:
        found = re.fullmatch(r"\s*(\d+)\s*cores?\s*", budget)
        if found is None or int(found[1]) < 1:
            raise BadArgument(
                f'budget={budget!r}: say how many cores, as in "2 cores"; or a share of the full '
                'join\'s comparisons, as in "25 %"; or give a number, the most comparisons of a batch'
            )
        asked = int(found[1])
    elif isinstance(budget, float | int) and (isinstance(budget, bool) or not budget > 0):
        raise BadArgument(f"budget={budget!r}: give the most comparisons of a batch, above 0")
    else:
        asked = _cores(spark)
    if partitions < asked:
        log.warning(
            "join: %d shards are asked for, and spark.sql.shuffle.partitions is %d: so many are used",
            asked, partitions,
        )  # fmt: skip
    elif partitions > 4 * asked:
        log.warning(
            "join: spark.sql.shuffle.partitions is %d, and each of them costs every batch a task and a "
            "commit of its state, with rows or without; set it to %d before the query first starts",
            partitions, asked,
        )  # fmt: skip
    return min(asked, partitions)


def _cores(spark: SparkSession) -> int:
    """Tasks that run at once; over Connect the conf has to say."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:
        return int(spark.conf.get("spark.default.parallelism", "2") or 2)
