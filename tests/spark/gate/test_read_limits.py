"""The sources' caps, as the query states them; a first batch after downtime that keeps what fits."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from pyspark.sql import functions as F

import headgate as hg
from headgate.core.load import ReadLimit
from headgate.spark.gate.read_limits import limit_in, read_limit
from headgate.spark.loop.loop import ControlLoop
from headgate.store.ledger.records import queries_of
from tests.spark.conftest import records


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({"subscribe": "t", "maxoffsetspertrigger": "8000"}, ReadLimit(rows=8000)),
        ({"subscribe": "t"}, ReadLimit()),
        ({"path": "/in", "maxfilespertrigger": "3"}, ReadLimit(files=3)),
        ({"path": "/in", "maxbytespertrigger": "1g"}, None),
        ({"rowspersecond": "5"}, ReadLimit()),
        ({"rowsperbatch": "100"}, ReadLimit(rows=100)),
    ],
)
def test_options_as_limits(options: dict[str, str], limit: ReadLimit | None) -> None:
    assert limit_in(options) == limit


@pytest.mark.matrix
def test_limits_are_read_from_the_plan(spark, file_stream) -> None:
    files = file_stream().frame(3)
    rate = spark.readStream.format("rate").option("rowsPerSecond", 5).load()
    micro = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load()
    assert read_limit(files) == ReadLimit(files=3)
    assert read_limit(rate) == ReadLimit()
    assert read_limit(micro) == ReadLimit(rows=100)
    assert read_limit(micro.where("value > 1").select("value").dropDuplicates()) == ReadLimit(rows=100)
    assert read_limit(micro.union(micro)) == ReadLimit(rows=200)
    assert read_limit(files.union(files)) == ReadLimit(files=6)
    assert read_limit(micro.select("value").union(files.select("id"))) is None
    assert read_limit(micro.select(F.explode(F.array("value", "value")))) is None
    gated = micro.transform(hg.gate("g", rate=0.5))
    assert read_limit(gated) == ReadLimit(rows=100)


def test_after_downtime_a_capped_stream_keeps_its_first_batch(
    spark, file_stream, control: Path, tmp_path: Path
) -> None:
    source = file_stream()

    def run() -> None:
        writer = source.frame().transform(gate).writeStream.format("noop").trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
        ControlLoop.of(spark).drain()

    number = 0
    for batch in range(6):
        rows = 200 + 100 * (batch % 3)
        source.add([{"id": number + i, "route": "r", "fare": 1.0} for i in range(rows)])
        number += rows
    gate = hg.gate("g", hold="1 minute", control=control)
    run()
    (query,) = queries_of(control, "g")
    # The query was down for a year: what came meanwhile would take hours at once.
    (learned,) = (control / "gates" / "g" / "queries" / query).glob("controller.json")
    state = json.loads(learned.read_text())
    state["controller"]["arrivals"]["start"] = time.time() - 365 * 86_400
    state["controller"]["arrivals"]["cautious"] = 1_000.0
    learned.write_text(json.dumps(state))
    for _ in range(2):
        source.add([{"id": number + i, "route": "r", "fare": 1.0} for i in range(300)])
        number += 300
    run()
    found = records(control, "g")
    assert [r.shed for r in found[6:]] == [0, 0]
    assert [r.arrived for r in found[6:]] == [300, 300]
