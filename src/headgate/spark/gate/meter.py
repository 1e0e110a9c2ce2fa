"""What a gate measures, as native aggregates; and how it is read back from Spark's progress."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from headgate.core.groups import Strata
from headgate.core.load import LoadSample, SicFlow
from headgate.core.witness import Witness
from headgate.run.gate_report import BatchReport, Drawn
from headgate.spark.backfill.offsets import rows_between
from headgate.spark.gate.fingerprint import fingerprint_columns, fingerprint_in
from headgate.spark.groups.task import ABOUT
from headgate.spark.loop.kinds import kind_of_report
from headgate.spark.loop.numbered_metrics import metric_named, metrics_of, read_metric
from headgate.spark.versions.aggregates import heaviest
from headgate.store.gate_files.gate_call import UNKNOWN_CALL, GateCall

__all__ = [
    "before_gate",
    "behind_draw",
    "behind_gate",
    "by_name",
    "finite",
    "gate_of",
    "metric_names",
    "reports_in",
    "sample_of",
    "witness_in",
]


def metric_names(gate: str, call: GateCall = UNKNOWN_CALL) -> tuple[str, str, str]:
    """The names under which Spark reports what is in front of a gate, behind it, and what its tasks saw.

    >>> metric_names("rides", GateCall(number=7, spec=3))[0]
    'headgate.rides#3.7.in'
    """
    inside, outside, seen = (metric_named(gate, what, call) for what in ("in", "out", "concept"))
    return inside, outside, seen


def gate_of(metric: str) -> str | None:
    """The gate that this metric is in front of, if it is one of a gate's."""
    found = read_metric(metric)
    return found.name if found is not None and found.what == "in" else None


#: The heaviest groups that a batch reports, and the counters that find them.
_HEAVY, _COUNTERS = 200, 10_000
#: The groups that people named of which a batch reports the rows.
_NAMED = 20
_COUNTED = re.compile(r"(?:class|group)_(-?\d+)")
#: The groups without a row that a batch names.
_SHOWN = 20


def before_gate(
    arrival: str | None,
    classes: list[Column],
    group: Column | None = None,
    sic: Column | None = None,
    *,
    named: Sequence[int] = (),
    heavy: bool = False,
) -> list[Column]:
    """Counted in front of the gate: rows, the oldest arrival, the rows of each class, SIC.

    By `group`, a row's key: the rows of each group that people `named` (of the first twenty, since each
    is a comparison for every row), and the `heavy` groups.

    In front of everything that the gate does, and not between its decision and its filter: there it
    would cut Spark's generated code in two, and every row would be written out once more.
    """
    columns = [F.count(F.lit(1)).alias("arrived")]
    if arrival is not None:
        columns.append(F.unix_micros(F.min(F.col(arrival))).alias("oldest"))
    columns += [F.count_if(c).alias(f"class_{i}") for i, c in enumerate(classes, start=1)]
    if group is not None:
        keys = [*dict.fromkeys(named)][:_NAMED]
        columns += [F.count_if(group == F.lit(key)).alias(f"group_{key}") for key in keys]
    if group is not None and heavy:
        columns.append(heaviest(group, _HEAVY, _COUNTERS).alias("heavy"))
    if sic is not None:
        columns.append(F.sum(sic).alias("sic"))
    return columns


def behind_gate(
    weight: Column | None, sic: Column | None = None, hashed: Column | None = None
) -> list[Column]:
    """Counted behind the gate: the rows that really passed, which, and the one weight that all have.

    `weight` is None where rows have different weights; a lone one tells which plan they met. `hashed` is
    the hash that decided: the fingerprint of the kept rows is made of it.
    """
    columns = [F.count(F.lit(1)).alias("kept")]
    if hashed is not None:
        columns += fingerprint_columns(hashed)
    if weight is not None:
        columns.append(F.max(weight).alias("weight"))
    if sic is not None:
        columns.append(F.sum(sic).alias("sic"))
    return columns


def behind_draw(about: Column, yielded: Column | None) -> list[Column]:
    """The tasks' reports, one for each partition; the other rows have none.

    `yielded` is the label of a row's group if that keeps none of its rows, else null.
    """
    columns = [F.collect_list(about).alias("about")]
    if yielded is not None:
        columns.append(heaviest(yielded, _SHOWN + 1, 50 * _SHOWN).alias("yielded"))
    return columns


def _yielded_in(values: Mapping[str, Any] | None) -> dict[str, int]:
    """The largest groups that kept no row, with their rows."""
    found = (by_name(values).get("yielded") if values else None) or []
    pairs = [by_name(g) for g in found]
    named = [(str(g["item"]), int(g["count"])) for g in pairs if g["item"] is not None]
    return dict(named[:_SHOWN])


