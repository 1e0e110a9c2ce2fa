"""docs/kafka.md on a real broker: its job file, its program, and the shed rows later."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import headgate as hg
from headgate.job.reading import read_job
from headgate.spark.loop.loop import ControlLoop
from headgate.spark.versions.kafka import connector_of, stand_in_of
from headgate.spark.versions.supported import SparkVersion
from headgate.store.ledger.audit import audit
from headgate.testing.broker import Broker
from headgate.testing.bursts import Bursts, produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (Path(__file__).parents[2] / "docs" / "kafka.md").read_text()


def _blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_page_runs_as_it_is(
    kafka_spark: SparkSession, broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    """But for names and places, and a fixed rate, so that there is something to repay."""
    source, sink = topic("in", 2), topic("out")
    produce(broker.bootstrap, source, Bursts(base_rate=20_000, total=2_000, seed=6))
    program, later = (
        block.replace("127.0.0.1:9092", broker.bootstrap)
        .replace('"rides.kept"', f'"{sink}"')
        .replace('"subscribe": "rides"', f'"subscribe": "{source}"')
        .replace("/tmp/headgate-kafka", str(tmp_path))
        .replace('hold="2 seconds"', "rate=0.3")
        for block in _blocks("python")
    )
    assert "query.awaitTermination()" in program
    names: dict[str, Any] = {}
    exec(program.replace("query.awaitTermination()", ""), names)
    assert names["spark"] is kafka_spark, "the run's one session"
    try:
        names["query"].processAllAvailable()
    finally:
        names["query"].stop()
    ControlLoop.of(kafka_spark).drain()
    (one,) = audit(tmp_path / "control")
    assert one.verdict == "balanced"
    assert one.arrived == 2_000
    exec(later, names)
    repaid = kafka_spark.read.parquet(str(tmp_path / "late"))
    assert repaid.count() == one.shed > 0
    assert names["hg"] is hg


def test_the_job_of_the_page_is_right(tmp_path: Path) -> None:
    (text,) = _blocks("toml")
    (tmp_path / "job.toml").write_text(text)
    assert read_job(tmp_path / "job.toml").words == (
        "kafka rides -> gate rides (hold 2 seconds) -> kafka rides.kept"
    )


def test_the_table_names_the_connectors_that_are_used() -> None:
    rows = re.findall(r"^\| (4\.\d) \| `(\S+)`.* \| (\S+) \|$", PAGE, re.MULTILINE)
    assert [row[0] for row in rows] == ["4.3", "4.2", "4.1", "4.0"]
    for line, artifact, tested in rows:
        version = SparkVersion.read(artifact.rpartition(":")[2])
        assert f"{version.major}.{version.minor}" == line
        assert connector_of(version) == artifact
        assert stand_in_of(version)[0].endswith(f":{tested}")
