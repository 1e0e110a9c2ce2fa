"""The ledger: one record a batch and gate, saying what arrived, what was kept, what was shed.

Records are appended to text files of one JSON object a line. A process killed while it appends
leaves at most one torn last line; the reader passes over it, and the next append begins a new line.
A batch recorded twice (it was replayed, or its progress came by two ways) counts once: the last
record wins, and `verify` reports it if the two disagree.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from headgate.plan import Plan

__all__ = ["Ledger", "Record", "gates_in", "queries_of"]

_VERSION = 1
#: Batches in one file.
_SEGMENT = 5000


@dataclass(frozen=True)
class Record:
    """One batch through one gate.

    `arrived` is counted in front of the gate and `kept` behind it, by meters that know nothing of
    each other or of the plan; `shed` is what came and did not pass. A guard counts what it sheds by
    itself, row by row and reason by reason. A join keeps all rows and sheds comparisons: those that
    the full join makes, those it made, those it skipped.
    """

    gate: str
    query: str
    batch: int
    arrived: int
    kept: int
    shed: int
    plan: Plan
    #: The digest of the `GateShape` that the rows met: which columns, which seed.
    shape: str = ""
    #: Why this plan: plan, start, fail-open, fail-closed, or unpinned.
    origin: str = "plan"
    mode: str = "shed"
    #: In monitor mode, the rows that would have been shed.
    would_shed: int = 0
    state: str = ""
    why: str = ""
    started_at: float = 0.0
    duration_s: float = 0.0
    parts_ms: dict[str, int] = field(default_factory=dict)
    delay_s: float | None = None
    backlog: int | None = None
    #: Where the batch's rows are in the sources: what a backfill reads again.
    offsets: list[dict[str, Any]] = field(default_factory=list)
    #: Rows by value class; the largest groups that kept no row; a guard's dropped rows by reason, and
    #: the failed among the kept.
    groups: dict[str, int] = field(default_factory=dict)
    #: Whose record it is: a gate's (follows a plan), a guard's (follows the clock), or a join's.
    kind: str = "gate"
    #: What else was measured, by name.
    measures: dict[str, float] = field(default_factory=dict)
    #: Of a join, for each of the latest windows: its start, the pairs found, the estimate of those
    #: missed, the share found and that share's standard error.
    windows: list[list[float]] = field(default_factory=list)
    #: Of the kept rows, whatever their order (`headgate.spark.fingerprint`); empty where unknown.
    fingerprint: str = ""
    #: Who confirms `arrived` (`headgate.witness`), and why it cannot be trusted, in words.
    witness: str = ""
    doubt: str = ""
    #: Rows that the sources handed out, over all passes, as far as they say.
    handed_out: int | None = None
    #: Whether the counts are from reading the batch again, after the first ones were lost or doubtful.
    repaired: bool = False

    @property
    def balanced(self) -> bool:
        """Whether no row is unaccounted for, and none came from nowhere.

        Under a plan that keeps everything (or nothing) this is exact: the two meters must agree.
        """
        if self.arrived != self.kept + self.shed or self.kept < 0 or self.shed < 0:
            return False
        if self.kind in ("guard", "join"):
            return True
        if self.plan.keeps_everything:
            return self.shed == 0
        return self.kept == 0 if self.plan.keeps_nothing else True

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        value = asdict(self)
        value["plan"] = self.plan.to_json()
        value["digest"] = self.plan.digest
        return {"v": _VERSION, **value}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Record:
        """What `to_json` wrote."""
        names = {f.name for f in fields(cls)}
        known = {k: v for k, v in value.items() if k in names}
        return cls(**{**known, "plan": Plan.from_json(value["plan"])})


def gates_in(control: Path) -> list[str]:
    """Names of the gates that have used this control folder."""
    folder = control / "gates"
    return sorted(p.name for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else []


def queries_of(control: Path, gate: str) -> list[str]:
    """Ids of the queries that have run behind this gate."""
    folder = control / "gates" / gate / "queries"
    return sorted(p.name for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else []


class Ledger:
    """The records of one gate in one query."""

    def __init__(self, control: Path, gate: str, query: str) -> None:
        self.gate, self.query = gate, query
        self._folder = control / "gates" / gate / "queries" / query / "ledger"

    def append(self, record: Record) -> None:
        """Add a record; it is on disk when this returns."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{record.batch // _SEGMENT:08d}.jsonl"
        line = json.dumps(record.to_json(), separators=(",", ":")) + "\n"
        with open(path, "a+b") as file:
            end = file.seek(0, os.SEEK_END)
            if end > 0:
                file.seek(end - 1)
                if file.read(1) != b"\n":
                    line = "\n" + line
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())

    def lines(self) -> Iterator[Record]:
        """Every whole record, in the order written."""
        if not self._folder.is_dir():
            return
        for path in sorted(self._folder.glob("*.jsonl")):
            with open(path, encoding="utf-8", errors="replace") as file:
                for line in file:
                    try:
                        value = json.loads(line)
                    except json.JSONDecodeError:
                        continue  # torn by a kill; the batch is recorded again or shows as unsettled
                    yield Record.from_json(value)

    def records(self) -> dict[int, Record]:
        """The last record of each batch, by batch."""
        return dict(sorted({r.batch: r for r in self.lines()}.items()))
