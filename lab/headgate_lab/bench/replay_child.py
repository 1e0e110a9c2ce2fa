"""The process that `bench replay` kills: a gated file stream that notes what each attempt kept.

Run as ``python -m headgate_lab.bench.replay_child FOLDER ATTEMPT``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.demo.session import quiet_session
from headgate.spark.gate.call import gate

__all__ = ["GATE", "PAUSE_S", "SCHEMA", "main"]

GATE = "replay"
SCHEMA = "id bigint"
#: How long a batch stands between its work and its commit.
PAUSE_S = 0.4


def main(folder: Path, attempt: int) -> None:
    """Work through all files, one a batch, and note the kept ids before each batch commits."""
    with quiet_session(folder / "spark") as spark:
        _run(spark, folder, attempt)
    (folder / "done").write_text("all files processed")


def _run(spark: SparkSession, folder: Path, attempt: int) -> None:
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    stream = stream.withColumn("coin", F.rand(7))
    gated = stream.transform(gate(GATE, rate=0.5, control=folder / "control", identity="id"))

    def note(frame: DataFrame, batch: int) -> None:
        rows = frame.select("id", "coin").collect()
        kept = {"gate": [r.id for r in rows], "rand": [r.id for r in rows if r.coin < 0.3]}
        path = folder / "out" / f"{batch:06d}-{attempt:04d}.json"
        part = path.with_suffix(".part")
        with open(part, "w") as file:
            json.dump(kept, file)
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
        time.sleep(PAUSE_S)  # leave a kill the time to land between the work and the commit

    checkpoint = str(folder / "checkpoint")
    query = gated.writeStream.foreachBatch(note).option("checkpointLocation", checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
