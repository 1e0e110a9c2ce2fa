"""Is a batch's count true? What the source says of it, and what stands between the source and the gate.

Spark's observed metrics are those of the last pass over each partition; before 4.3 those of all passes
together. A sink that looks at a batch again (``isEmpty``, ``take``) or stops early (``limit``) leaves
counts that are too low, or too high, in front of the gate and behind it alike, so that they always
balance. Only somebody else can contradict them; where passes are added up, the source's count cannot.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from headgate.core.load import LoadSample
from headgate.core.plan import Plan

__all__ = ["AT_MOST", "EQUAL", "SIGMAS", "UNKNOWN", "Witness", "likely_share", "cross_examine"]

#: What stands between the source and the gate hands on every row, or drops some, or nobody can tell.
EQUAL, AT_MOST, UNKNOWN = "equal", "at most", "unknown"
#: A kept share is suspect when it is so many standard deviations from its plan's rate.
SIGMAS = 6.0
#: Whole passes over one batch that are still taken for such, and the fewest rows that make two or
#: three of them more likely than a pass that happened to end at exactly a half or a third.
_PASSES, _ROWS = 4, 50


@dataclass(frozen=True)
class Witness:
    """What others say of one batch."""

    #: Rows that the sources handed out, over all passes (``numInputRows``); None where they do not say.
    handed_out: int | None = None
    #: Rows between the start and the end offsets; None where offsets do not count rows.
    in_range: int | None = None
    #: Whether the sink (``foreachBatch``, other people's) may read the batch again, or a part of it.
    rereads: bool = False
    #: Whether the sink (files, a Delta table) passes over a batch that it has, and then reads nothing.
    passes_over: bool = False
    #: Where it may: whether what was counted is one whole pass; None where nobody can tell. The last
    #: pass must have read as much as any other; where passes are added up, there must be no other.
    whole: bool | None = None
    #: Whether counts are those of all passes together, and not of the last one.
    added_up: bool = False
    #: Whether something behind the gate (a limit) ends the reading before the batch is over; None where
    #: the query's plan is not to be had.
    cut_short: bool | None = None
    #: Limits anywhere in the query.
    limits: int = 0


def cross_examine(sample: LoadSample, relation: str, witness: Witness) -> tuple[str, str]:
    """Who confirms the count of arrived rows, if anybody, and what speaks against it, in words.

    ``offsets`` and ``rows`` (``numInputRows``) confirm it to the row; ``passes`` says that the last pass
    was a whole one, ``bound`` that the source handed out no fewer.
    """
    arrived, given, range_ = sample.arrived, witness.handed_out or None, witness.in_range
    together = witness.rereads and witness.added_up
    if together and witness.whole is False:
        return "", (
            f"the batch was read more than once, and this Spark adds up what the passes counted "
            f"({arrived:,} rows): in foreachBatch, persist() the frame before using it twice"
        )
    if relation == EQUAL and range_ is not None and arrived == range_:
        return "offsets", ""
    if relation != UNKNOWN:
        said = (range_,) if together and range_ is not None else (given, range_)
        most = max((n for n in said if n is not None), default=None)
        if most is not None and arrived > most:
            return "", f"{arrived:,} rows were counted, and the source handed out {most:,}"
    if witness.cut_short:
        return "", (
            f"a limit behind the gate ends the reading before the batch is over ({arrived:,} rows were "
            "counted until then)"
        )
    if witness.rereads and witness.whole is False:
        return "", (
            f"the batch was read again in part ({arrived:,} rows were counted last): in foreachBatch, "
            "persist() the frame before using it twice"
        )
    if relation == EQUAL:
        return _equal(arrived, given, range_, witness)
    if witness.whole:
        return "passes", ""
    if together:
        return "", ""  # the source adds up the passes, too: that it handed out as much proves nothing
    again = witness.rereads and relation == AT_MOST and range_ and given and given > range_
    if again and not _whole(given or 0, range_ or 0):
        return "", f"the batch of {range_:,} offsets was read in part again ({given:,} rows in all)"
    return ("bound" if relation == AT_MOST and (given or range_ is not None) else ""), ""


def _equal(arrived: int, given: int | None, range_: int | None, witness: Witness) -> tuple[str, str]:
    """Every row that the source handed out must have been counted."""
    if witness.whole:
        return "passes", ""
    if given is None:
        return "", ""  # offsets without rows behind them (markers, compaction) prove nothing alone
    if witness.rereads and witness.added_up:
        return "", ""  # the source adds up the passes, too
    if given == arrived:
        if range_ is not None and witness.rereads and 2 * arrived < range_:
            return "", f"{arrived:,} rows were read of a batch of {range_:,} offsets"
        return "rows", ""
    if _whole(given, arrived):
        return "rows", ""
    if given > arrived and not witness.rereads:
        return "bound", ""  # the same source is read in another branch of the query, too
    said = f"{given:,} rows" + ("" if range_ is None else f" of {range_:,} offsets")
    return "", f"{arrived:,} rows were counted, and the source handed out {said}"


def _whole(given: int, once: int) -> bool:
    """Whether so many rows may be a few whole passes over `once` rows."""
    if once <= 0 or given % once:
        return False
    passes = given // once
    return passes <= 2 or (passes <= _PASSES and once >= _ROWS)


def likely_share(arrived: int, kept: int, plan: Plan) -> bool:
    """Whether the plan's one rate makes this share possible.

    Rows of one identity share one fate, so a stream of few distinct rows can fail this without a fault.
    """
    if plan.exceptions or plan.level is not None:
        return True  # the mix of groups is not known here
    rate = plan.default
    return abs(kept - rate * arrived) <= SIGMAS * math.sqrt(arrived * rate * (1 - rate)) + 1
