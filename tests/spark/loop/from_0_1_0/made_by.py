"""Writes this folder, with Headgate 0.1.0 on the path: two gates, three batches, the last cut off.

git archive 80b6b00 src | tar -x -C OLD
PYTHONPATH=OLD/src python tests/spark/loop/from_0_1_0/made_by.py tests/spark/loop/from_0_1_0
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

ROWS, FILES = 40, 3


def write_input(folder: Path, first: int, last: int) -> None:
    """Files of rows with numbers from `first` file to `last`."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in range(first, last):
        ids = range(file * ROWS, (file + 1) * ROWS)
        lines = [json.dumps({"id": i, "route": f"r{i % 3}"}) for i in ids]
        (folder / f"{file}.json").write_text("\n".join(lines))


def main(target: Path) -> None:
    """Run the query, and take away its last commit."""
    from pyspark.sql import SparkSession

    import headgate as hg
    from headgate.spark.loop import ControlLoop

    assert hg.__version__ == "0.1.0", hg.__version__
    scratch = Path(tempfile.mkdtemp())
    write_input(scratch / "in", 0, FILES)
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    frame = spark.readStream.schema("id bigint, route string").option("maxFilesPerTrigger", 1)
    frame = frame.json(str(scratch / "in"))
    control = scratch / "control"
    frame = frame.transform(hg.gate("half", rate=0.5, identity="id", floor=0.05, control=control))
    frame = frame.transform(hg.gate("held", hold="1 hour", control=control))
    kept: dict[int, list[int]] = {}

    def record(rows: Any, batch: int) -> None:
        kept[batch] = sorted(row.id for row in rows.select("id").collect())

    writer = frame.writeStream.foreachBatch(record)
    writer = writer.option("checkpointLocation", str(scratch / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    ControlLoop.of(spark).drain()
    spark.stop()
    (scratch / "checkpoint" / "commits" / str(FILES - 1)).unlink()
    for path in (*scratch.rglob("*.crc"), *scratch.rglob(".*.tmp")):
        path.unlink()
    for name in ("checkpoint", "control"):
        shutil.rmtree(target / name, ignore_errors=True)
        shutil.copytree(scratch / name, target / name)
    (target / "kept.json").write_text(json.dumps({"written_at": str(scratch), "kept": kept}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
