"""A hang has a name: every test has a time limit, and what hung is shown.

The limit itself is pytest-timeout's (`timeout` in pyproject.toml, `@pytest.mark.timeout` for a test that
is long by nature): it shows Python's stacks and fails the test, and the run goes on. Two things are
added here. Shortly before the limit, while everything still stands as it hung, the stacks of the JVMs
are taken; they are in the test's report. And where a test cannot even be failed (it waits inside of C
code, or its clean-up hangs too), the run ends after another `_GRACE_S`, with the test's name and all
stacks on standard error and in the run's folder: never without a word.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.folder import run_folder
from tests.harness.processes import java_stacks

#: The JVMs are asked so long before a test's limit is over.
_BEFORE_S = 5.0
#: A test past its limit has so long to be failed and cleaned up.
_GRACE_S = float(os.environ.get("HEADGATE_TEST_GRACE_S", "120"))

_JAVA = pytest.StashKey[str]()


class Watch:
    """The clock of one test; its limit is in seconds."""

    def __init__(self, item: pytest.Item, limit: float) -> None:
        self._item = item
        self._timers = [
            threading.Timer(max(0.1, limit - _BEFORE_S), self._ask_java),
            threading.Timer(limit + _GRACE_S, self._give_up),
        ]

    def __enter__(self) -> Watch:
        for timer in self._timers:
            timer.daemon = True
            timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        for timer in self._timers:
            timer.cancel()

    def _ask_java(self) -> None:
        self._item.stash[_JAVA] = java_stacks()

    def _give_up(self) -> None:
        path = run_folder() / "hang.txt"
        text = (
            f"\n{self._item.nodeid} did not end {_GRACE_S:.0f} s after its time limit: the run ends.\n"
        )
        text += f"Stacks of Python and of the JVMs are in {path}\n"
        with open(path, "w") as file:
            file.write(text)
            file.flush()
            faulthandler.dump_traceback(file, all_threads=True)
            file.write(self._item.stash.get(_JAVA, "") or java_stacks())
        # Standard error is pytest's to capture; a run that ends here must be heard all the same.
        out = os.dup(_terminal)
        os.write(out, text.encode())
        faulthandler.dump_traceback(out, all_threads=True)
        os._exit(3)


#: Standard error as it was before pytest began to capture it.
_terminal = os.dup(sys.__stderr__.fileno()) if sys.__stderr__ is not None else 2


def _limit(item: pytest.Item) -> float | None:
    marker = item.get_closest_marker("timeout")
    if marker is not None:
        value = marker.args[0] if marker.args else marker.kwargs.get("timeout")
    else:
        given = item.config.getvalue("timeout")  # --timeout=0 while debugging: no limit at all
        value = item.config.getini("timeout") if given is None else given
    return float(value) if value else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    limit = _limit(item)
    if limit is None:
        return (yield)
    with Watch(item, limit):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    stacks = item.stash.get(_JAVA, None)
    if report.failed and stacks:
        name = "".join(c if c.isalnum() else "-" for c in item.nodeid)[-100:]
        path = Path(run_folder(), f"java-{name}.txt")
        path.write_text(stacks)
        report.sections.append((f"Java's threads at the time limit (whole: {path})", stacks[:20_000]))
    return report
