"""A job file from topic to topic on a real broker: what `headgate init --source kafka` writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import headgate as hg
from headgate.job.examples import example
from headgate.job.reading import read_job
from headgate.spark.job.build import gated_frame, start_job
from headgate.spark.job.running import RunningJob
from headgate.testing.broker import Broker
from headgate.testing.bursts import Bursts, produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_policy_of_the_page_fits_its_columns(kafka_spark: SparkSession, tmp_path: Path) -> None:
    """Fields of a struct as groups and as what an accuracy is of; nothing is read."""
    page = (Path(__file__).parents[2] / "docs" / "job.md").read_text()
    (text,) = [t for t in re.findall(r"^```toml\n(.*?)^```", page, re.M | re.S) if "kafka" in t]
    (tmp_path / "job.toml").write_text(text.replace("s3://bucket/headgate", "control"))
    frame = gated_frame(kafka_spark, read_job(tmp_path / "job.toml"))
    assert frame.columns == ["ride", "partition", "offset", "timestamp", "_weight"]


@pytest.mark.matrix
def test_topic_to_topic_and_the_shed_rows_later(
    kafka_spark: SparkSession, broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    source, sink = topic("in", 2), topic("out")
    produce(broker.bootstrap, source, Bursts(base_rate=20_000, total=4_000, seed=5))
    text = example("kafka").replace("127.0.0.1:9092", broker.bootstrap)
    text = text.replace('"rides.kept"', f'"{sink}"').replace('topic = "rides"', f'topic = "{source}"')
    (tmp_path / "job.toml").write_text(text.replace('hold = "2 seconds" ', "rate = 0.3"))
    job = read_job(tmp_path / "job.toml")
    running = RunningJob(kafka_spark, job, start_job(kafka_spark, job, tmp_path / "scratch", once=True))
    running._query.awaitTermination()
    outcome = running.outcome("finished")
    assert outcome.ok, outcome
    assert outcome.figures.arrived == 4_000

    raw = kafka_spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    written = raw.option("subscribe", sink).load()
    row = "from_json(cast(value AS STRING), 'route STRING, priority STRING, _weight DOUBLE') AS row"
    kept = written.selectExpr("cast(key AS STRING) AS key", row).select("key", "row.*").collect()
    assert len(kept) == outcome.figures.kept
    assert all(r.key == r.route for r in kept)
    assert all(r._weight == 1.0 for r in kept if r.priority == "high")

    def before(rows):  # what the job does in front of its gate
        rows.createOrReplaceTempView("source")
        return kafka_spark.sql(job.sql.before)

    reader = hg.kafka_rows(kafka_spark, dict(job.source.options), before, checkpoint=job.sink.checkpoint)
    shed = hg.backfill(kafka_spark, "rides", job.control, reader).count()
    assert shed + len(kept) == 4_000
    kafka_spark.catalog.dropTempView("source")
