"""What a doctor found: each finding with its level and the next step, and all of them together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["LEVELS", "Diagnosis", "Finding", "Level"]

Level = Literal["ok", "warning", "problem"]
#: The worst last. A problem keeps gates from working; a warning costs something, or may later.
LEVELS: tuple[Level, ...] = ("ok", "warning", "problem")


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    #: What was looked at, in a word or two that stay the same: for programs.
    check: str
    level: Level
    #: What is so, in a sentence.
    found: str
    #: What to do about it; empty where there is nothing to do.
    next_step: str = ""

    def to_json(self) -> dict[str, str]:
        """As `headgate doctor --json` prints it."""
        return {
            "check": self.check,
            "level": self.level,
            "found": self.found,
            "next_step": self.next_step,
        }


@dataclass(frozen=True)
class Diagnosis:
    """What `hg.doctor` returns; as text it is a report for people.

    >>> found = Diagnosis("s3://bucket/control", "local[2]", [Finding("store", "ok", "It answers.")])
    >>> found.verdict, found.ok
    ('ok', True)
    >>> print(found)
    ok       store: It answers.
    """

    control: str
    master: str
    findings: list[Finding]
    #: What the driver has: the versions of Python, Java, Spark, Headgate and what it imports.
    driver: Mapping[str, Any] = field(default_factory=dict)
    #: The same of each executor that was reached, with its clock and what it found in the store.
    executors: list[dict[str, Any]] = field(default_factory=list)
    #: Medians of what the driver waited for the store, in milliseconds, by operation.
    store_ms: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def verdict(self) -> Level:
        """The worst level of all findings."""
        return max((f.level for f in self.findings), key=LEVELS.index, default="ok")

    @property
    def ok(self) -> bool:
        """Whether nothing keeps gates from working; there may be warnings."""
        return self.verdict != "problem"

    def of(self, level: Level) -> list[Finding]:
        """The findings of one level."""
        return [finding for finding in self.findings if finding.level == level]

    def to_json(self) -> dict[str, Any]:
        """As `headgate doctor --json` prints it."""
        return {
            "control": self.control,
            "master": self.master,
            "verdict": self.verdict,
            "seconds": self.seconds,
            "driver": dict(self.driver),
            "executors": self.executors,
            "store_ms": dict(self.store_ms),
            "findings": [finding.to_json() for finding in self.findings],
        }

    def __str__(self) -> str:
        return "\n".join(_lines(self.findings))


def _lines(findings: Iterable[Finding]) -> list[str]:
    lines = []
    for finding in findings:
        lines.append(f"{finding.level:<8} {finding.check}: {finding.found}")
        if finding.next_step:
            lines.append(f"         -> {finding.next_step}")
    return lines
