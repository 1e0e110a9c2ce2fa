"""What a join says of each batch, as native aggregates; and how it is read back from Spark's progress.

The operator emits one row for each shard and one for each shard and window beside its results, so the
meter sums some dozen rows.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from headgate.control.allowance import Spent
from headgate.joins.choice import completeness
from headgate.run.report import Report
from headgate.spark.gate.meter import by_name, sample_of
from headgate.spark.join.left_out.drawing import RowsTold
from headgate.spark.join.left_out.items_told import ItemsTold
from headgate.spark.loop.kinds import kind_of_report
from headgate.spark.loop.numbered_metrics import metric_named, metrics_of
from headgate.store.gate_files.gate_call import GateCall

__all__ = [
    "COUNTS",
    "FILE_REPORT",
    "ITEMS_REPORT",
    "OUTPUT",
    "PAIRS",
    "ROWS_REPORT",
    "SHARD_REPORT",
    "SHOWN_WINDOWS",
    "WINDOW_REPORT",
    "JoinReport",
    "WindowShare",
    "behind_join",
    "join_metric_name",
    "join_reports_in",
    "shard_report",
]

#: What a row of the operator is.
PAIRS, SHARD_REPORT, WINDOW_REPORT, COUNTS, ROWS_REPORT, ITEMS_REPORT, FILE_REPORT = range(1, 8)
#: The windows that a shard reports and a record names, the latest ones.
SHOWN_WINDOWS = 12
#: The operator's rows. Of `numbers` see `_SUMMED`, `_OF_BUSIEST` and `WindowShare`.
OUTPUT = "what int, bucket bigint, numbers array<double>, payload binary"
#: The numbers in the report of a shard, in their order: sums over shards, and the busiest shard's own.
_SUMMED = (
    "left", "right", "late", "wanted", "made", "found", "missed", "variance", "utility",
    "missed_utility", "utility_variance", "blocks", "state_bytes", "tasks_without_plan",
    "probed_left", "probed_right", "shed_left", "shed_right", "left_out",
)  # fmt: skip
_OF_BUSIEST = ("compare_s", "emit_s", "comparisons", "results", "fixed_s")


@dataclass(frozen=True)
class WindowShare:
    """How complete the result of one event-time window is, as far as this batch goes."""

    #: Its number: event time in basic windows since 1970.
    bucket: int
    found: float
    missed: float
    variance: float

    @property
    def share(self) -> tuple[float, float]:
        """Estimated share of the full join's pairs, and its standard error."""
        return completeness(self.found, self.missed, self.variance)


@dataclass(frozen=True, kw_only=True)
class JoinReport(Report):
    """What Spark reported of one batch of one join."""

    spent: Spent
    sums: Mapping[str, float]
    windows: tuple[WindowShare, ...] = ()
    #: What packing tasks tell of rows that they drew, by side; and shards of the items that they hold.
    told: Mapping[int, RowsTold] = field(default_factory=dict)
    items: tuple[ItemsTold, ...] = ()
    #: Files of rows that were left out, where these are set aside.
    files: tuple[str, ...] = ()

    @property
    def share(self) -> tuple[float, float]:
        """Estimated share of the full join's pairs that this batch found, and its standard error."""
        return completeness(self.sums["found"], self.sums["missed"], self.sums["variance"])

    @property
    def utility_share(self) -> tuple[float, float]:
        """The same of the pairs' utility."""
        return completeness(
            self.sums["utility"], self.sums["missed_utility"], self.sums["utility_variance"]
        )


def join_metric_name(name: str, call: GateCall) -> str:
    """The name under which Spark reports a join."""
    return metric_named(name, "joined", call)


def behind_join() -> list[Column]:
    """Counted behind the operator: the reports of its shards and windows."""
    what, numbers = F.col("what"), F.col("numbers")
    return [
        F.collect_list(F.when(what == SHARD_REPORT, numbers)).alias("shards"),
        F.collect_list(
            F.when(what == WINDOW_REPORT, F.concat(F.array(F.col("bucket").cast("double")), numbers))
        ).alias("windows"),
        F.collect_list(
            F.when(what == ROWS_REPORT, F.concat(F.array(F.col("bucket").cast("double")), numbers))
        ).alias("rows"),
        F.collect_list(F.when(what == ITEMS_REPORT, F.base64(F.col("payload")))).alias("items"),
        F.collect_list(F.when(what == FILE_REPORT, F.col("payload").cast("string"))).alias("files"),
    ]


@kind_of_report
def join_reports_in(progress: Mapping[str, Any]) -> dict[str, JoinReport]:
    """The report of every join in one progress event, by name."""
    found: dict[str, JoinReport] = {}
    for metric, values in metrics_of(progress, "joined"):
        report = _report(progress, by_name(values))
        if report is not None:
            found[metric.name] = replace(report, spec=metric.call.spec, metric=str(metric))
    return found


def _report(progress: Mapping[str, Any], values: Mapping[str, Any]) -> JoinReport | None:
    shards = [[float(x) for x in shard] for shard in values.get("shards") or []]
    if not shards:
        return None
    n = len(_SUMMED)
    sums = {name: math.fsum(s[i] for s in shards) for i, name in enumerate(_SUMMED)}
    busiest = max(shards, key=lambda s: s[n] + s[n + 1])
    own = dict(zip(_OF_BUSIEST, busiest[n:], strict=True))
    counts = {"arrived": round(sums["wanted"])}
    sample, parts, offsets = sample_of(progress, counts, kept=round(sums["made"]))
    rows = sums["left"] + sums["right"] + sums["late"]
    spent = Spent(
        duration_s=sample.duration_s,
        compare_s=own["compare_s"],
        comparisons=own["comparisons"],
        emit_s=own["emit_s"],
        shard_results=own["results"],
        results=sums["found"],
        kept_rows=rows,
        arrived_rows=rows + sums["shed_left"] + sums["shed_right"],
    )
    return JoinReport(
        query=str(progress["id"]),
        sample=sample,
        spent=spent,
        sums={**sums, "fixed_s": own["fixed_s"]},
        windows=_windows(values.get("windows") or []),
        told={int(side): RowsTold.from_numbers(rest) for side, *rest in values.get("rows") or []},
        items=tuple(ItemsTold.from_bytes(base64.b64decode(t)) for t in values.get("items") or []),
        files=tuple(str(name) for name in values.get("files") or ()),
        parts_ms=parts,
        offsets=offsets,
    )


def _windows(rows: list[list[float]]) -> tuple[WindowShare, ...]:
    """A window's numbers are spread over the shards."""
    sums: dict[int, list[float]] = {}
    for bucket, *numbers in rows:
        held = sums.setdefault(int(bucket), [0.0, 0.0, 0.0])
        for i, number in enumerate(numbers[:3]):
            held[i] += float(number)
    return tuple(WindowShare(bucket, *held) for bucket, held in sorted(sums.items()))


def shard_report(sums: Mapping[str, float], own: Mapping[str, float]) -> list[float]:
    """A shard's numbers in the order in which the meter reads them."""
    return [float(sums.get(name, 0.0)) for name in _SUMMED] + [float(own[name]) for name in _OF_BUSIEST]
