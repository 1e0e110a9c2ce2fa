"""What a coordinator remembers, where a killed process leaves it: an SQLite file with a write-ahead log.

Every change is one transaction, written before it is answered: a report that was answered is never
forgotten, and one that was not is as if it had not been sent. Whole files, replaced, would cost a file
of all queries for each report, or a file a query; a log of our own would need the compaction, the
checks and the lock that SQLite has. The rows are for three ways of changing: a site's number (at each
report), a query's SIC (at each report of its root), and who hosts it (seldom).

Times are of the monotonic clock inside the process and of the wall clock in the file. The wall clock is
read once when the file is opened, and never again, so that one that jumps while the service runs changes
nothing. One that jumped back while it was down makes no age smaller than it was.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headgate.coordinator.query_state import Member, QueryState
from headgate.errors import ControlFolderError, SnapshotError
from headgate.store.durable import make_folder, open_private

__all__ = ["Change", "Journal", "SiteRecord"]

_VERSION = 1
_TABLES = """
CREATE TABLE sites (site TEXT PRIMARY KEY, incarnation TEXT, seq INTEGER, digest TEXT,
                    heard REAL, since REAL, present INTEGER) WITHOUT ROWID;
CREATE TABLE retired (site TEXT, incarnation TEXT, number INTEGER, PRIMARY KEY (site, incarnation))
                    WITHOUT ROWID;
CREATE TABLE queries (query TEXT PRIMARY KEY, hosted TEXT) WITHOUT ROWID;
CREATE TABLE sics (query TEXT PRIMARY KEY, sic REAL, at REAL) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class SiteRecord:
    """A site that a coordinator has heard of."""

    incarnation: str
    seq: int
    #: Of the last message's bytes: the same again is a repeat, another with its number a forgery.
    digest: str
    heard: float
    #: When this incarnation was heard first.
    since: float
    #: False after it took its leave.
    present: bool = True
    #: Incarnations that were replaced, oldest first; they do not come back.
    retired: tuple[str, ...] = ()


@dataclass(slots=True)
class Change:
    """What one message changes; None for a query or a site that is dropped."""

    sites: dict[str, SiteRecord | None] = field(default_factory=dict)
    queries: dict[str, QueryState | None] = field(default_factory=dict)


