"""Spark's classes as a JVM has them once they are loaded, in a file that every JVM of a run maps.

A Spark that starts and runs a query loads and verifies twenty thousand classes, which is most of what
that takes: 19 seconds of a core for a session, a batch query and a stream without the file, 10 with it.
A run starts some dozen of them (sessions, executors, servers, whatever tests kill). ``python -m
tests.harness.jvm.class_archive`` makes the file (class data sharing, JEP 350), once an environment;
`make test` does so by itself. A JVM whose jars are others, or that is another JVM, does without it.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ARCHIVE", "option"]

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
#: What a JVM would say of an archive that is not for it, and of classes that cannot be in one.
_SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"


def option() -> str:
    """What a JVM is told of the archive; nothing where there is none."""
    return f"-XX:SharedArchiveFile={ARCHIVE} {_SILENT}" if ARCHIVE.exists() else ""


def _queries(spark: SparkSession, scratch: Path) -> None:
    """A little of everything that tests do with Spark, so that its classes are loaded."""
    from pyspark.sql import functions as F

    import headgate as hg

    rows = spark.range(200).withColumn("at", F.timestamp_seconds("id")).withColumn("k", F.col("id") % 5)
    rows.write.parquet(str(scratch / "rows"))
    rows.groupBy("k").agg(F.sum("id"), F.collect_list("id")).join(rows, "k").orderBy("id").toPandas()
    spark.createDataFrame([(1, "a"), (2, None)], "n int, s string").toArrow()
    rows.mapInArrow(lambda batches: batches, rows.schema).collect()
    stream = spark.readStream.schema(rows.schema).parquet(str(scratch / "rows"))
    kept = stream.transform(hg.gate("rows", hold="2 seconds", control=str(scratch / "control")))
    counts = (
        kept.withWatermark("at", "1 minute").groupBy(F.window("at", "1 minute")).agg(F.sum("_weight"))
    )
    for name, frame, mode in (("kept", kept, "append"), ("counts", counts, "update")):
        writer = frame.writeStream.format("memory").queryName(name).outputMode(mode)
        writer.trigger(availableNow=True).start().awaitTermination()
        spark.table(name).collect()


def _make() -> None:
    from pyspark import SparkContext

    from headgate.demo.session import quiet_session

    part = ARCHIVE.with_suffix(f".{os.getpid()}")
    os.environ["SPARK_SUBMIT_OPTS"] = (
        f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ArchiveClassesAtExit={part} {_SILENT}"
    )
    with tempfile.TemporaryDirectory() as scratch:
        with quiet_session(Path(scratch), name="headgate-classes") as spark:
            _queries(spark, Path(scratch))
            gateway = SparkContext._gateway
        gateway.proc.stdin.close()  # type: ignore[union-attr] # so that it ends, and writes what it has
        gateway.proc.wait(120)  # type: ignore[union-attr]
    part.rename(ARCHIVE)


if __name__ == "__main__":
    logging.disable()  # the control loop outlives its JVM here
    print(f"making {ARCHIVE.name}, once: Spark's classes for the JVMs of all tests", flush=True)
    _make()
