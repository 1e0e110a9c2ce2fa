"""A job file as a query on a real Spark: what it keeps, its books, and what Spark refuses."""

from __future__ import annotations

import inspect
import json
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from headgate.core.rescue import Rescue
from headgate.job.job import Job
from headgate.job.problems import JobProblems
from headgate.job.reading import read_job
from headgate.job.schema import CONCEPT_DRIVEN, GATE, RESCUE
from headgate.policies.by_group.concept_driven import ConceptDriven
from headgate.spark.gate.call import gate
from headgate.spark.job.build import gated_frame, start_job
from headgate.spark.job.running import RunningJob
from headgate.spark.loop.loop import ControlLoop
from tests.spark.conftest import records

FILES = """
[source]
format = "json"
path = "in"
schema = "id BIGINT, route STRING, at TIMESTAMP"
options = { maxFilesPerTrigger = 1 }
[sql]
before = "SELECT id, at, upper(route) AS route FROM source"
after = '''
SELECT window.start AS start, route, sum(_weight) AS rides, count(*) AS kept
FROM calm GROUP BY window(at, '1 minute'), route
'''
view = "calm"
watermark = { column = "at", delay = "10 seconds" }
[gate]
name = "rides"
rate = 0.5
control = "control"
identity = "id"
keep = "route = 'VIP'"
[sink]
format = "parquet"
path = "out"
checkpoint = "checkpoint"
"""


def _written(folder: Path, text: str) -> Job:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "job.toml").write_text(text)
    return read_job(folder / "job.toml")


def _rows(folder: Path, *minutes: int) -> None:
    """A file for each minute, with a thousand rows of which a hundred are VIPs'."""
    for minute in minutes:
        at = f"2026-01-01 00:{minute:02d}:30"
        rows = [
            {"id": 1000 * minute + i, "route": "x" if i % 10 else "vip", "at": at} for i in range(1000)
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / "in" / f"{minute}.json").write_text(text)


def test_a_file_can_say_all_that_the_call_can() -> None:
    """But for what is code (a controller, what `hg.gate_join` sets); policy and rescue are tables."""
    taken = set(inspect.signature(gate).parameters)
    assert set(GATE) == taken - {"policy", "controller", "rescue"}
    assert set(RESCUE) == set(inspect.signature(Rescue).parameters)
    fields = set(inspect.signature(ConceptDriven).parameters)
    assert set(CONCEPT_DRIVEN) == fields - {"accuracy", "meets", "within"}


POISON = """
[source]
format = "json"
path = "in"
schema = "id BIGINT"
[sql]
after = "SELECT id, IF(id = 7, raise_error('a poison row'), id) AS checked FROM gated"
[gate]
name = "rides"
rate = 1.0
control = "control"
identity = "id"
[rescue]
whole = 1
keep = 0.5
[sink]
format = "parquet"
path = "out"
checkpoint = "checkpoint"
"""


def test_a_batch_that_dies_at_every_start_is_rescued(spark: SparkSession, tmp_path: Path) -> None:
    job = _written(tmp_path, POISON)
    (tmp_path / "in" / "0.json").write_text("".join(f'{{"id": {i}}}\n' for i in range(200)))
    starts, said = 0, "not started"
    while said and starts < 7:
        query = start_job(spark, job, tmp_path, once=True)
        starts += 1
        with suppress(StreamingQueryException):
            query.awaitTermination()
        said = str(query.exception() or "")
        assert not said or "a poison row" in said
    ControlLoop.of(spark).drain()
    (record,) = records(tmp_path / "control", "rides")
    assert (record.origin, record.attempt) == ("rescued", starts)
    assert starts > 1
    kept = {row.id for row in spark.read.parquet(str(tmp_path / "out")).collect()}
    assert record.plan.default == 0.5 ** (starts - 1)
    assert len(kept) == record.kept < record.arrived == 200
    assert 7 not in kept


