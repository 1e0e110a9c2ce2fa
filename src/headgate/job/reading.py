"""Read a job file, and say all that is wrong with it at once."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headgate.errors import BadArgument, HeadgateError
from headgate.job.job import Job, Sink, Source, SparkSettings, Sql
from headgate.job.lines import lines_of
from headgate.job.policy import policy_of
from headgate.job.problems import JobProblems, Lines, Problem
from headgate.job.rescue import rescue_of
from headgate.job.schema import (
    FILES,
    GATE,
    SINKS,
    SOURCES,
    SPARK,
    SQL,
    TABLES,
    TOP,
    WATERMARK,
)
from headgate.job.secrets import Secrets
from headgate.job.tables import Notes, Table
from headgate.store.places.place import control_place

__all__ = ["read_job"]

#: A file of a person's own is small; what is larger is another file.
_MOST_BYTES = 1 << 20
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_VIEW = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_job(file: str | os.PathLike[str], environment: Mapping[str, str] | None = None) -> Job:
    """The job, checked as far as can be without Spark; raises `JobProblems` with all that is wrong.

    Paths in the file are relative to the folder that it is in.
    """
    path = Path(file)
    raw, lines = _parsed(path)
    secrets = Secrets(os.environ if environment is None else environment)
    return _Reader(path, raw, Notes(lines, secrets)).job()


def _parsed(path: Path) -> tuple[dict[str, Any], Lines]:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise BadArgument(f"{path} has more than {_MOST_BYTES:,} bytes: give a job file")
        text = path.read_bytes().decode()
        return tomllib.loads(text), Lines(path, lines_of(text))
    except OSError as error:
        raise BadArgument(
            f"{path} cannot be read ({error.strerror or error}): `headgate init {path.name}` writes an "
            "example"
        ) from error
    except UnicodeDecodeError as error:
        raise JobProblems(path, [Problem(1, "", f"it is not UTF-8 text ({error.reason})")]) from error
    except tomllib.TOMLDecodeError as error:
        said = re.sub(r" \(at (?:line \d+, column \d+|end of document)\)$", "", str(error))
        found = re.search(r"line (\d+)", str(error))
        line = int(found[1]) if found else len(text.splitlines()) or 1
        raise JobProblems(path, [Problem(line, "", f"this is no TOML: {said}")]) from error
    except RecursionError:
        deep = "it has lists or tables in each other deeper than anybody writes them"
        raise JobProblems(path, [Problem(1, "", deep)]) from None
    except ValueError as error:  # of a number with thousands of digits, a day that no month has
        raise JobProblems(path, [Problem(1, "", f"this is no TOML: {error}")]) from error


class _Reader:
    def __init__(self, file: Path, raw: dict[str, Any], notes: Notes) -> None:
        self._file, self._notes = file, notes
        self._base = file.absolute().parent
        self._top = Table(notes, (), raw)

    def job(self) -> Job:
        name = self._top.read(TOP, *TABLES).get("name")
        for table, needed in TABLES.items():
            if needed and table not in self._top:
                needs = [name for name, must in TABLES.items() if must]
                self._notes.add((), f"the file has no [{table}]: it needs {_and(needs)}")
        source, sql = self._source(), self._sql()
        sink, gate = self._sink(), self._gate()
        rescue = self._top.sub("rescue")
        if rescue is not None:
            gate["rescue"] = rescue_of(rescue, sink, gate)
        spark = self._spark()
        if source and sink:
            self._no_circle(source, sink)
        if self._notes.problems or source is None or sink is None:
            raise JobProblems(self._file, self._notes.problems)
        if sink.checkpoint is not None:
            gate.setdefault("checkpoint", sink.checkpoint)
        return Job(
            name or gate["name"], source, sql, gate, sink, spark, self._notes.lines, self._notes.secrets
        )

    def _path(self, given: str | None) -> str | None:
        """As Spark takes it: an address as it is, a path from the file's own folder."""
        return given if given is None or _SCHEME.match(given) else str(self._base / given)

    def _source(self) -> Source | None:
        table = self._top.sub("source")
        kind = None if table is None else table.choice("format", SOURCES)
        if table is None or kind is None:
            return None
        found = table.read(SOURCES[kind], "format")
        options: dict[str, str] = {}
        if kind == "kafka":
            options = self._kafka(table, found)
        for key, option in (("rows_per_second", "rowsPerSecond"), ("rows_per_batch", "rowsPerBatch")):
            if key in found:
                options[option] = str(found[key])
        self._not_twice(table, options, found.get("options", {}))
        path = self._path(found.get("path"))
        if kind in FILES and path is not None and not _SCHEME.match(path):
            # A pattern is looked for by Spark; its folder must be there all the same.
            fixed = re.split(r"[*?\[{]", path)[0]
            if not (Path(path).exists() if fixed == path else Path(fixed).parent.exists()):
                table.wrong("path", f"there is no folder {path}: make it, or name another")
        self._one_place(table, kind, found)
        words = f"{kind} {options.get('subscribe') or found.get('path') or found.get('table') or ''}"
        return Source(
            kind,
            options | found.get("options", {}),
            path,
            found.get("table"),
            found.get("schema"),
            words.strip(),
        )

    def _kafka(self, table: Table, found: Mapping[str, Any]) -> dict[str, str]:
        topic, start = found.get("topic"), found.get("start")
        others = {"subscribePattern", "assign"} & found.get("options", {}).keys()
        if "topic" not in table and not others:
            table.wrong("", "[source] needs topic, or one of the options subscribePattern and assign")
        options = {"kafka.bootstrap.servers": found.get("servers", "")}
        if topic is not None:
            options["subscribe"] = topic if isinstance(topic, str) else ",".join(topic)
        return options if start is None else options | {"startingOffsets": start}

    def _not_twice(self, table: Table, short: Mapping[str, str], given: Mapping[str, str]) -> None:
        named = {"kafka.bootstrap.servers": "servers", "subscribe": "topic", "topic": "topic",
                 "startingoffsets": "start", "checkpointlocation": "checkpoint"}  # fmt: skip
        for option in given:
            if option in short or option.lower() in ("checkpointlocation", "path"):
                key = named.get(option.lower(), option)
                table.wrong("options", f"the option {option!r} is said by the key {key!r} of this table")

    def _one_place(self, table: Table, kind: str, found: Mapping[str, Any]) -> None:
        if kind == "delta" and ("path" in found) == ("table" in found):
            table.wrong("", "a delta table needs one of path and table, and not both")

    def _sql(self) -> Sql:
        table = self._top.sub("sql")
        if table is None:
            return Sql()
        found = table.read(SQL, "watermark")
        view = found.get("view", "gated")
        if not _VIEW.fullmatch(view) or view == "source":
            table.wrong(
                "view", f"view={view!r}: give letters, digits and '_', and not 'source', which the "
                "source's rows are called"
            )  # fmt: skip
        for key, reads in (("before", "source"), ("after", view)):
            if key in found and not re.search(rf"\b{re.escape(reads)}\b", found[key]):
                table.wrong(key, f"{key} does not read {reads!r}: write SELECT ... FROM {reads}")
        late = table.sub("watermark")
        said = late.read(WATERMARK) if late is not None else {}
        both = "column" in said and "delay" in said
        return Sql(
            found.get("before"),
            found.get("after"),
            view,
            (said["column"], said["delay"]) if both else None,
        )

    def _gate(self) -> dict[str, Any]:
        table = self._top.sub("gate")
        if table is None:
            return {}
        found = table.read(GATE, "policy")
        policy = table.sub("policy")
        built = None if policy is None else policy_of(policy)
        if built is not None:
            found["policy"] = built
        targets = [key for key in ("hold", "delay", "rate") if key in table]
        alone = built is not None and built.on_its_own() is not None
        if len(targets) != 1 and not (alone and not targets) and (policy is None or built is not None):
            table.wrong(
                targets[1] if targets else "",
                "give exactly one of hold (how long a batch may take), delay (from arrival to the "
                "batch's end) and rate (the share to keep), or a policy with accuracy; got "
                f"{_and(targets) or 'none of them'}",
            )
        if "delay" in table and "arrival" not in table:
            table.wrong("delay", "delay needs arrival, the column that says when a row arrived")
        if "control" not in table and "rate" not in table:
            table.wrong("", "[gate] needs control, a folder for plans, settings and the ledger")
        if "keep" in table and policy is not None:
            table.wrong("keep", "give keep or [gate.policy], not both: keep is a policy of its own")
        for key in ("control", "checkpoint"):
            if key in found:
                found[key] = self._path(found[key])
        if "control" in found:
            try:
                control_place(found["control"])
            except HeadgateError as error:
                table.wrong("control", str(error))
        return found

    def _sink(self) -> Sink | None:
        table = self._top.sub("sink")
        kind = None if table is None else table.choice("format", SINKS)
        if table is None or kind is None:
            return None
        found = table.read(SINKS[kind], "format")
        options: dict[str, str] = {}
        if kind == "kafka" and {"servers", "topic"} <= found.keys():
            options = {"kafka.bootstrap.servers": found["servers"], "topic": found["topic"]}
        self._not_twice(table, options, found.get("options", {}))
        self._one_place(table, kind, found)
        if kind in FILES and found.get("mode", "append") != "append":
            table.wrong(
                "mode",
                f"mode={found['mode']!r}: files are only ever appended to; a result that changes needs "
                "another sink, or a watermark and mode 'append'",
            )
        words = f"{kind} {found.get('topic') or found.get('path') or found.get('table') or ''}"
        return Sink(
            kind,
            options | found.get("options", {}),
            self._path(found.get("path")),
            found.get("table"),
            found.get("key"),
            found.get("mode", "append"),
            found.get("trigger"),
            self._path(found.get("checkpoint")),
            words.strip(),
        )

    def _spark(self) -> SparkSettings:
        table = self._top.sub("spark")
        if table is None:
            return SparkSettings()
        found = table.read(SPARK)
        for name in found.get("conf", {}):
            if not name.startswith("spark."):
                table.wrong("conf", f"{name!r} is no setting of Spark's: they begin with 'spark.'")
        packages = found.pop("packages", ())
        packages = (packages,) if isinstance(packages, str) else packages
        for package in packages:
            if package.count(":") < 2:
                table.wrong(
                    "packages", f"packages={package!r}: a Maven coordinate is group:name:version"
                )
        return SparkSettings(packages=packages, **found)

    def _no_circle(self, source: Source, sink: Sink) -> None:
        topics = source.options.get("subscribe", "").split(",")
        servers = [end.options.get("kafka.bootstrap.servers") for end in (source, sink)]
        if source.format == sink.format == "kafka" and servers[0] == servers[1]:
            if sink.options["topic"] in topics:
                self._notes.add(
                    ("sink", "topic"), "the sink is the source: rows would go round for ever"
                )
        elif sink.path is not None and sink.path == source.path:
            self._notes.add(("sink", "path"), "the sink is the source: rows would go round for ever")


def _and(names: Mapping[str, Any] | list[str]) -> str:
    return " and ".join(names)
