"""The ledger of a gate as a recording."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headgate.settings import GateSettings
from headgate.store.ledger.record import Record
from headgate.whatif.recording import RecordedBatch, Recording

__all__ = ["recorded_by_ledger", "target_that_held"]


def recorded_by_ledger(records: Iterable[Record], most: int) -> Recording:
    """Records of one gate in one query, with the value classes that its policy counts.

    Doubtful records are left out: their counts cannot be true. So are batches that were counted again
    after their report was lost: nobody knows how long they took.
    """
    records = list(records)
    sure = [r for r in records if not r.evidence.doubt]
    trusted = [r for r in sure if r.duration_s > 0.0]
    labels: dict[int, str] = {}
    for record in reversed(trusted):
        keys = [int(key) for key in record.found.groups if key.isdecimal()]
        labels |= {
            key: record.plan.labels.get(key) or f"class {key}" for key in keys if key not in labels
        }
    labels = dict(sorted(labels.items()))
    remarks = []
    if len(sure) < len(records):
        remarks.append(f"{len(records) - len(sure):,} doubtful batches are left out")
    if len(trusted) < len(sure):
        count = len(sure) - len(trusted)
        remarks.append(f"{count:,} batches that were counted again, without a duration, are left out")
    if any(r.plan.exceptions for r in trusted) and not labels:
        remarks.append(
            "the gate's groups are not counted in the ledger: one rate for all rows stands in for them"
        )
    if any(r.plan.draw is not None for r in trusted):
        remarks.append(
            "the gate draws rows by the groups of their own batch, which virtual time does not model: "
            "how much is shed is foretold, and not of which groups"
        )
    sources = [str(o.get("description", "")) for r in trusted[:1] for o in r.offsets]
    return Recording.of(
        (_batch(record) for record in trusted),
        most,
        kind="ledger",
        labels=labels,
        first_groups=tuple(labels.values()),
        granule_s=1.0 if any(s.startswith("RateStream") for s in sources) else 0.0,
        remarks=tuple(remarks),
    )


def _batch(record: Record) -> RecordedBatch:
    groups = {int(k): rows for k, rows in record.found.groups.items() if k.isdecimal()}
    return RecordedBatch(
        record.started_at, record.arrived, record.kept, record.duration_s, record.batch, record.delay_s,
        record.backlog, groups,
    )  # fmt: skip


def target_that_held(records: Sequence[Record], now: GateSettings) -> tuple[GateSettings | None, str]:
    """The settings with the target of these batches' time; None, and why, where it was changed.

    Records of earlier versions do not say it: then it is the present one.
    """
    known = dict.fromkeys(
        (r.target.target_of, r.target.target_s) for r in records if r.target.target_of and r.arrived > 0
    )
    if len(known) > 1:
        told = ", then ".join("a share" if s is None else f"{s:g} s" for _, s in known)
        return None, f"the target was changed while these batches ran ({told})"
    for of, target_s in known:
        if target_s is None:
            return None, "a share of rows was asked for, and no target, while these batches ran"
        return now.changed({"delay" if of == "delay" else "hold": target_s}), ""
    return now, ""
