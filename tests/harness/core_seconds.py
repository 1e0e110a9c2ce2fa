"""Core seconds of each module: what a run on two cores is bound by, and what its seconds do not show.

A test that waits for another process's turn on a core seems slow and is not. The run's folder gets
``core_seconds.csv`` with a line for each module that took one: this process, its JVM, the workers, and
whatever else it started. A process whose parent ended before it (a server in a session of its own) is
not seen.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import psutil
import pytest

from tests.harness.folder import run_folder

__all__: list[str] = []


def _of_tree() -> float:
    """Core seconds of this process and all below it, ended ones included."""
    this = psutil.Process(os.getpid())
    total = 0.0
    for process in (this, *this.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


@pytest.fixture(scope="module", autouse=True)
def _counted(request: pytest.FixtureRequest) -> Iterator[None]:
    before = _of_tree()
    yield
    taken = _of_tree() - before
    if taken >= 1.0:
        with open(run_folder() / "core_seconds.csv", "a") as file:
            file.write(f"{request.node.nodeid},{taken:.1f}\n")
