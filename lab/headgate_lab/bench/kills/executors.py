"""Executors to be killed: a cluster of processes, on which a soak's drivers run.

Every worker has one executor of one core. When that is killed, its task fails with it, and so do the
blocks and the state that it held; Spark runs the task on the other worker or on the executor that the
worker starts in its place.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import headgate
import headgate_lab
from headgate.demo.session import LOCAL_CHECKPOINTS
from headgate.testing.cluster.standalone import StandaloneCluster
from headgate.testing.tied_server import EndsWithBlock

__all__ = ["Executors", "cluster_settings"]

_WORKERS = 2


def cluster_settings(scratch: Path) -> dict[str, Any]:
    """What a driver of this machine needs besides, for a master that is no ``local``."""
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(scratch / "local"),
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.python.unix.domain.socket.enabled": "true",
        # By default ten executors that are lost end an application, and four failures of a task a query.
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.task.maxFailures": "20",
        **LOCAL_CHECKPOINTS,
    }


class Executors(EndsWithBlock):
    """A master and two workers; their executors find this very Headgate and its laboratory."""

    def __init__(self, folder: Path) -> None:
        roots = {str(Path(package.__file__ or "").parents[1]) for package in (headgate, headgate_lab)}
        environment: Mapping[str, str] = {"PYTHONPATH": os.pathsep.join(sorted(roots))}
        self._cluster = StandaloneCluster.start(
            folder, workers=_WORKERS, cores=1, memory="1g", environment=environment, timeout=180.0
        )
        self.master = self._cluster.master

    def kill_one(self, luck: random.Random) -> int:
        """SIGKILL to the executor of some worker; how many were killed, 0 if none runs now."""
        there = [worker for worker in self._cluster.workers if worker.executors]
        return len(luck.choice(there).kill_executors()) if there else 0

    def stop(self) -> None:
        """End the cluster, with the executors that are left."""
        self._cluster.stop()