class Journal:
    """The file, which one coordinator at a time can have open."""

    def __init__(
        self,
        folder: Path,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.path = folder / "coordinator.db"
        self._now = clock()
        #: What turns a time of the monotonic clock into one of the wall clock.
        self._offset = wall() - self._now
        try:
            make_folder(folder)
            os.close(open_private(self.path, os.O_RDWR))  # SQLite's other files get its permissions
            self._db = sqlite3.connect(
                self.path, timeout=2.0, isolation_level=None, check_same_thread=False
            )
        except (sqlite3.Error, OSError) as error:
            raise _unusable(self.path, error) from error
        try:
            self._prepare()
        except sqlite3.Error as error:
            self._db.close()
            raise _unusable(self.path, error) from error
        except SnapshotError:
            self._db.close()  # it has the lock
            raise

    def load(self) -> tuple[dict[str, SiteRecord], dict[str, QueryState]]:
        """What was remembered, with times of this process's clock."""
        try:
            return self._load()
        except (sqlite3.Error, ValueError, KeyError, TypeError) as error:
            raise _unusable(self.path, error) from error

    def write(self, change: Change, before: Mapping[str, QueryState]) -> None:
        """Write a change, whole or not at all; `before` is what the queries were."""
        db, offset = self._db, self._offset
        try:
            db.execute("BEGIN")
            for site, record in change.sites.items():
                self._write_site(site, record)
            put = [
                (name, _to_json(query))
                for name, query in change.queries.items()
                if query is not None and not _same_hosts(query, before.get(name))
            ]
            db.executemany("REPLACE INTO queries VALUES (?, ?)", put)
            sics = [
                (name, query.sic, query.sic_at + offset)
                for name, query in change.queries.items()
                if query is not None and query.sic is not None and _new_sic(query, before.get(name))
            ]
            db.executemany("REPLACE INTO sics VALUES (?, ?, ?)", sics)
            gone = [(name,) for name, query in change.queries.items() if query is None]
            for table in ("queries", "sics"):
                db.executemany(f"DELETE FROM {table} WHERE query = ?", gone)
            db.execute("COMMIT")
        except sqlite3.Error as error:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise _unusable(self.path, error) from error

    def close(self) -> None:
        """Close the file, so that another process can have it."""
        self._db.close()

    def _prepare(self) -> None:
        """Lock the file, and make its tables if it is new."""
        # Exclusive: no second coordinator, and no shared memory, which network folders lack.
        self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._db.execute("PRAGMA journal_mode = WAL")
        # A killed process loses nothing. A machine that loses power may lose its last moments, and
        # never a part of a change; sites say it all again within a second. FULL waits for the disk
        # each time: milliseconds, where this takes a tenth of one.
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("BEGIN EXCLUSIVE")
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version == 0:
            for statement in _TABLES.strip().split(";")[:-1]:
                self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version = {_VERSION}")
        self._db.execute("COMMIT")
        if version not in (0, _VERSION):
            raise SnapshotError(
                f"{str(self.path)!r} is a journal of version {version}, and this Headgate knows version "
                f"{_VERSION}: start the Headgate that wrote it, or give another folder"
            )

    def _write_site(self, site: str, record: SiteRecord | None) -> None:
        if record is None:
            self._db.execute("DELETE FROM sites WHERE site = ?", (site,))
            self._db.execute("DELETE FROM retired WHERE site = ?", (site,))
            return
        self._db.execute(
            "REPLACE INTO sites VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                site,
                record.incarnation,
                record.seq,
                record.digest,
                record.heard + self._offset,
                record.since + self._offset,
                record.present,
            ),
        )
        if record.retired and record.since == record.heard:  # this message brought a new incarnation
            self._db.execute("DELETE FROM retired WHERE site = ?", (site,))
            rows = [(site, incarnation, i) for i, incarnation in enumerate(record.retired)]
            self._db.executemany("INSERT INTO retired VALUES (?, ?, ?)", rows)

    def _load(self) -> tuple[dict[str, SiteRecord], dict[str, QueryState]]:
        sites = self._db.execute("SELECT * FROM sites").fetchall()
        last = max((row[4] for row in sites), default=0.0)
        # Before now by the time the service was down, as far as the wall clock can be believed.
        ended = self._now - max(0.0, self._now + self._offset - last)

        def inside(at: float) -> float:
            return ended - max(0.0, last - at)

        retired: dict[str, tuple[str, ...]] = {}
        for site, incarnation in self._db.execute(
            "SELECT site, incarnation FROM retired ORDER BY site, number"
        ):
            retired[site] = (*retired.get(site, ()), incarnation)
        records = {
            site: SiteRecord(
                incarnation,
                seq,
                digest,
                inside(heard),
                inside(since),
                bool(present),
                retired.get(site, ()),
            )
            for site, incarnation, seq, digest, heard, since, present in sites
        }
        sics = {name: (sic, inside(at)) for name, sic, at in self._db.execute("SELECT * FROM sics")}
        queries = {
            name: _from_json(text, self._now, *sics.get(name, (None, 0.0)))
            for name, text in self._db.execute("SELECT * FROM queries")
        }
        return records, queries


def _same_hosts(query: QueryState, before: QueryState | None) -> bool:
    """Whether what is kept as JSON is the same: who hosts the query, and its weight and priority."""
    if before is None or query.members.keys() != before.members.keys():
        return False
    if (query.left, query.root, query.weight, query.priority) != (
        before.left,
        before.root,
        before.weight,
        before.priority,
    ):
        return False
    return all(
        member.sources == before.members[name].sources and member.of == before.members[name].of
        for name, member in query.members.items()
    )


def _new_sic(query: QueryState, before: QueryState | None) -> bool:
    return before is None or query.sic_at != before.sic_at or query.sic != before.sic


def _to_json(query: QueryState) -> str:
    members = {
        name: {"sources": sorted(m.sources), "of": None if m.of is None else sorted(m.of)}
        for name, m in query.members.items()
    }
    value: dict[str, Any] = {
        "members": members,
        "left": sorted(query.left),
        "root": query.root,
        "weight": query.weight,
        "priority": query.priority,
    }
    return json.dumps(value, separators=(",", ":"))


def _from_json(text: str, now: float, sic: float | None, sic_at: float) -> QueryState:
    value = json.loads(text)
    members = {
        name: Member(
            frozenset(m["sources"]), None if m["of"] is None else frozenset(m["of"]), None, heard=now
        )
        for name, m in value["members"].items()
    }
    left, root = frozenset(value["left"]), value["root"]
    return QueryState(members, left, root, sic, sic_at, value["weight"], value["priority"])


def _unusable(path: Path, error: Exception) -> ControlFolderError:
    reason = str(error)
    if "locked" in reason:
        return ControlFolderError(
            f"{str(path)!r} is in use by another coordinator: stop that one, or give this one a "
            "folder of its own"
        )
    if isinstance(error, sqlite3.DatabaseError) and "not a database" in reason:
        return ControlFolderError(
            f"{str(path)!r} is no journal of a coordinator, or is damaged ({reason}): move it away; "
            "sites report anew within a second, and only the memory of replaced sites is lost"
        )
    return ControlFolderError(
        f"{str(path)!r} cannot be read and written ({reason}): give a folder that this process can "
        "write, on a disk with room"
    )
