"""One Spark session for the whole run, made when the first test asks for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

pytest_plugins = [
    f"tests.harness.{name}"
    for name in (
        "hangs",
        "jvm.options",
        "jvm.death",
        "spark_log",
        "memory",
        "core_seconds",
        "lanes",
        "spark_versions",
    )
]

#: A machine that is busy for a moment is no fault of the code under test; and a change is not to fail
#: for what was there before it: new examples are looked for with HEADGATE_SEARCH=1 (make test-all).
hypothesis.settings.register_profile(
    "headgate",
    deadline=None,
    derandomize=not os.environ.get("HEADGATE_SEARCH"),
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(
    "fast", hypothesis.settings.get_profile("headgate"), max_examples=15
)
hypothesis.settings.load_profile("fast" if os.environ.get("HEADGATE_FAST") else "headgate")

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
# No test asks a server that it did not start, nor for anybody's real credentials: nobody listens there.
os.environ.update(
    AWS_ENDPOINT_URL="http://127.0.0.1:9",
    AWS_ACCESS_KEY_ID="test",
    AWS_SECRET_ACCESS_KEY="test",
    AWS_REGION="us-east-1",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts Spark or a broker, so that the edit loop can leave it out."""
    for item in items:
        folders = item.path.relative_to(item.config.rootpath).parts[:-1]
        needs_it = "spark" in getattr(item, "fixturenames", ())
        if needs_it or (folders[0] == "tests" and {"spark", "kafka"} & set(folders)):
            item.add_marker("spark")


def _remember_classes() -> None:
    """What PySpark asks the JVM for by name, at every column and frame, and forty times at every error:
    each time Java would look for that name in every jar, behind every package that is imported. A class
    once found stays what it is, and so does a package.
    """
    from py4j.java_gateway import JavaClass, JavaPackage, JVMView

    def remember(asked: type) -> None:
        ask = asked.__getattr__

        def remembered(self: Any, name: str) -> Any:
            found = ask(self, name)
            if isinstance(found, JavaClass | JavaPackage):
                self.__dict__[name] = found
            return found

        asked.__getattr__ = remembered

    for asked in (JVMView, JavaPackage):
        remember(asked)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """A local session: UI off, two shuffle partitions, its scratch in a folder of the run."""
    from pyspark.sql import SparkSession

    from headgate.demo.session import LOCAL_CHECKPOINTS
    from headgate.testing.broker import connector_jars
    from tests.harness.jvm.death import java_has_ended
    from tests.harness.jvm.options import FOR_LONG
    from tests.harness.memory import HEAP
    from tests.harness.warm.python_daemon import WARM_WORKERS

    scratch = tmp_path_factory.mktemp("spark")
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("headgate-tests")
        .config("spark.driver.memory", HEAP)
        .config("spark.driver.extraJavaOptions", f"-Xms{HEAP} -Xmn700m {FOR_LONG}")  # grown at once
        # Queries of one shape share compiled code: all of a module's, and not the last few tests'.
        .config("spark.sql.codegen.cache.maxEntries", "1000")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.local.dir", str(scratch / "local"))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config(map=WARM_WORKERS)
        .config(map=LOCAL_CHECKPOINTS)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        # What Spark remembers for its UI, which is off: plans and tasks of what ran long ago.
        .config("spark.ui.retainedJobs", "50")
        .config("spark.ui.retainedStages", "50")
        .config("spark.ui.retainedTasks", "1000")
        .config("spark.sql.ui.retainedExecutions", "20")
        .config("spark.sql.streaming.ui.retainedQueries", "5")
    )
    jars, _ = connector_jars()  # None where they cannot be had: the Kafka tests then say why
    if jars:
        builder = builder.config("spark.jars", ",".join(jars))
    _remember_classes()
    session = builder.getOrCreate()
    yield session
    if not java_has_ended():
        session.stop()


@pytest.fixture
def control(tmp_path: Path) -> Path:
    """A control folder."""
    return tmp_path / "control"
