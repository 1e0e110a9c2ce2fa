"""Two lanes, with ``-n 2 --dist loadgroup``: all that uses the tests' Spark session, and the rest.

A session serves every test that wants one (`tests.conftest.spark`), so one process runs all of those;
another one has the tests without Spark, and those that start a Spark of their own. Either lane goes by
modules, so that what a module makes once is made once.
"""

from __future__ import annotations

import os

import pytest

__all__ = ["SHARED"]

#: The lane of the one session, and of the one broker. Fixtures that stand on the session count, too:
#: `fixturenames` is the whole closure.
SHARED = "spark"


@pytest.hookimpl(tryfirst=True)  # before xdist looks for the mark
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    for item in items:
        module, _, _ = item.nodeid.partition("::")
        shared = "spark" in getattr(item, "fixturenames", ()) or item.path.parent.name == "kafka"
        item.add_marker(pytest.mark.xdist_group(SHARED if shared else module))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A test's name as it can be given to pytest again, without the lane that xdist adds to it."""
    name, at, lane = report.nodeid.rpartition("@")
    if at and (lane == SHARED or lane.endswith(".py")):
        report.nodeid = name
