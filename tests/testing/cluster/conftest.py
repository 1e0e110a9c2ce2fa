"""One cluster for the room: a master, two workers and an S3 server; where jars cannot be had, a skip.

The clock of one worker's Python is five minutes behind the driver's, that of the other one ahead.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from headgate.testing.artifacts import ArtifactsUnavailable
from tests.harness.jvm.class_archive import option
from tests.testing.cluster.bench import Machines, Trial

CLOCKS_OFF_S = (-300.0, 300.0)


@pytest.fixture(scope="session")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    pytest.importorskip("obstore", reason="pip install 'headgate[objects]'")
    from headgate.testing.cluster.packed import pack_headgate
    from headgate.testing.cluster.s3a import s3a_jars
    from headgate.testing.cluster.standalone import StandaloneCluster
    from headgate.testing.seaweed import Seaweed

    folder = tmp_path_factory.mktemp("cluster")
    try:
        jars = s3a_jars()
        server = Seaweed.start(folder / "s3")
    except ArtifactsUnavailable as error:
        pytest.skip(f"no cluster: {error.reason}")
    with server:
        # JVMs share Spark's classes (tests/harness/jvm) if their class paths are the same: all have one
        # folder of settings, which is not there, and so is on no path.
        environment = {
            **server.environment(),
            "SPARK_CONF_DIR": str(folder / "no-settings"),
            "SPARK_DAEMON_JAVA_OPTS": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {option()}",
        }
        with StandaloneCluster.start(
            folder / "cluster", environment=environment, clocks_off_s=CLOCKS_OFF_S
        ) as cluster:
            yield Machines(
                cluster, server, folder, environment, jars, pack_headgate(folder / "headgate.zip")
            )


@pytest.fixture
def trial(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Trial]]:
    """Makes a trial with a bucket of its own; this process finds the server, too."""
    import obstore.store

    from headgate.store.places.objects import Objects

    for name, value in machines.environment.items():
        monkeypatch.setenv(name, value)
    Objects.forget()
    trials: list[Trial] = []

    def make() -> Trial:
        bucket = f"t{uuid.uuid4().hex[:10]}"
        store = obstore.store.from_url(
            f"s3://{bucket}", endpoint=machines.server.endpoint, client_options={"allow_http": True}
        )
        machines.server.bucket(bucket)
        trials.append(Trial(machines, bucket, store))
        return trials[-1]

    yield make
    for one in trials:
        for driver in one.drivers:
            driver.stop()
    Objects.forget()
