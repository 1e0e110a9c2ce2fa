"""Three processes, with ``-n 3 --dist loadscope``, a Spark session in two of them, and all end together.

A module runs as a whole, in whichever process comes to it. Modules on the session stand in a row: one
process takes them from its beginning (the broker, gates, guards), the other one from its end (the
laboratory, estimates, joins), and they meet where they meet. So a session sees one kind of query after
the other, as what it has loaded and compiled is good for the next one. Streams wait now and then, for a
trigger or for each other, and leave a third of two cores idle: the third process uses that for the
modules that need no session, or start a Spark of their own; those that take longest first, so that what
is left in the end is short. It makes no session: whoever comes to the end of the row helps with the
rest. (The marks of ``--dist loadgroup`` would say at each test what belongs together, but pytest-xdist
3.8 does not see them under pytest 9.2.)
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

__all__ = ["lane", "turn"]

#: How many processes have a session; with a heap of 2.5 GiB each, and more to do than two cores can.
_SESSIONS = 2
#: What is on the session, in the order of the row.
_ROW = (
    *(
        "tests/kafka/",
        "tests/demo/",
        "tests/test_docs.py",
        "tests/harness/test_hangs.py",
        "tests/spark/gate/",
        "tests/spark/loop/",
        "tests/spark/job/",
    ),
    *(
        "tests/spark/backfill/",
        "tests/spark/recipe/",
        "tests/spark/guard/",
        "tests/spark/dropped/",
        "tests/spark/groups/",
        "tests/spark/sites/",
    ),
    *(
        "tests/spark/objects/",
        "tests/spark/doctor/",
        "tests/spark/versions/",
        "tests/spark/tables/",
        "tests/spark/join/",
        "tests/spark/estimates/",
        "tests/lab/spark/",
    ),
)
#: Modules of these folders with no Spark at all, or with one of their own.
_WITHOUT = tuple(
    f"tests/spark/{name}.py"
    for name in (
        *("connect/test_connect", "guard/test_guard_memory", "guard/test_guard_task"),
        "job/test_run_command",
        *("objects/test_guard_memory_on_objects", "objects/test_objects_on_spark"),
        *(
            "join/test_join_run",
            "backfill/test_repay_kill",
            "backfill/test_hostile_offsets",
            "backfill/test_left_unsettled",
            "guard/test_hostile_memory",
            "dropped/test_attempts",
            "gate/test_predicates",
            "gate/test_batch_size",
        ),
    )
)
#: What modules of these folders make, others of them use: a broker, figures that were drawn, a cluster.
_TOGETHER = ("tests/kafka/", "tests/lab/figures/", "tests/testing/cluster/")
#: Without the session, and half a minute or more: these come before the others.
_LONG = (
    *("tests/spark/connect/", "tests/spark/backfill/test_repay_kill", "tests/spark/objects/"),
    *("tests/testing/cluster/",),
    *("tests/lab/figures/", "tests/lab/bench/", "tests/lab/sim/", "tests/control/", "tests/joins/"),
)


def lane(nodeid: str) -> str:
    """What a test runs with: its module; all tests of the broker, and of figures, with each other."""
    module, _, _ = nodeid.partition("::")
    return next((folder for folder in _TOGETHER if module.startswith(folder)), module)


def turn(scope: str) -> int | None:
    """Where a scope stands in the row of those on the session; None: it is not on it."""
    if scope in _WITHOUT:
        return None
    return next((place for place, part in enumerate(_ROW) if scope.startswith(part)), None)


class _Lanes(LoadScopeScheduling):
    """Gives each process what is next from its side of the row."""

    def _split_scope(self, nodeid: str) -> str:
        return lane(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        self.workqueue.move_to_end(self._next(self.nodes.index(node)), last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: Any) -> None:
        if self.nodes.index(node) >= _SESSIONS and all(
            turn(scope) is not None for scope in self.workqueue
        ):
            node.shutdown()  # once it has done what it has
        else:
            super()._reschedule(node)

    def _next(self, process: int) -> str:
        row = sorted((place, scope) for scope in self.workqueue if (place := turn(scope)) is not None)
        others = [scope for scope in self.workqueue if turn(scope) is None]
        if row and (process < _SESSIONS or not others):
            return row[-1 if process == 1 else 0][1]
        # As many tests as any among the long ones, or among the others.
        return max(others, key=lambda scope: (scope.startswith(_LONG), len(self.workqueue[scope])))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _Lanes:
    return _Lanes(config, log)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if "spark" in getattr(item, "fixturenames", ()) and turn(lane(item.nodeid)) is None:
        pytest.fail(f"{item.nodeid} uses the session: its module belongs in tests/harness/lanes.py")