def _drawn_in(values: Mapping[str, Any] | None) -> Drawn | None:
    """What the tasks saw, over all of them; None where none drew."""
    reports = [list(r) for r in (by_name(values).get("about") if values else None) or []]
    if not reports:
        return None
    sums = [math.fsum(column) for column in zip(*reports, strict=True)]
    count, rows, yielded, spread, without_plan = sums[: len(ABOUT)]
    return Drawn(
        Strata(int(count), tuple(sums[len(ABOUT) :]), spread / rows if rows else 0.0),
        yielded=int(yielded),
        yielded_groups=_yielded_in(values),
        tasks_without_plan=int(without_plan),
    )


@kind_of_report
def reports_in(progress: Mapping[str, Any]) -> dict[str, BatchReport]:
    """The report of every gate in one progress event, by gate name.

    `progress` is the event's JSON. A trigger that ran no batch reports no metrics and is passed over.
    """
    observed: Mapping[str, Any] = progress.get("observedMetrics") or {}
    found: dict[str, BatchReport] = {}
    for metric, values in metrics_of(progress, "in"):
        behind, drawn = observed.get(metric.beside("out")), observed.get(metric.beside("concept"))
        if behind is None:
            continue
        report = _report(progress, by_name(values), by_name(behind), drawn)
        found[metric.name] = replace(report, spec=metric.call.spec, metric=str(metric))
    return found


def by_name(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Classic sessions report a metric as an object; Connect sends values beside their schema."""
    if set(values) != {"values", "schema"}:
        return values
    names = [field["name"] for field in values["schema"]["fields"]]
    return dict(zip(names, values["values"], strict=True))


def _report(
    progress: Mapping[str, Any],
    values: Mapping[str, Any],
    behind: Mapping[str, Any],
    drawn: Mapping[str, Any] | None,
) -> BatchReport:
    sample, parts, offsets = sample_of(progress, values, kept=int(behind["kept"]))
    if "sic" in behind:
        sample = replace(sample, sic=SicFlow(finite(values, "sic"), finite(behind, "sic")))
    weight = behind.get("weight")
    return BatchReport(
        query=str(progress["id"]),
        sample=sample,
        weight=None if weight is None else float(weight),
        counts=_counts_in(values),
        parts_ms=parts,
        offsets=offsets,
        drawn=_drawn_in(drawn),
        present=_bytes(values.get("present")),
        latest_us=values.get("latest"),
        fingerprint=fingerprint_in(behind),
        witness=witness_in(progress),
    )


#: Sinks that read a batch once, from beginning to end. ``foreachBatch`` runs a person's code, and
#: other people's sinks may look at a batch before they write it.
_ONCE = re.compile("FileSink|DeltaSink|MemorySink|NoopTable|ConsoleTable|KafkaTable|ForeachWriterTable")
#: Sinks that pass over a batch that they have: it is not read when it runs again.
_KNOWS_BATCHES = re.compile("FileSink|DeltaSink")


def witness_in(progress: Mapping[str, Any]) -> Witness:
    """What the sources say that they handed out, and whether the sink may have read it in part.

    A batch that several sources fed is not counted by any of them alone.
    """
    sources = progress.get("sources") or []
    sink = str((progress.get("sink") or {}).get("description", ""))
    rereads = not _ONCE.search(sink)
    operators = progress.get("stateOperators") or []
    limits = sum(str(o.get("operatorName", "")).lower().endswith("limit") for o in operators)
    knows = _KNOWS_BATCHES.search(sink) is not None
    if len(sources) != 1:
        return Witness(rereads=rereads, passes_over=knows, limits=limits)
    (source,) = sources
    given = source.get("numInputRows", progress.get("numInputRows"))
    handed_out = None if given is None else int(given)
    return Witness(handed_out, rows_between(source), rereads, passes_over=knows, limits=limits)


def finite(values: Mapping[str, Any], name: str) -> float:
    """A sum over no rows is null, and one that is no number says nothing."""
    value = values.get(name)
    number = 0.0 if value is None else float(value)
    return number if math.isfinite(number) else 0.0


def _bytes(value: Any) -> bytes | None:
    """Spark's JSON has binary values in base 64."""
    return base64.b64decode(value) if isinstance(value, str) else value


def _counts_in(values: Mapping[str, Any]) -> dict[int, int]:
    """Rows by class, by named group, or by heavy group."""
    pairs = [by_name(g) for g in values.get("heavy") or []]
    heavy = {int(g["item"]): int(g["count"]) for g in pairs if g["item"] is not None}
    counted = (_COUNTED.fullmatch(name) for name in values)
    return heavy | {int(found[1]): int(values[found[0]] or 0) for found in counted if found is not None}


#: What Spark times of a batch that it plans; one that it runs again after a restart has none of it.
_PLANNING = frozenset({"latestOffset", "getOffset", "walCommit"})


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
        stream=str(progress.get("id", "")),
        planned_before="addBatch" in parts and not parts.keys() & _PLANNING,
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
