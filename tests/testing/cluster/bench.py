"""A cluster, a bucket and drivers that come and go: what the tests of this room share."""

from __future__ import annotations

import itertools
import json
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import obstore

from headgate.store.ledger.audit import audit
from headgate.store.places.place import control_place
from headgate.store.settings_file import SettingsFile
from headgate.testing.cluster.driver import Driver
from headgate.testing.cluster.s3a import s3a_conf
from headgate.testing.cluster.standalone import StandaloneCluster
from headgate.testing.seaweed import Seaweed
from tests.eventually import eventually
from tests.harness.jvm.class_archive import option

JOB = Path(__file__).with_name("job.py")
ROWS = 300


@dataclass(frozen=True)
class Machines:
    """What is started once for all tests of the room."""

    cluster: StandaloneCluster
    server: Seaweed
    folder: Path
    environment: dict[str, str]
    jars: list[str]
    #: Headgate, packed.
    archive: Path


@dataclass
class Trial:
    """A bucket of its own, and the drivers that worked on it."""

    machines: Machines
    bucket: str
    store: Any
    drivers: list[Driver] = field(default_factory=list)
    kills: int = 0

    @property
    def control(self) -> str:
        return f"s3://{self.bucket}/control"

    def put_input(self, files: int) -> list[int]:
        """So many files, no two of a size; the ids in them."""
        for file in range(files):
            ids = range(file * ROWS, (file + 1) * ROWS - file)
            rows = [{"id": i, "route": f"r{i % 4}", "at": "2030-01-01T00:00:00Z"} for i in ids]
            text = "\n".join(json.dumps(row) for row in rows)
            self.store.put(f"in/{file:05d}.json", text.encode())
        return [i for file in range(files) for i in range(file * ROWS, (file + 1) * ROWS - file)]

    def hold(self, key: str) -> None:
        self.store.put(f"hold/{key}", b"1")

    def release(self, key: str) -> None:
        self.store.delete(f"hold/{key}")

    def names(self, prefix: str) -> list[str]:
        found = obstore.list(self.store, prefix).collect()
        return sorted(str(meta["path"]) for meta in found)

    def value(self, key: str) -> Any:
        return json.loads(bytes(self.store.get(key).bytes()))

    def submit(self, *steps: str, **given: Any) -> Driver:
        """One more driver, in a folder of its own."""
        machines = self.machines
        conf = {
            **s3a_conf(machines.server.endpoint),
            "spark.jars": ",".join(machines.jars),
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {option()}",
            "spark.driver.memory": "512m",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "UTC",
            "spark.python.unix.domain.socket.enabled": "true",
            "spark.deploy.maxExecutorRetries": "-1",
            "spark.task.maxFailures": "10",
            **given.pop("conf", {}),
        }
        driver = Driver(
            machines.folder / f"driver-{uuid.uuid4().hex[:8]}",
            JOB,
            [self.bucket, *steps],
            master=machines.cluster.master,
            conf=conf,
            py_files=given.pop("py_files", [machines.archive]),
            environment={**machines.environment, **given.pop("environment", {})},
            **given,
        )
        self.drivers.append(driver)
        return driver

    def await_names(self, prefix: str, count: int, driver: Driver) -> list[str]:
        """Names that a job leaves, as soon as there are so many; fails when the job ends before."""

        def look() -> list[str]:
            found = self.names(prefix)
            if len(found) < count and not driver.running:
                driver.result(1.0)
                raise AssertionError(f"the job ended, and left {len(found)} of {count} at {prefix}")
            return found if len(found) >= count else []

        return eventually(look, f"{count} at {prefix}", within_s=240.0)

    def kill_executors(self, worker: int) -> None:
        killed = self.machines.cluster.workers[worker].kill_executors()
        assert killed, "a worker without an executor cannot lose one"
        self.kills += len(killed)

    def kill_driver(self, driver: Driver) -> None:
        """SIGKILL to it and its JVM; its executors end, and another may have their cores."""
        driver.kill()
        self.kills += 1
        workers = self.machines.cluster.workers
        eventually(
            lambda: not any(w.executors for w in workers), "the killed driver's executors are gone"
        )

    def change_rate(self, gate: str, rate: float) -> None:
        """Another rate from now on: a replay that asks for today's plan would keep other rows."""
        SettingsFile(control_place(self.control), gate).change(rate=rate)

    def attempts(self, name: str) -> dict[tuple[str, str], list[set[int]]]:
        """What each attempt at a partition of a batch saw behind the gate."""
        found: dict[tuple[str, str], list[set[int]]] = {}
        for key in self.names(f"seen/{name}/"):
            _, _, batch, partition, _ = key.split("/")
            found.setdefault((batch, partition), []).append(set(self.value(key)))
        return found

    def jaccard(self, name: str) -> tuple[int, float]:
        """Batches that were attempted more than once, and the least likeness of two attempts."""
        several = {key: seen for key, seen in self.attempts(name).items() if len(seen) > 1}
        alike = [
            len(a & b) / len(a | b)
            for seen in several.values()
            for a, b in itertools.combinations(seen, 2)
        ]
        return len({batch for batch, _ in several}), min(alike, default=float("nan"))

    def sunk(self, name: str) -> list[int]:
        """What the sink has of each batch at its last attempt: all attempts must agree."""
        by_batch: dict[str, set[frozenset[int]]] = {}
        for key in self.names(f"sunk/{name}/"):
            by_batch.setdefault(key.split("/")[2], set()).add(frozenset(self.value(key)))
        assert all(len(one) == 1 for one in by_batch.values()), "a replayed batch has other rows"
        return [i for (rows,) in by_batch.values() for i in rows]

    def audits(self) -> dict[str, Any]:
        return {one.gate: one for one in audit(control_place(self.control))}
