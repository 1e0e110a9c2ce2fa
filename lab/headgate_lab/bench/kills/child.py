"""The driver that is killed: ``child.py FOLDER ATTEMPT NAMES HOW MASTER``, started as a module.

Its sink is idempotent: it writes what a batch kept under the batch's number, and overwrites. Beside
that it leaves what each attempt at a batch saw under a name of its own, to be compared.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headgate.demo.session import quiet_session
from headgate.spark.backfill.backfill import recount
from headgate.spark.backfill.repay import repay
from headgate.spark.join.call import ROCKSDB
from headgate.spark.loop.loop import ControlLoop
from headgate.store.ledger.audit import audit
from headgate_lab.bench.kills.executors import cluster_settings
from headgate_lab.bench.kills.jobs import JOBS, left_out_reader

__all__ = ["PAUSE_S", "main"]

#: How long a batch stands at most before its sink is written, and again before it commits.
PAUSE_S = 0.5
#: What nobody will kill is read in larger batches.
_FILES_TO_FINISH = 8
#: A start costs more than the work here: little is compiled, and a task may fail three times.
_QUICK: dict[str, Any] = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    **dict([ROCKSDB]),
}


def main(folder: Path, attempt: int, names: list[str], *, finish: bool, master: str) -> None:
    """Run the queries until somebody kills this; or to the end of what there is, and repay."""
    scratch = folder / "spark" / str(attempt)
    more = _QUICK if master.startswith("local") else {**_QUICK, **cluster_settings(scratch)}
    with quiet_session(
        scratch, "1g", master=master, name="kills", more=more, log=folder / "spark.log"
    ) as spark:
        mark(folder / "up", attempt)
        if finish:
            _finish(spark, folder, attempt, names)
        else:
            for name in names:
                _start(spark, folder, name, attempt, finish=False)
            spark.streams.awaitAnyTermination()


def mark(path: Path, value: Any) -> None:
    """Write a file as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    with open(part, "w") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    part.rename(path)


def _start(spark: SparkSession, folder: Path, name: str, attempt: int, *, finish: bool) -> Any:
    luck = random.Random(f"{name}/{attempt}")

    def sink(frame: DataFrame, batch: int) -> None:
        ids = [row.id for row in frame.select("id").collect()]
        mark(folder / "seen" / name / f"{batch:06d}-{attempt:04d}.json", ids)
        time.sleep(0.0 if finish else luck.uniform(0.0, PAUSE_S))
        mark(folder / "sink" / name / f"{batch:06d}.json", ids)
        time.sleep(0.0 if finish else luck.uniform(0.0, PAUSE_S))

    files = _FILES_TO_FINISH if finish else 1
    writer = JOBS[name](spark, folder, files).writeStream.foreachBatch(sink).queryName(name)
    writer = writer.option("checkpointLocation", str(folder / "checkpoints" / name))
    return (writer.trigger(availableNow=True) if finish else writer).start()


def _finish(spark: SparkSession, folder: Path, attempt: int, names: list[str]) -> None:
    for name in names:
        _start(spark, folder, name, attempt, finish=True).awaitTermination()
    ControlLoop.of(spark).drain()
    for name in [name for name in names if name in ("gate", "site")]:
        (books,) = audit(folder / "control", name)
        if books.unsettled or books.begun:
            checkpoint = folder / "checkpoints" / name
            rows = left_out_reader(spark, folder, checkpoint)
            recount(spark, name, folder / "control", rows, checkpoint=checkpoint)
        done = repay(spark, name, folder / "control", folder / "late" / name)
        if not done.complete:
            raise RuntimeError(f"{name} is not repaid: {done.to_json()}")
        late = []
        if any((folder / "late" / name).glob("*")):
            late = [row.id for row in spark.read.parquet(str(folder / "late" / name)).collect()]
        mark(folder / "repaid" / f"{name}.json", late)
        mark(folder / "unsettled" / f"{name}.json", [*books.unsettled, *books.begun])
    mark(folder / "done", attempt)


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        int(sys.argv[2]),
        sys.argv[3].split(","),
        finish=sys.argv[4] == "finish",
        master=sys.argv[5],
    )
