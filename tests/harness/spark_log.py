"""What Spark says at WARN and above: in a file of the run, and in the report of a test that fails.

Every JVM of the run writes there (`tests.harness.jvm.options`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.folder import run_folder
from tests.harness.jvm.options import add_options

_CONFIG = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.append = true
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{HH:mm:ss.SSS}} %pid %p %c{{1}}: %m%n%ex
# A query that a test stops in the middle of a batch: Spark says how each task of it was interrupted.
logger.stop.name = org.apache.spark.util.Utils
logger.stop.level = error
"""
#: What of the log goes into a report: its end.
_MOST = 20_000

_BEGAN = pytest.StashKey[int]()


def _log() -> Path:
    return run_folder() / "spark.log"


def pytest_configure(config: pytest.Config) -> None:
    settings = run_folder() / "log4j2.properties"
    settings.write_text(_CONFIG.format(log=_log()))
    add_options(f"-Dlog4j2.configurationFile=file:{settings}")


def _size() -> int:
    try:
        return _log().stat().st_size
    except OSError:
        return 0


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_BEGAN] = _size()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    began = item.stash.get(_BEGAN, 0)
    if report.failed and _size() > began:
        with open(_log(), "rb") as file:
            file.seek(max(began, _size() - _MOST))
            said = file.read().decode(errors="replace")
        report.sections.append((f"Spark, WARN and above (whole run: {_log()})", said))
    return report
