"""A JVM that dies under a run has a name too, and costs one test, not all that come after it.

The kernel takes the largest process when a machine is short of memory, and a JVM can crash. Then every
later test of that process would fail with "Connection refused", and nothing would say why. So what ended
it, what the machine's memory was and what the JVM wrote of its crash goes into the run's folder and to
the end of the run's report; a new session is made for the tests that follow; and the one test that it
died under is run again. Once a process: a JVM that dies twice is no accident, and those tests fail.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from _pytest.runner import runtestprotocol

from tests.harness.folder import run_folder
from tests.harness.jvm.options import add_options

__all__ = ["java_has_ended"]

#: How much of the JVM's own words on its crash goes into the report.
_MOST = 4_000
#: A connection that breaks is seen before the process is gone.
_PATIENCE_S = 2.0

_deaths: list[str] = []


def pytest_configure() -> None:
    add_options(f"-XX:ErrorFile={run_folder()}/hs_err_%p.log")


def _process() -> Any:
    from pyspark import SparkContext

    return getattr(SparkContext._gateway, "proc", None)


def java_has_ended() -> bool:
    """Whether the session's JVM was there and is gone."""
    process = _process()
    return process is not None and process.poll() is not None


def _largest() -> str:
    found = []
    for process in psutil.process_iter(["pid", "name", "memory_info"]):
        if memory := process.info["memory_info"]:
            found.append((memory.rss >> 20, process.info["name"], process.info["pid"]))
    return ", ".join(f"{name} {pid}: {mib} MiB" for mib, name, pid in sorted(found, reverse=True)[:6])


def _what_happened(item: pytest.Item) -> str:
    process = _process()
    code, memory = process.returncode, psutil.virtual_memory()
    how = f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit code {code}"
    text = (
        f"Spark's JVM {process.pid} ended with {how} under {item.nodeid}\n"
        f"memory afterwards: {memory.available >> 20} of {memory.total >> 20} MiB are free; {_largest()}"
    )
    crash = Path(run_folder(), f"hs_err_{process.pid}.log")
    return text + (f"\n{crash.read_text()[:_MOST]}" if crash.exists() else "")


def _forget_the_session(item: Any) -> None:
    """So that the next test that asks for the session, or for what was made with it, makes it anew."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    item._initrequest()
    for fixture in item.session._fixturemanager.getfixturedefs("spark", item) or ():
        fixture.finish(item._request)  # and with it whatever fixtures were made from it
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


def _died_under(item: pytest.Item, reports: list[pytest.TestReport]) -> bool:
    if not any(report.failed for report in reports):
        return java_has_ended()
    until = time.monotonic() + _PATIENCE_S
    while not java_has_ended() and time.monotonic() < until:
        if _process() is None or not any("py4j" in report.longreprtext for report in reports):
            return False
        time.sleep(0.1)
    return java_has_ended()


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if "spark" not in getattr(item, "fixturenames", ()):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    if _died_under(item, reports):
        said = _what_happened(item)
        _deaths.append(said)
        with open(run_folder() / "java-deaths.txt", "a") as file:
            file.write(f"{said}\n\n")
        _forget_the_session(item)
        if len(_deaths) == 1:
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
        for report in reports:
            report.sections.append(("Spark's JVM died", said))
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_terminal_summary(terminalreporter: Any) -> None:
    deaths = run_folder() / "java-deaths.txt"
    if deaths.exists():
        terminalreporter.section("Spark's JVM died, and its session was made again")
        terminalreporter.write_line(deaths.read_text())
