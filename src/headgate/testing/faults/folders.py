"""A control folder that misbehaves: read-only, full, slow, away, gone for good, cut off.

`FOLDER_FAULTS` is the table: a name, and a context manager that makes the fault and ends it. Read-only,
full and slow are what this process meets, by the calls of the operating system that change a file below
the folder: a superuser can write to what is read-only, and nobody wants to fill a disk for a test. The
others are done to the files themselves, so every process meets them.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

__all__ = ["FOLDER_FAULTS", "away", "full", "gone", "read_only", "slow", "tear", "torn"]

#: Calls that change files; of `open`, those that may write.
_CHANGES = ("open", "mkdir", "link", "rename", "replace", "unlink", "rmdir")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@contextmanager
def _before_changes(folder: Path, act: Callable[[str], None]) -> Iterator[None]:
    """Call `act` with a path before each change of a file below the folder."""
    below = Path(folder).absolute()

    def wrapped(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *given: Any, **named: Any) -> Any:
            harmless = name == "open" and not (given and given[0] & _WRITES)
            if not isinstance(path, int) and not harmless:
                at = Path(os.fsdecode(path)).absolute()
                if at == below or below in at.parents:
                    act(str(at))
            return real(path, *given, **named)

        return call

    with ExitStack() as stack:
        for name in _CHANGES:
            stack.enter_context(patch.object(os, name, wrapped(name, getattr(os, name))))
        yield


def _refusing(number: int) -> Callable[[str], None]:
    def refuse(path: str) -> None:
        raise OSError(number, os.strerror(number), path)

    return refuse


def read_only(folder: Path) -> AbstractContextManager[None]:
    """Nothing below it can be changed by this process."""
    return _before_changes(folder, _refusing(errno.EROFS))


def full(folder: Path) -> AbstractContextManager[None]:
    """Nothing more fits below it, as this process meets it."""
    return _before_changes(folder, _refusing(errno.ENOSPC))


def slow(
    folder: Path, pause_s: float = 0.01, sleep: Callable[[float], None] = time.sleep
) -> AbstractContextManager[None]:
    """Each change below it takes so much longer, by whoever's clock."""
    return _before_changes(folder, lambda path: sleep(pause_s))


@contextmanager
def away(folder: Path) -> Iterator[None]:
    """It is not there, and comes back as it was: a volume that was unmounted.

    What was written to its place meanwhile is hidden by what comes back, as below a mount.
    """
    elsewhere = folder.with_name(f"{folder.name}.away-{uuid.uuid4().hex[:8]}")
    folder.rename(elsewhere)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        elsewhere.rename(folder)


@contextmanager
def gone(folder: Path) -> Iterator[None]:
    """Somebody deleted it, with all that was in it."""
    shutil.rmtree(folder)
    yield


def tear(path: Path, at: int) -> None:
    """Cut a file off, as a loss of power may leave it: only its first `at` bytes are there."""
    with open(path, "r+b") as file:
        file.truncate(at)


@contextmanager
def torn(folder: Path, luck: random.Random | None = None, what: str = "*.json") -> Iterator[None]:
    """Every file of that pattern is cut off somewhere, perhaps to nothing."""
    luck = luck or random.Random(0)
    for path in sorted(folder.rglob(what)):
        if path.is_file():
            tear(path, luck.randrange(max(1, path.stat().st_size)))
    yield


#: What may happen to a control folder, by name.
FOLDER_FAULTS: Mapping[str, Callable[[Path], AbstractContextManager[None]]] = {
    "read-only": read_only,
    "full": full,
    "slow": slow,
    "away": away,
    "gone": gone,
    "torn": torn,
}
