"""What `headgate whatif` is given: saved reports, a control store, or a trace; told apart by looking."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from headgate.cli.arguments.folders import GateQuery, gate_queries
from headgate.errors import BadArgument, MissingExtra
from headgate.settings import GateSettings
from headgate.store.folder import used_control_folder
from headgate.store.ledger.records import Ledger, Record
from headgate.store.places.place import Place
from headgate.store.settings_file import SettingsFile
from headgate.whatif.ledger_log import recorded_by_ledger, target_that_held
from headgate.whatif.progress_log import ProgressLog, objects_in
from headgate.whatif.recording import Recording
from headgate.whatif.trace import recorded_by_trace

__all__ = ["Selection", "WhatIfInput", "read_input"]

#: More batches take minutes, and say hardly more.
MOST_BATCHES = 50_000


@dataclass(frozen=True)
class Selection:
    """Which batches of it are asked about."""

    gate: str | None = None
    query: str | None = None
    since: float | None = None
    until: float | None = None
    last: int | None = None

    @property
    def most(self) -> int:
        """How many batches at most."""
        return MOST_BATCHES if self.last is None else min(self.last, MOST_BATCHES)


@dataclass(frozen=True)
class WhatIfInput:
    """A recording, and what is known besides."""

    recording: Recording
    #: What the gate has as settings, from a control store.
    settings: GateSettings | None = None
    #: Whether these settings shed the rows that were shed.
    shed_by_them: bool = False
    gate: str | None = None
    query: str | None = None


def read_input(given: str, which: Selection, first_groups: tuple[str, ...]) -> WhatIfInput:
    """Whatever was given; refuses what is none of the three."""
    path = Path(given.removeprefix("file://").removeprefix("file:"))
    if path.is_dir() or ("://" in given and not given.startswith("file:")):
        return _from_store(given, which, first_groups)
    if not path.is_file():
        raise BadArgument(
            f"there is no file or folder {given!r}: give saved StreamingQueryProgress, a control "
            "folder, or a trace (CSV or Parquet with time, rows and perhaps group)"
        )
    suffixes = path.name.lower().removesuffix(".gz")
    try:
        if suffixes.endswith((".csv", ".parquet")):
            lines = _csv(path) if suffixes.endswith(".csv") else _parquet(path)
            trace = recorded_by_trace(lines, first_groups, which.since, which.until, which.most)
            return WhatIfInput(trace)
        _no_groups_here(first_groups)
        log = ProgressLog(_objects(path), which.gate)
        found = log.recording(which.query, which.since, which.until, which.most)
        return WhatIfInput(found, gate=which.gate, query=which.query)
    except BadArgument as error:
        raise BadArgument(f"{given}: {error}") from None
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise BadArgument(
            f"{given} cannot be read ({error}): give text (JSON or CSV), its .gz, or Parquet"
        ) from None


def _no_groups_here(first_groups: tuple[str, ...]) -> None:
    if first_groups:
        raise BadArgument(
            "--keep names groups of a trace: a gate's own classes are in its reports and in its ledger"
        )


def _from_store(given: str, which: Selection, first_groups: tuple[str, ...]) -> WhatIfInput:
    _no_groups_here(first_groups)
    control = used_control_folder(given)
    pair, others = _latest(control, gate_queries(control, which.gate, which.query), which.gate)
    ledger = Ledger(control, pair.gate, pair.query)
    if which.since is None and which.until is None:
        records = ledger.tail(which.most)
    else:
        first, last = ledger.span(which.since, which.until)
        records = list(ledger.records(first, last).values()) if first <= last else []
    if records and records[-1].kind != "gate":
        raise BadArgument(
            f"{pair.gate!r} is a {records[-1].kind}: a what-if is for gates, which hold a target by rows"
        )
    recording = recorded_by_ledger(records, which.most)
    if others:
        note = f"{others} other queries ran behind this gate; --query chooses one of them"
        recording = recording.told(remarks=(*recording.remarks, note))
    settings = SettingsFile(control, pair.gate).effective()
    held, changed = target_that_held(records, settings)
    if changed:
        note = f"{changed}: there is no check; --since, --until and --last choose a time with one target"
        recording = recording.told(remarks=(*recording.remarks, note))
    if settings.target_s is None:
        return WhatIfInput(recording, None, False, pair.gate, pair.query)
    shed = held is not None and all(record.mode == "shed" for record in records)
    return WhatIfInput(recording, held or settings, shed, pair.gate, pair.query)


def _latest(control: Place, pairs: list[GateQuery], gate: str | None) -> tuple[GateQuery, int]:
    """The query that ran last behind the gate, and how many others did."""
    gates = sorted({pair.gate for pair in pairs})
    if gate is None and len(gates) > 1:
        raise BadArgument(
            f"several gates are in this control folder: give --gate, one of {', '.join(gates)}"
        )
    ran: list[tuple[float, GateQuery]] = []
    for pair in pairs:
        last: Record | None = Ledger(control, pair.gate, pair.query).last()
        if last is not None:
            ran.append((last.started_at, pair))
    if not ran:
        raise BadArgument(
            "no batch is recorded in this control folder yet: let a query run behind the gate first; "
            "mode='monitor' keeps every row"
        )
    ran.sort(key=lambda one: one[0])
    return ran[-1][1], len(ran) - 1


@contextmanager
def _text(path: Path) -> Iterator[IO[str]]:
    if path.name.endswith(".gz"):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            yield file
    else:
        with open(path, encoding="utf-8", newline="") as file:
            yield file


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    """One object a line is read line by line, however long the file; anything else at once."""
    with _text(path) as file:
        head = ""
        for head in file:
            if head.strip():
                break
        try:
            whole = isinstance(json.loads(head), dict)
        except ValueError:
            whole = False
        if not whole:
            yield from objects_in(head + file.read())
            return
        yield json.loads(head)
        torn: tuple[int, str] | None = None
        for number, line in enumerate(file, start=2):
            if torn is not None:
                raise BadArgument(f"line {torn[0]} or so is no JSON ({torn[1]}): give one report a line")
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except ValueError as error:
                torn = number, str(error)  # the last line may be torn, by a kill
                continue
            if isinstance(value, dict):
                yield value


def _csv(path: Path) -> Iterator[dict[str, Any]]:
    with _text(path) as file:
        reader = csv.DictReader(file)
        names = [str(name).strip().lower() for name in reader.fieldnames or []]
        _require_time(names)
        reader.fieldnames = names
        yield from reader


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtra("pyarrow", "spark") from error
    try:
        file = pq.ParquetFile(path)
        names = [name for name in file.schema_arrow.names if name in ("time", "rows", "group")]
        _require_time(names or list(file.schema_arrow.names))
        for batch in file.iter_batches(columns=names):
            yield from batch.to_pylist()
    except pa.ArrowException as error:
        raise BadArgument(f"this is no Parquet file ({error})") from None


def _require_time(names: list[str]) -> None:
    if "time" not in names:
        raise BadArgument(
            f"no column 'time' among {', '.join(names) or 'none'}: a trace has the columns time, rows "
            "and, if you like, group"
        )
