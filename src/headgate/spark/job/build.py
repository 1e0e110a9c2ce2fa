"""The query of a job: source, SQL, gate, SQL, sink; what Spark refuses is said of the file's line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.durations import Duration, seconds
from headgate.errors import HeadgateError
from headgate.job.job import Job
from headgate.job.problems import JobProblems
from headgate.job.schema import AVAILABLE_NOW
from headgate.spark.gate.call import gate

# isort: split
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["gated_frame", "start_job"]


def start_job(spark: SparkSession, job: Job, scratch: Path, *, once: bool = False) -> StreamingQuery:
    """Start the job's query; `once` takes what there is now, and ends.

    A sink for trials with no checkpoint has one in `scratch`. Raises `JobProblems` where Spark refuses
    what the file says.
    """
    frame = gated_frame(spark, job)
    with _said_of(job, "sink"):
        return _started(_for_sink(frame, job), job, scratch, once)


def gated_frame(spark: SparkSession, job: Job) -> DataFrame:
    """The rows that the sink gets."""
    with _said_of(job, "source"):
        rows = _source(spark, job)
    if job.sql.before is not None:
        with _said_of(job, "sql", "before"):
            rows = _selected(spark, job.sql.before, "source", rows)
    with _said_of(job, "gate"):
        rows = rows.transform(gate(**job.gate))
    if job.sql.watermark is not None:
        column, late = job.sql.watermark
        with _said_of(job, "sql", "watermark"):
            rows = rows.withWatermark(column, _interval(late))
    if job.sql.after is not None:
        with _said_of(job, "sql", "after"):
            rows = _selected(spark, job.sql.after, job.sql.view, rows)
    return rows


def _source(spark: SparkSession, job: Job) -> DataFrame:
    source = job.source
    reader = spark.readStream.format(source.format).options(**source.options)
    if source.schema is not None:
        reader = reader.schema(source.schema)
    if source.table is not None:
        return reader.table(source.table)
    return reader.load() if source.path is None else reader.load(source.path)


def _selected(spark: SparkSession, sql: str, view: str, rows: DataFrame) -> DataFrame:
    """What a SELECT makes of the rows, which it knows under this name and nobody else does."""
    rows.createOrReplaceTempView(view)
    try:
        return spark.sql(sql)
    finally:
        spark.catalog.dropTempView(view)


def _for_sink(rows: DataFrame, job: Job) -> DataFrame:
    """The columns that the sink takes: to Kafka a row goes as JSON, unless it has a value already."""
    if job.sink.format != "kafka" or ("value" in rows.columns and job.sink.key is None):
        return rows
    if job.sink.key is not None and job.sink.key not in rows.columns:
        said = f"key={job.sink.key!r} is no column of the result; these are: {', '.join(rows.columns)}"
        raise JobProblems(job.lines.file, [job.lines.problem(("sink", "key"), said)])
    value = F.col("value") if "value" in rows.columns else F.to_json(F.struct("*"))
    if job.sink.key is None:
        return rows.select(value.alias("value"))
    return rows.select(F.col(job.sink.key).cast("string").alias("key"), value.alias("value"))


def _started(rows: DataFrame, job: Job, scratch: Path, once: bool) -> StreamingQuery:
    sink = job.sink
    writer = rows.writeStream.format(sink.format).queryName(job.name).outputMode(sink.mode)
    writer = writer.options(**sink.options)
    checkpoint = sink.checkpoint or str(scratch / "checkpoint")
    writer = writer.option("checkpointLocation", checkpoint)
    if once or sink.trigger == AVAILABLE_NOW:
        writer = writer.trigger(availableNow=True)
    elif sink.trigger is not None:
        writer = writer.trigger(processingTime=_interval(sink.trigger))
    if sink.table is not None:
        return writer.toTable(sink.table)
    return writer.start() if sink.path is None else writer.start(sink.path)


def _interval(value: Duration) -> str:
    return f"{round(1000 * seconds(value))} milliseconds"


@contextmanager
def _said_of(job: Job, *path: str) -> Iterator[None]:
    """Spark's refusals, and Headgate's own, as problems of the line that they are about."""
    try:
        yield
    except JobProblems:
        raise
    except (PySparkException, HeadgateError) as error:
        said = job.secrets.shown(first_words(error))
        key = said.partition("=")[0]
        blamed = (*path, key) if (*path, key) in job.lines.found else path
        raise JobProblems(job.lines.file, [job.lines.problem(blamed, said)]) from error


def first_words(error: BaseException) -> str:
    """What an error says, without the plan and the stack that Spark adds."""
    said: Any = error.getMessage() if isinstance(error, PySparkException) else str(error)
    lines = [line.strip() for line in str(said or error).strip().splitlines()]
    ends = next((n for n, line in enumerate(lines) if not line or line.startswith(("'", "at "))), None)
    return " ".join(lines[:ends]) or type(error).__name__
