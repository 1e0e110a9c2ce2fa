"""What is wrong with a job file: all of it at once, each with its line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headgate.errors import HeadgateError

__all__ = ["JobProblems", "Lines", "Problem"]


@dataclass(frozen=True)
class Problem:
    """One mistake: the line, the key that it is about, and what to do."""

    line: int
    key: str
    message: str

    def to_json(self) -> dict[str, Any]:
        """As `headgate run --json` prints it."""
        return {"line": self.line, "key": self.key, "message": self.message}


@dataclass(frozen=True)
class Lines:
    """Where the keys of a file stand."""

    file: Path
    found: Mapping[tuple[str, ...], int]

    def of(self, *path: str) -> int:
        """The line of a key; of the table that it is missing in, or the file's first."""
        while path:
            if path in self.found:
                return self.found[path]
            path = path[:-1]
        return 1

    def problem(self, path: Sequence[str], message: str) -> Problem:
        """A mistake at this key."""
        return Problem(self.of(*path), ".".join(path), message)


class JobProblems(HeadgateError):
    """A job file that cannot run as it is; `problems` has each mistake, in the order of the lines."""

    def __init__(self, file: Path, problems: Sequence[Problem]) -> None:
        self.file = file
        self.problems = tuple(sorted(set(problems), key=lambda p: (p.line, p.key, p.message)))
        super().__init__("\n".join(self.lines))

    @property
    def lines(self) -> list[str]:
        """Each mistake as compilers write it, for people and editors."""
        return [f"{self.file}:{p.line}: {p.key or 'the file'}: {p.message}" for p in self.problems]
