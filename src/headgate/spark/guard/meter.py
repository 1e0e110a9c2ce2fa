"""What a guard measures, as native aggregates; and how it is read back from Spark's progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from headgate.run.report import Report
from headgate.spark.gate.meter import by_name, sample_of
from headgate.spark.gate.shape import quoted
from headgate.spark.guard.output import COST, FILE, OUTCOME, OUTCOMES, QUEUE, ROWS
from headgate.spark.loop.kinds import kind_of_report
from headgate.spark.loop.numbered_metrics import metric_named, metrics_of
from headgate.store.gate_files.gate_call import GateCall

__all__ = ["GuardReport", "before_guard", "behind_guard", "guard_metric_names", "guard_reports_in"]


@dataclass(frozen=True, kw_only=True)
class GuardReport(Report):
    """What Spark reported of one batch at one guard."""

    #: Rows by what became of them: kept, failed, and each reason for a drop.
    outcomes: Mapping[str, int]
    #: Milliseconds: the mean and the longest wait, and the mean cost, of the rows executed.
    queue_ms: float = 0.0
    longest_queue_ms: float = 0.0
    cost_ms: float = 0.0
    #: Files of dropped rows, where they are set aside.
    files: tuple[str, ...] = ()


def guard_metric_names(guard: str, call: GateCall) -> tuple[str, str]:
    """The names under which Spark reports what is in front of the guard, and behind it."""
    return metric_named(guard, "arrived", call), metric_named(guard, "guarded", call)


def before_guard(arrival: str | None) -> list[Column]:
    """Counted in front of the worker: rows, and the oldest arrival."""
    columns = [F.count(F.lit(1)).alias("arrived")]
    if arrival is not None:
        columns.append(F.unix_micros(F.min(quoted(arrival))).alias("oldest"))
    return columns


def behind_guard(dropped: bool = False) -> list[Column]:
    """Counted behind the worker, before dropped rows are taken out; with `dropped` their files, too."""
    outcome = F.col(OUTCOME)
    columns = [
        F.coalesce(F.sum(F.when(outcome == number, F.col(ROWS))), F.lit(0)).alias(name)
        for number, name in enumerate(OUTCOMES)
    ]
    columns += [
        F.avg(QUEUE).alias("queue_ms"),
        F.max(QUEUE).alias("longest_queue_ms"),
        F.avg(COST).alias("cost_ms"),
    ]
    return [*columns, F.collect_list(FILE).alias("files")] if dropped else columns


@kind_of_report
def guard_reports_in(progress: Mapping[str, Any]) -> dict[str, GuardReport]:
    """The report of every guard in one progress event, by name."""
    observed: Mapping[str, Any] = progress.get("observedMetrics") or {}
    found: dict[str, GuardReport] = {}
    for metric, values in metrics_of(progress, "arrived"):
        behind = observed.get(metric.beside("guarded"))
        if behind:
            report = _report(progress, by_name(values), by_name(behind))
            found[metric.name] = replace(report, spec=metric.call.spec, metric=str(metric))
    return found


def _report(
    progress: Mapping[str, Any], values: Mapping[str, Any], behind: Mapping[str, Any]
) -> GuardReport:
    outcomes = {name: int(behind[name]) for name in OUTCOMES}
    sample, parts, offsets = sample_of(progress, values, kept=outcomes["kept"] + outcomes["failed"])
    return GuardReport(
        query=str(progress["id"]),
        run=str(progress["runId"]),
        sample=sample,
        outcomes=outcomes,
        queue_ms=float(behind["queue_ms"] or 0.0),
        longest_queue_ms=float(behind["longest_queue_ms"] or 0.0),
        cost_ms=float(behind["cost_ms"] or 0.0),
        files=tuple(str(name) for name in behind.get("files") or ()),
        parts_ms=parts,
        offsets=offsets,
    )
