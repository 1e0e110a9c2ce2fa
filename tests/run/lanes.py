"""Two processes, with ``-n 2 --dist loadscope``, and what each of them runs in one go.

A Spark session serves every test that wants one (`tests.conftest.spark`); starting it and warming it up
takes half a minute. So all that uses a session runs in two lanes, a session and a process each: gates
and what is around them in one, joins, estimates and figures in the other. All other modules, also those
that start a Spark of their own, fill up whichever process is free. (The marks of ``--dist loadgroup``
would say it at each test, but pytest-xdist 3.8 does not see them under pytest 9.2.)
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

__all__ = ["LANES", "lane"]

#: Each has a session of its own; the first one has the broker, too.
LANES = ("gates", "estimates")

_FOLDERS = ("tests/spark/", "tests/kafka/")
_MODULES = ("tests/test_docs.py", "tests/run/test_hangs.py")


def _in_spark(*names: str) -> frozenset[str]:
    return frozenset(f"tests/spark/test_{name}.py" for name in names)


_ESTIMATES = _in_spark(
    "cod_figures_on_spark", "concept_bench", "estimate_coverage", "estimators", "figures_on_spark",
    "gate_join", "guarded_traces", "join", "join_work", "student", "table1",
)  # fmt: skip
#: With no Spark at all, or with one of their own.
_WITHOUT = _in_spark("connect", "guard_memory", "guard_task", "join_run", "kill", "predicates")


def lane(nodeid: str) -> str:
    """What a test runs after: all tests of a lane run in one process, one after the other."""
    module, _, _ = nodeid.partition("::")
    if module in _ESTIMATES:
        return "estimates"
    if module in _MODULES or (module.startswith(_FOLDERS) and module not in _WITHOUT):
        return "gates"
    return module


class _Lanes(LoadScopeScheduling):
    """The largest first: those are the sessions'."""

    def _split_scope(self, nodeid: str) -> str:
        return lane(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _Lanes:
    return _Lanes(config, log)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if "spark" in getattr(item, "fixturenames", ()) and lane(item.nodeid) not in LANES:
        pytest.fail(f"{item.nodeid} uses the session: its module belongs in tests/run/lanes.py")
