"""What a gate measures, as native aggregates; and how it is read back from Spark's progress."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from headgate.load import LoadSample
from headgate.runtime import BatchReport

__all__ = ["PREFIX", "before_gate", "behind_gate", "by_name", "metric_names", "reports_in", "sample_of"]

#: Every metric of Headgate's begins so.
PREFIX = "headgate."


def metric_names(gate: str) -> tuple[str, str]:
    """The names under which Spark reports what is in front of the gate, and behind it."""
    return f"{PREFIX}{gate}.in", f"{PREFIX}{gate}.out"


def before_gate(arrival: str | None, classes: list[Column]) -> list[Column]:
    """Counted in front of the gate: rows, the oldest arrival, the rows of each class.

    In front of everything that the gate does, and not between its decision and its filter: there it
    would cut Spark's generated code in two, and every row would be written out once more.
    """
    columns = [F.count(F.lit(1)).alias("arrived")]
    if arrival is not None:
        columns.append(F.unix_micros(F.min(F.col(arrival))).alias("oldest"))
    columns += [F.count_if(c).alias(f"class_{i}") for i, c in enumerate(classes, start=1)]
    return columns


def behind_gate(weight: Column | None) -> list[Column]:
    """Counted behind the gate: the rows that really passed, and the one weight that all of them have.

    `weight` is None where rows have different weights; a lone one tells which plan they met.
    """
    columns = [F.count(F.lit(1)).alias("kept")]
    if weight is not None:
        columns.append(F.max(weight).alias("weight"))
    return columns


def reports_in(progress: Mapping[str, Any]) -> dict[str, BatchReport]:
    """The report of every gate in one progress event, by gate name.

    `progress` is the event's JSON. A trigger that ran no batch reports no metrics and is passed over.
    """
    metrics: Mapping[str, Any] = progress.get("observedMetrics") or {}
    found: dict[str, BatchReport] = {}
    for name, values in metrics.items():
        if not (name.startswith(PREFIX) and name.endswith(".in")) or not values:
            continue
        gate = name[len(PREFIX) : -len(".in")]
        behind = metrics.get(f"{PREFIX}{gate}.out")
        if behind is None:
            continue
        found[gate] = _report(progress, by_name(values), by_name(behind))
    return found


def by_name(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Classic sessions report a metric as an object; Connect sends values beside their schema."""
    if set(values) != {"values", "schema"}:
        return values
    names = [field["name"] for field in values["schema"]["fields"]]
    return dict(zip(names, values["values"], strict=True))


def _report(
    progress: Mapping[str, Any], values: Mapping[str, Any], behind: Mapping[str, Any]
) -> BatchReport:
    sample, parts, offsets = sample_of(progress, values, kept=int(behind["kept"]))
    weight = behind.get("weight")
    return BatchReport(
        query=str(progress["id"]),
        sample=sample,
        weight=None if weight is None else float(weight),
        counts={
            int(k.removeprefix("class_")): int(v) for k, v in values.items() if k.startswith("class_")
        },
        parts_ms=parts,
        offsets=offsets,
    )


def sample_of(
    progress: Mapping[str, Any], values: Mapping[str, Any], kept: int
) -> tuple[LoadSample, dict[str, int], list[dict[str, Any]]]:
    """The batch as a sample, the parts of its duration in milliseconds, and its offsets."""
    started = datetime.fromisoformat(str(progress["timestamp"])).timestamp()
    parts = {k: int(v) for k, v in progress["durationMs"].items()}
    sources = progress.get("sources") or []
    oldest = values.get("oldest")
    sample = LoadSample(
        batch_id=int(progress["batchId"]),
        started_at=started,
        duration_s=parts.get("triggerExecution", 0) / 1000.0,
        arrived=int(values["arrived"]),
        kept=kept,
        oldest_arrival=None if oldest is None else int(oldest) / 1e6,
        backlog=_backlog(sources),
    )
    offsets = [{k: s.get(k) for k in ("description", "startOffset", "endOffset")} for s in sources]
    return sample, parts, offsets


def _backlog(sources: list[Mapping[str, Any]]) -> int | None:
    """Offsets that the sources have and did not hand out; None where none of them says."""
    total: int | None = None
    for source in sources:
        latest, end = source.get("latestOffset"), source.get("endOffset")
        if not (isinstance(latest, dict) and isinstance(end, dict)):
            continue
        for topic, partitions in latest.items():
            if not isinstance(partitions, dict):
                continue
            taken = end.get(topic, {})
            for partition, offset in partitions.items():
                total = (total or 0) + max(0, int(offset) - int(taken.get(partition, 0)))
    return total
