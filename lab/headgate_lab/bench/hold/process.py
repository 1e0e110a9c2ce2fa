"""A process that runs queries with one release of Headgate: this one, or another that was given."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import headgate
import headgate_lab
from headgate.demo.batches import Batch
from headgate.demo.session import LOCAL_CHECKPOINTS
from headgate.errors import BadArgument, HeadgateError
from headgate_lab.bench.hold.orders import RunOrder, TruthOrder, to_line

__all__ = ["THIS", "Answered", "Release", "ReleaseProcess"]

#: What this release is called in tables.
THIS = "this"


@dataclass(frozen=True)
class Release:
    """A release of Headgate: a folder to put on the path, or a Python that has one installed."""

    name: str = THIS
    path: Path | None = None

    @classmethod
    def beside(cls, given: str) -> Self:
        """From a checkout, a folder with the package `headgate` in it, or a Python's executable."""
        path = Path(given).expanduser().absolute()
        for folder in (path / "src", path):
            if (folder / "headgate" / "__init__.py").is_file():
                return cls("beside", folder)
        if path.is_file() and os.access(path, os.X_OK):
            return cls("beside", path)
        raise BadArgument(
            f"beside={given!r} is neither a checkout of Headgate, nor a folder with the package in it, "
            "nor a Python's executable: give for instance the folder of `git worktree add ../before TAG`"
        )

    @property
    def python(self) -> str:
        """The executable."""
        return str(self.path) if self.path is not None and self.path.is_file() else sys.executable

    def environment(self) -> dict[str, str]:
        """Where Python looks first: the release, then this laboratory, then what was there."""
        own = Path(headgate.__file__).parents[1]
        laboratory = Path(headgate_lab.__file__).parents[1]
        first = [own] if self.path is None else [self.path] if self.path.is_dir() else []
        there = (
            [] if self.path is not None and self.path.is_file() else [os.environ.get("PYTHONPATH", "")]
        )
        paths = [*map(str, first), str(laboratory), *there]
        return os.environ | {
            "PYTHONPATH": os.pathsep.join(p for p in paths if p),
            "PYSPARK_PYTHON": self.python,
        }


@dataclass(frozen=True)
class Answered:
    """What a run gave."""

    batches: tuple[Batch, ...]
    query_id: str
    ended_at: float

    @property
    def ended(self) -> tuple[Batch, ...]:
        """The batches that were not cut short."""
        return tuple(b for b in self.batches if not b.running)


class ReleaseProcess:
    """A release's session: warm from its first order on, idle between orders."""

    def __init__(self, release: Release, scratch: Path, more: dict[str, str] | None = None) -> None:
        self.release, self._log = release, scratch / "spark.log"
        scratch.mkdir(parents=True, exist_ok=True)
        settings = json.dumps(_settings(scratch) | (more or {}))
        with open(scratch / "python.log", "ab") as log:
            self._process = subprocess.Popen(
                [release.python, "-m", "headgate_lab.bench.hold.child", str(scratch), settings],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=release.environment(),
            )
        found = self._answer()
        self.version, file = str(found["version"]), Path(found["file"])
        if release.path is not None and file.samefile(str(headgate.__file__)):
            self.close()
            raise BadArgument(
                f"beside={str(release.path)!r} runs this Headgate ({file}) and not another one: give "
                "the folder of another checkout, or the Python of an environment that has its own"
            )

    def run(self, order: RunOrder, until: Callable[[], float]) -> Answered:
        """Run a query, and wait for its batches; `until` is asked for its end once it has started."""
        self._ask(order)
        self._tell(f"{until()!r}\n")
        found = self._answer()
        batches = tuple(Batch(**b) for b in found["batches"])
        return Answered(batches, str(found["query_id"]), float(found["ended_at"]))

    def truth(self, order: TruthOrder) -> int:
        """Write what is true; returns the windows and groups that there are."""
        return int(self._ask(order)["rows"])

    def _ask(self, order: RunOrder | TruthOrder) -> dict[str, Any]:
        self._tell(to_line(order) + "\n")
        return self._answer()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._gone() from None

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._gone()
        found: dict[str, Any] = json.loads(line)
        if "error" in found:
            raise HeadgateError(f"the query of {self.release.name!r} failed: {found['error']}")
        return found

    def _gone(self) -> HeadgateError:
        code = self._process.wait()
        said = ""
        for log in (self._log, self._log.with_name("python.log")):
            if log.is_file():
                said += " / ".join(log.read_text(errors="replace").splitlines()[-5:])
        return HeadgateError(
            f"the process of {self.release.name!r} ended with code {code}; the last it said: {said}"
        )

    def close(self, patience_s: float = 30.0) -> None:
        """No more orders; the session stops."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:  # an order may be under way, which nobody waits for any more
            self._process.kill()
        self.close()


def _settings(scratch: Path) -> dict[str, str]:
    """As the demo's session: two cores of this machine, the same for every release."""
    return {
        "spark.master": "local[2]",
        "spark.app.name": "headgate-bench-hold",
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(scratch / "local"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.python.unix.domain.socket.enabled": "true",
        **{key: str(value) for key, value in LOCAL_CHECKPOINTS.items()},
    }
