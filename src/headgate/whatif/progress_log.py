"""Saved `StreamingQueryProgress` as a recording: what every Spark query says of its batches anyway.

One JSON object a line, objects printed over several lines, an array, or one of Spark's own event logs,
in which each report is inside an event. With a gate in the query its meters tell what arrived and what
was kept; without one, rows are those that Spark read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headgate.errors import BadArgument
from headgate.whatif.recording import RecordedBatch, Recording

__all__ = ["ProgressLog", "objects_in"]

_GATE = re.compile(r"headgate\.([^#]+)#(\d+\.\d+)\.in")
#: Spark's rate source hands out whole seconds.
_WHOLE_SECONDS = re.compile(r"^RateStream")


def objects_in(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of a text, however they are laid out; a line torn at the end is passed over.

    >>> list(objects_in('{"a": 1}\\n{"a": 2}\\n{"a'))
    [{'a': 1}, {'a': 2}]
    """
    decoder, at, found = json.JSONDecoder(), 0, False
    while True:
        while at < len(text) and text[at] in " \t\r\n,[]\x1e\ufeff":
            at += 1
        if at >= len(text):
            return
        try:
            value, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            if found and "\n" not in text[at:].strip():
                return  # whoever wrote it was killed while writing
            line = text.count("\n", 0, error.pos) + 1
            raise BadArgument(
                f"line {line} is no JSON ({error.msg}): give one report a line, as in "
                "`query.lastProgress.json`, or a JSON array of them"
            ) from None
        if not isinstance(value, dict):
            raise BadArgument(
                f"{json.dumps(value)[:40]} is no report of a batch: give objects as in "
                "`query.lastProgress.json`"
            )
        found = True
        yield value


@dataclass(frozen=True)
class _Report:
    """What is used of one report."""

    query: str
    name: str
    batch: RecordedBatch
    gates: tuple[str, ...]
    whole_seconds: bool


class ProgressLog:
    """The reports of a file; `recording` chooses a query, and a gate if there are several."""

    def __init__(self, values: Iterable[Mapping[str, Any]], gate: str | None = None) -> None:
        self._gate = gate
        self._reports: list[_Report] = []
        others = 0
        for value in values:
            report = value.get("progress", value)
            if isinstance(report, str):  # as a listener's event has it in Python
                report = json.loads(report)
            if not (isinstance(report, Mapping) and "durationMs" in report and "timestamp" in report):
                others += 1
                continue
            found = self._read(report)
            if found is not None:
                self._reports.append(found)
        if not self._reports:
            raise BadArgument(
                f"no report of a batch among {others:,} JSON objects: save `query.lastProgress.json` or "
                "a listener's `event.progress.json`, one a line"
            )

    def _read(self, report: Mapping[str, Any]) -> _Report | None:
        try:
            return self._understood(report)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            shown = report.get("batchId", "?")
            raise BadArgument(
                f"the report of batch {shown} cannot be read ({error!r}): give StreamingQueryProgress "
                "as Spark writes it"
            ) from None

    def _understood(self, report: Mapping[str, Any]) -> _Report | None:
        parts = report["durationMs"]
        if "triggerExecution" not in parts:
            return None
        sources = report.get("sources") or []
        observed = report.get("observedMetrics") or {}
        gates = tuple(found[1] for name in observed if (found := _GATE.fullmatch(name)))
        arrived = int(
            report.get("numInputRows") or sum(int(s.get("numInputRows") or 0) for s in sources)
        )
        kept, delay_s, groups = arrived, None, {}
        started = datetime.fromisoformat(str(report["timestamp"])).timestamp()
        took = int(parts["triggerExecution"]) / 1000.0
        name = self._gate if self._gate in gates else gates[0] if len(set(gates)) == 1 else None
        if name is not None:
            front, behind = _meters(observed, name)
            arrived, kept = int(front.get("arrived") or 0), int(behind.get("kept") or 0)
            if front.get("oldest") is not None:
                delay_s = max(0.0, started + took - int(front["oldest"]) / 1e6)
            groups = {
                int(key.removeprefix("class_")): int(rows or 0)
                for key, rows in front.items()
                if key.startswith("class_")
            }
        batch = RecordedBatch(
            started, arrived, kept, took, int(report["batchId"]), delay_s, _backlog(sources), groups,
            str(report.get("runId") or ""),
        )  # fmt: skip
        whole = any(_WHOLE_SECONDS.match(str(s.get("description", ""))) for s in sources)
        return _Report(str(report.get("id", "")), str(report.get("name") or ""), batch, gates, whole)

    def recording(
        self, query: str | None, since: float | None, until: float | None, most: int
    ) -> Recording:
        """The batches of one query that began in this time."""
        chosen = self._chosen(query)
        gates = {gate for report in chosen for gate in report.gates}
        if self._gate is not None and self._gate not in gates:
            raise BadArgument(
                f"no gate {self._gate!r} in these reports; gates there: "
                f"{', '.join(sorted(gates)) or 'none'}"
            )
        if self._gate is None and len(gates) > 1:
            raise BadArgument(
                f"this query has several gates: give --gate with one of {', '.join(sorted(gates))}"
            )
        in_time = [
            report.batch
            for report in chosen
            if (since is None or report.batch.started_at >= since)
            and (until is None or report.batch.started_at <= until)
        ]
        keys = sorted({key for batch in in_time for key in batch.groups})
        remarks = [] if gates else ["rows are those that Spark read; a query that reads a batch twice "
                                    "counts them twice"]  # fmt: skip
        return Recording.of(
            in_time,
            most,
            labels={key: f"class {key}" for key in keys},
            first_groups=tuple(f"class {key}" for key in keys),
            granule_s=1.0 if any(report.whole_seconds for report in chosen) else 0.0,
            remarks=tuple(remarks),
        )

    def _chosen(self, query: str | None) -> list[_Report]:
        known = {report.query: report.name for report in self._reports}
        if query is None and len(known) == 1:
            return self._reports
        shown = ", ".join(f"{id_}" + (f" ({name})" if name else "") for id_, name in known.items())
        if query is None:
            raise BadArgument(f"these are reports of {len(known)} queries: give --query, one of {shown}")
        found = [r for r in self._reports if r.query.startswith(query) or r.name == query]
        if not found:
            raise BadArgument(f"no query {query!r} in these reports; queries there: {shown}")
        return found


def _meters(observed: Mapping[str, Any], gate: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    for name, values in observed.items():
        found = _GATE.fullmatch(name)
        if found is not None and found[1] == gate:
            behind = observed.get(f"headgate.{gate}#{found[2]}.out") or {}
            return _by_name(values or {}), _by_name(behind)
    return {}, {}


def _by_name(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Connect sends values beside their schema."""
    if set(values) != {"values", "schema"}:
        return values
    names = [field["name"] for field in values["schema"]["fields"]]
    return dict(zip(names, values["values"], strict=True))


def _backlog(sources: Iterable[Mapping[str, Any]]) -> int | None:
    """Offsets that Kafka has and did not hand out; None where no source says."""
    total: int | None = None
    for source in sources:
        latest, end = source.get("latestOffset"), source.get("endOffset")
        if not (isinstance(latest, Mapping) and isinstance(end, Mapping)):
            continue
        for topic, partitions in latest.items():
            if isinstance(partitions, Mapping):
                taken = end.get(topic) or {}
                held = (int(o) - int(taken.get(p, 0)) for p, o in partitions.items())
                total = (total or 0) + sum(max(0, rows) for rows in held)
    return total
