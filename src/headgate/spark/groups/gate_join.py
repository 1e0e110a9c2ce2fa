"""`gate_join`: a gate on each side of an equi-join, which know of each other."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headgate.durations import Duration, seconds
from headgate.errors import BadArgument, WrongKindOfFrame
from headgate.policies.by_group.concept_driven import ConceptDriven
from headgate.spark.calls import explained
from headgate.spark.gate.call import gate
from headgate.spark.gate.identity import require_columns, require_timestamp
from headgate.spark.gate.shape import WEIGHT
from headgate.store.folder import check_gate_name

__all__ = ["gate_join"]

On = str | Sequence[str] | Mapping[str, str]


@explained('hg.gate_join("pairs", left, right, on="user", hold="2 seconds", control="/shared/headgate")')
def gate_join(
    name: str,
    left: DataFrame,
    right: DataFrame,
    *,
    on: On,
    within: Duration | None = None,
    time: str | tuple[str, str] | None = None,
    rate: float | None = None,
    allocation: str = "senate",
    least: int = 1,
    **given: Any,
) -> tuple[DataFrame, DataFrame]:
    """Both sides of an equi-join behind gates, shed by group and stream; join them as you would without.

    Cod-2018, section VI-C3: a group's rates come from the intersection of the two streams' histograms.
    A group that both streams have keeps its share of each; one that the other stream does not have can
    form no result.

    On streams, counts are those of the batch, and a group counts as absent when the other stream did not
    have it for twice as long as rows wait in the join (`within`, by the event times `time`); it then
    keeps `least` rows a batch, so that a partner that comes late still finds some. On batch DataFrames
    both histograms are complete, and such rows are left out (give `rate`).

    `on` names the columns that are equal: one name, several, or ``{"left": "right"}``. The rest of the
    arguments is as for `gate`. The right side's weight is named ``_weight_right``; a pair's weight is
    the product of both, and sums over pairs are those of everything if weighted so.
    """
    check_gate_name(name)
    keys = {k: k for k in _names(on)} if not isinstance(on, Mapping) else dict(on)
    kinds = zip(
        require_columns(left, list(keys), "on (left side)"),
        require_columns(right, list(keys.values()), "on (right side)"),
        strict=True,
    )
    for (mine, other), (kind, others) in zip(keys.items(), kinds, strict=True):
        if kind != others:
            raise BadArgument(
                f"on={mine!r} is a {kind.simpleString()} and {other!r} a {others.simpleString()}: cast "
                "one of them, so that equal values have one type"
            )
    if left.isStreaming != right.isStreaming:
        raise WrongKindOfFrame(
            f"gate_join({name!r}): one side is a stream and the other is not; put a gate in front of "
            "the stream alone, every group of the other side is there anyway"
        )
    for unfit in ("policy", "keep", "identity"):
        if unfit in given:
            raise BadArgument(
                f"gate_join({name!r}): {unfit}= does not go with it: rows are drawn by the join's groups"
            )
    policies = [
        ConceptDriven(tuple(columns), allocation=allocation, least=least)
        for columns in (keys, keys.values())
    ]
    if left.isStreaming:
        sides = _on_streams(name, (left, right), policies, within, time, {"rate": rate, **given})
    else:
        sides = _on_batches(name, (left, right), keys, policies, rate, given)
    return sides[0], sides[1].withColumnRenamed(WEIGHT, f"{WEIGHT}_right")


def _names(on: str | Sequence[str]) -> tuple[str, ...]:
    return (on,) if isinstance(on, str) else tuple(on)


def _on_streams(
    name: str,
    sides: tuple[DataFrame, DataFrame],
    policies: list[ConceptDriven],
    within: Duration | None,
    time: str | tuple[str, str] | None,
    given: dict[str, Any],
) -> list[DataFrame]:
    if within is None or time is None:
        raise BadArgument(
            f"gate_join({name!r}) on streams needs within=, for how long a row waits for its partner, "
            "and time=, the event time column (or one for each side)"
        )
    seconds(within, "within")
    times = (time, time) if isinstance(time, str) else tuple(time)
    names = (f"{name}-left", f"{name}-right")
    found = []
    for side, policy, at, own, other in zip(sides, policies, times, names, reversed(names), strict=True):
        require_timestamp(side, at, "time")
        mine = replace(policy, time=at, meets=other, within=within)
        found.append(side.transform(gate(own, policy=mine, **given)))
    return found


def _on_batches(
    name: str,
    sides: tuple[DataFrame, DataFrame],
    keys: dict[str, str],
    policies: list[ConceptDriven],
    rate: float | None,
    given: dict[str, Any],
) -> list[DataFrame]:
    """Both histograms are complete: rows outside their intersection go, and leave their budget."""
    if rate is None:
        raise BadArgument(f"gate_join({name!r}) on batch DataFrames needs rate=, the share to keep")
    found = []
    columns = (list(keys), list(keys.values()))
    for i, (own, other) in enumerate((((0, 1)), ((1, 0)))):
        names = [f"_headgate_{n}" for n in range(len(keys))]
        pairs = zip(columns[other], names, strict=True)
        partners = sides[other].select(*[F.col(c).alias(n) for c, n in pairs]).distinct()
        equal = [F.col(c) == F.col(n) for c, n in zip(columns[own], names, strict=True)]
        inside = sides[own].join(partners, reduce(operator.and_, equal), "left_semi")
        rows, there = sides[own].count(), inside.count()
        share = min(1.0, rate * rows / there) if there else 1.0
        side = ("left", "right")[i]
        found.append(inside.transform(gate(f"{name}-{side}", rate=share, policy=policies[i], **given)))
    return found
