"""Two processes, with ``-n 2 --dist loadscope``, and a Spark session in each.

A session serves every test of its lane that wants one (`tests.conftest.spark`). One lane has the gates,
guards and joins, and the broker; the other one estimates, the laboratory's Spark tests, and what needs
no session: modules without Spark, and those that start a Spark of their own. (The marks of ``--dist
loadgroup`` would say it at each test, but pytest-xdist 3.8 does not see them under pytest 9.2.)
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

__all__ = ["lane"]

#: The lane of most tests on Spark, and of the broker; and the other one's.
_FIRST, _SECOND = "the session", "the second session"

_FOLDERS = ("tests/spark/", "tests/kafka/", "tests/demo/")
_SECOND_FOLDERS = ("tests/lab/spark/", "tests/spark/estimates/")
_MODULES = ("tests/test_docs.py", "tests/harness/test_hangs.py")
#: With no Spark at all, or with one of their own.
_WITHOUT = tuple(
    f"tests/spark/{name}.py"
    for name in (
        *("connect/test_connect", "guard/test_guard_memory", "guard/test_guard_task"),
        *("objects/test_guard_memory_on_objects", "objects/test_objects_on_spark"),
        *("join/test_join_run", "backfill/test_kill", "gate/test_predicates", "gate/test_batch_size"),
    )
)


def lane(nodeid: str) -> str:
    """What a test runs after: all tests of a lane run in one process, one after the other."""
    module, _, _ = nodeid.partition("::")
    if module.startswith(_SECOND_FOLDERS):
        return _SECOND
    if module in _MODULES or (module.startswith(_FOLDERS) and module not in _WITHOUT):
        return _FIRST
    return module


class _Lanes(LoadScopeScheduling):
    """The largest lanes first: those of the sessions."""

    def _split_scope(self, nodeid: str) -> str:
        return lane(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _Lanes:
    return _Lanes(config, log)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if "spark" in getattr(item, "fixturenames", ()) and lane(item.nodeid) not in (_FIRST, _SECOND):
        pytest.fail(f"{item.nodeid} uses the session: its module belongs in tests/harness/lanes.py")
