"""`Job`: what a job file says, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.durations import Duration
from headgate.job.problems import Lines
from headgate.job.secrets import Secrets

__all__ = ["Job", "Sink", "Source", "SparkSettings", "Sql"]


@dataclass(frozen=True)
class Source:
    """Where rows come from: Spark's format and options, and a schema where files have none."""

    format: str
    options: Mapping[str, str]
    path: str | None = None
    table: str | None = None
    schema: str | None = None
    #: In words, for people.
    words: str = ""


@dataclass(frozen=True)
class Sql:
    """What happens to rows in front of the gate (read from the view `source`) and behind it."""

    before: str | None = None
    after: str | None = None
    view: str = "gated"
    watermark: tuple[str, Duration] | None = None


@dataclass(frozen=True)
class Sink:
    """Where results go."""

    format: str
    options: Mapping[str, str]
    path: str | None = None
    table: str | None = None
    #: The column that is a Kafka message's key.
    key: str | None = None
    mode: str = "append"
    trigger: Duration | None = None
    checkpoint: str | None = None
    words: str = ""


@dataclass(frozen=True)
class SparkSettings:
    """The session: its master, memory, packages and settings."""

    master: str = "local[*]"
    memory: str = "2g"
    packages: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """A whole pipeline: source, SQL, gate, SQL, sink."""

    name: str
    source: Source
    sql: Sql
    #: What `hg.gate` is called with, `name` among it.
    gate: Mapping[str, Any]
    sink: Sink
    spark: SparkSettings
    lines: Lines
    secrets: Secrets

    @property
    def control(self) -> str | None:
        """The gate's control folder, if it has one."""
        return self.gate.get("control")

    @property
    def target(self) -> str:
        """What the gate holds, in words."""
        for name in ("hold", "delay", "rate"):
            if name in self.gate:
                return f"{name} {self.gate[name]}"
        return "what its accuracy needs"

    @property
    def words(self) -> str:
        """The pipeline in one line."""
        said = f"{self.source.words} -> gate {self.gate['name']} ({self.target}) -> {self.sink.words}"
        return self.secrets.shown(said)

    def to_json(self) -> dict[str, Any]:
        """What a program may want to know of it; no options, which may have secrets."""
        return {
            "name": self.name,
            "source": self.source.format,
            "gate": self.gate["name"],
            "target": self.target,
            "sink": self.sink.format,
            "control": self.control,
        }
