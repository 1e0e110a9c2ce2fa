"""How `tests/whatif/recorded` was made: runs of one load on a real Spark, as their progress says.

    python -m tests.whatif.record_runs FOLDER 2.0 0.25
    python -m tests.whatif.record_runs FOLDER 0.9 0.12

Rows that are hashed over and over: for 8 seconds in every 24 so many times what the machine hashes in a
batch job, and in between the second number; once behind a gate that monitors, and once behind one that
sheds. Four minutes. Of the first line the run that shed was kept (the other one snowballed, and ended
seven batches); of the second line both were.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

import headgate as hg
from headgate.demo.session import quiet_session
from headgate.spark.loop.progress import recent_reports

ARRIVAL, HASHES, TRIAL = "timestamp", 30, 400_000
TARGET_S, SECONDS, EVERY_S = 2.0, 90.0, 24
#: Parts of a report that say nothing here, and are most of it.
_LEFT_OUT = ("stateOperators", "eventTime")


def main(folder: Path, burst: float, calm_load: float) -> None:
    """Measure what the machine sustains, then run and save both."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch,
        quiet_session(Path(scratch)) as spark,
    ):
        spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
        sustained = _rows_a_second(spark)
        print(f"{sustained:,.0f} rows a second", flush=True)
        rate = str(round(burst * sustained))
        rows = spark.readStream.format("rate").options(rowsPerSecond=rate, numPartitions="2").load()
        third = F.pmod(F.floor(F.unix_timestamp(ARRIVAL) / (EVERY_S // 3)), F.lit(3))
        calm = F.pmod(F.xxhash64("value", F.lit("calm")), F.lit(1000)) < round(1000 * calm_load / burst)
        rows = rows.where((third == 0) | calm)
        for mode in ("monitor", "shed"):
            gate = hg.gate(
                mode,
                hold=TARGET_S,
                control=f"{scratch}/control",
                arrival=ARRIVAL,
                mode=mode,
                keep=["value % 5 = 0"],
            )
            while time.time() % EVERY_S > 1.0:  # both meet the same bursts
                time.sleep(0.1)
            hashed = rows.transform(gate).select(_work("value").alias("hash"))
            writer = hashed.writeStream.format("noop").trigger(processingTime="1 second")
            query = writer.option("checkpointLocation", f"{scratch}/{mode}").start()
            query.awaitTermination(SECONDS)  # type: ignore[arg-type]
            reports = [json.loads(report) for report in recent_reports(query)]
            query.stop()
            _save(reports, folder / f"{mode}.jsonl.gz")


def _work(column: str) -> Column:
    """Some ten microseconds of a core."""
    found = F.col(column).cast("string")
    for _ in range(HASHES):
        found = F.sha2(found, 512)
    return found


def _rows_a_second(spark: SparkSession) -> float:
    """What the machine sustains on the rows alone, once it is warm."""
    took = 0.0
    for _ in range(3):
        began = time.monotonic()
        spark.range(0, TRIAL, 1, 2).select(F.max(_work("id"))).collect()
        took = time.monotonic() - began
    return TRIAL / took


def _save(reports: list[dict[str, Any]], path: Path) -> None:
    kept = [{k: v for k, v in report.items() if k not in _LEFT_OUT} for report in reports]
    text = "".join(json.dumps(report, separators=(",", ":")) + "\n" for report in kept)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(path, len(kept), path.stat().st_size, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
