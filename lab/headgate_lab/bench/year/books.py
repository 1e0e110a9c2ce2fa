"""Long ledgers, made in seconds: segments written as they are after years of batches."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from headgate.core.plan import Plan
from headgate.store.durable import make_folder
from headgate.store.ledger.carried import Carried
from headgate.store.ledger.records import Record
from headgate.store.ledger.segments import SEGMENT, Part, Segments, Summary
from headgate.store.ledger.totals import Totals

__all__ = ["write_books"]

_ARRIVED, _KEPT = 1000, 400


def write_books(
    control: Path, gate: str, query: str, batches: int, *, began: float, every_s: float = 1.0
) -> None:
    """A ledger of so many batches, one every `every_s` from `began` on; all but the last segment closed.

    Every batch had 1,000 rows and kept 400, under a plan that keeps 40 %.
    """
    record = Record(
        gate, query, 0, _ARRIVED, _KEPT, _ARRIVED - _KEPT, Plan(0.4), shape="0" * 12, state="shedding",
        why="1000 rows arrive, 400 fit", duration_s=0.9, parts_ms={"addBatch": 850, "latestOffset": 3},
        offsets=[{"description": "KafkaV2[Subscribe[rides]]", "startOffset": {"rides": {"0": 1}},
                  "endOffset": {"rides": {"0": 1001}}}],
    )  # fmt: skip
    text = json.dumps(record.to_json(), separators=(",", ":")).replace("%", "%%")
    text = text.replace('"batch":0,', '"batch":%d,').replace('"started_at":0.0,', '"started_at":%.1f,')
    segments = Segments(control / "gates" / gate / "queries" / query / "ledger")
    make_folder(segments.folder)
    carried = Carried()
    for number in range((batches + SEGMENT - 1) // SEGMENT):
        first, end = number * SEGMENT, min(batches, (number + 1) * SEGMENT)
        lines = "\n".join(text % (b, began + b * every_s) for b in range(first, end)) + "\n"
        if end == batches:
            segments.plain(number).write_text(lines)
            break
        part, own = Part(number, number + 1, "000000"), _totals(first, end, began, every_s)
        summary = Summary(own, own, began + end * every_s)
        head = json.dumps(summary.to_json(), separators=(",", ":")) + "\n"
        with open(segments.folder / part.closed, "wb") as file:
            file.write(gzip.compress(head.encode(), 1) + gzip.compress(lines.encode(), 1))
        carried = Carried(part.number, carried.closed.plus(own))
    carried.save(segments.folder)


def _totals(first: int, end: int, began: float, every_s: float) -> Totals:
    count = end - first
    rows = {"arrived": count * _ARRIVED, "kept": count * _KEPT, "shed": count * (_ARRIVED - _KEPT)}
    starts = {"first_at": began + first * every_s, "last_at": began + (end - 1) * every_s}
    kinds, origins = {"gate": count}, {"plan": count}
    ends = {"first_batch": first, "last_batch": end - 1}
    return Totals(batches=count, kinds=kinds, origins=origins, **ends, **rows, **starts)  # type: ignore[arg-type]
