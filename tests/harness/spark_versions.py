"""A test that needs a newer Spark: ``@pytest.mark.needs_spark("4.1")`` skips it on an older one."""

from __future__ import annotations

import pytest

from headgate.spark.versions.supported import SparkVersion, installed

__all__ = ["pytest_runtest_setup"]


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs_spark"):
        here, since = installed(), SparkVersion.read(mark.args[0])
        if here is not None and here < since:
            pytest.skip(f"needs Spark {since}, and this is {here}")
