"""Two processes, with ``-n 2 --dist loadscope``: all that uses the Spark session, and the rest.

A session serves every test that wants one (`tests.conftest.spark`), so one process runs all of those and
has the broker, too; modules without Spark, and those that start a Spark of their own, fill up the other.
(Tried: a second session for half of the lane. Each must warm up, two cores are busy all the same, and
it took as long. The marks of ``--dist loadgroup`` would say it at each test, but pytest-xdist 3.8 does
not see them under pytest 9.2.)
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

__all__ = ["SHARED", "lane"]

#: The lane of the session and of the broker.
SHARED = "the session"

_FOLDERS = ("tests/spark/", "tests/kafka/", "tests/demo/", "tests/lab/spark/")
_MODULES = ("tests/test_docs.py", "tests/harness/test_hangs.py")
#: With no Spark at all, or with one of their own.
_WITHOUT = tuple(
    f"tests/spark/{name}.py"
    for name in (
        *("connect/test_connect", "guard/test_guard_memory", "guard/test_guard_task"),
        *("join/test_join_run", "backfill/test_kill", "gate/test_predicates"),
    )
)


def lane(nodeid: str) -> str:
    """What a test runs after: all tests of a lane run in one process, one after the other."""
    module, _, _ = nodeid.partition("::")
    if module in _MODULES or (module.startswith(_FOLDERS) and module not in _WITHOUT):
        return SHARED
    return module


class _Lanes(LoadScopeScheduling):
    """The largest lane first: that is the session's."""

    def _split_scope(self, nodeid: str) -> str:
        return lane(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _Lanes:
    return _Lanes(config, log)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if "spark" in getattr(item, "fixturenames", ()) and lane(item.nodeid) != SHARED:
        pytest.fail(f"{item.nodeid} uses the session: its module belongs in tests/harness/lanes.py")