def test_from_files_to_files_once(spark: SparkSession, tmp_path: Path) -> None:
    job = _written(tmp_path, FILES)
    _rows(tmp_path, 0, 1, 2)
    running = RunningJob(spark, job, start_job(spark, job, tmp_path / "scratch", once=True))
    running._query.awaitTermination()
    outcome = running.outcome("finished")
    assert (outcome.ended, outcome.verdict, outcome.ok) == ("finished", "balanced", True)
    found = outcome.figures
    assert (found.batches, found.arrived) == (3, 3000)
    kept = records(tmp_path / "control", "rides")
    assert found.kept == sum(r.kept for r in kept) < 2000
    assert found.state == "fixed"
    # The last minute's window is not closed; what is written of the others is whole.
    out = {(str(r.start), r.route): r for r in spark.read.parquet(str(tmp_path / "out")).collect()}
    assert len(out) == 4
    vips = [r for (_, route), r in out.items() if route == "VIP"]
    assert all((r.rides, r.kept) == (100.0, 100) for r in vips)
    assert "calm" not in [table.name for table in spark.catalog.listTables()], "no view is left"


def test_a_job_is_stopped_between_batches_and_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing is read twice, and the ledger has every batch of both runs."""
    without_sql = FILES[: FILES.index("[sql]")] + FILES[FILES.index("[gate]") :]
    job = _written(tmp_path, without_sql.replace("keep = \"route = 'VIP'\"", 'mode = "monitor"'))
    _rows(tmp_path, 0, 1)
    for run in range(2):
        running = RunningJob(spark, job, start_job(spark, job, tmp_path / "scratch"))
        running._query.processAllAvailable()
        running.stop()
        outcome = running.outcome("stopped")
        assert outcome.ok, outcome
        assert (outcome.figures.batches, outcome.figures.arrived) == ((2, 2000), (1, 1000))[run]
        _rows(tmp_path, 2)
    assert [r.batch for r in records(tmp_path / "control", "rides")] == [0, 1, 2]
    written = spark.read.parquet(str(tmp_path / "out"))
    assert written.count() == written.select("id").distinct().count() == 3000


@pytest.mark.parametrize(
    ("was", "becomes", "line", "says"),
    [
        ("upper(route)", "upper(rout)", "sql.before", "cannot be resolved"),
        ("sum(_weight)", "summ(_weight)", "sql.after", "summ"),
        ('column = "at"', 'column = "when"', "sql.watermark", "when"),
        ('identity = "id"', 'identity = "di"', "gate", "di"),
        ("route = 'VIP'", "route == == 1", "gate", "keep"),
        ("id BIGINT", "id BIGINTEGER", "source", "BIGINTEGER"),
    ],
)
def test_what_spark_refuses_is_said_of_its_line(
    was: str, becomes: str, line: str, says: str, spark: SparkSession, tmp_path: Path
) -> None:
    job = _written(tmp_path, FILES.replace(was, becomes))
    with pytest.raises(JobProblems) as refused:
        gated_frame(spark, job)
    (problem,) = refused.value.problems
    assert problem.key.startswith(line)
    assert says in problem.message
    assert "\n" not in problem.message
    assert "JVM" not in problem.message
    assert problem.line == job.lines.of(*problem.key.split("."))


def test_a_sink_that_refuses_and_a_key_that_is_no_column(spark: SparkSession, tmp_path: Path) -> None:
    kafka = 'format = "kafka"\nservers = "127.0.0.1:9"\ntopic = "t"\nkey = "rout"\ncheckpoint = "c"\n'
    job = _written(tmp_path, FILES[: FILES.index("[sink]")] + "[sink]\n" + kafka)
    with pytest.raises(JobProblems, match=r"key='rout' is no column of the result; these are: start"):
        start_job(spark, job, tmp_path)
    without = FILES.replace("watermark = ", "# ")
    with pytest.raises(JobProblems, match=r"sink: .*watermark"):
        start_job(spark, _written(tmp_path, without), tmp_path)


def test_a_query_that_fails_says_why_and_not_its_secrets(spark: SparkSession, tmp_path: Path) -> None:
    text = FILES.replace(
        "upper(route)", "concat(route, raise_error(concat('it is ', 'open', ' sesame')))"
    )
    text = text.replace("options = {", 'options = { "my.password" = "open sesame",')
    job = _written(tmp_path, text)
    _rows(tmp_path, 0)
    running = RunningJob(spark, job, start_job(spark, job, tmp_path / "scratch", once=True))
    with pytest.raises(Exception, match="sesame"):
        running._query.awaitTermination()
    outcome = running.outcome("finished")
    assert (outcome.ended, outcome.ok) == ("failed", False)
    assert "open sesame" not in outcome.error
    assert "it is ***" in outcome.error
