"""A query with hardly anything to do sheds nothing when it starts, and nothing when it starts again."""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import DataFrame

import headgate as hg
from headgate.store.ledger.audit import audit
from tests.spark.conftest import records

#: What starting up takes here, in seconds: more than the target, as a JVM and its workers may.
START_UP_S = 6.0


def test_what_came_while_a_light_query_started_up_is_kept_whole(
    file_stream, each_batch, control: Path
) -> None:
    """A few rows in a first batch of six seconds are not dear: the many that came meanwhile fit."""
    stream = file_stream()
    sizes = [20, 20_000, 20, 20_000]
    for number, size in enumerate(sizes):
        if number == 2:
            _run(stream, each_batch, control, first=0)
        stream.add([{"id": 100_000 * number + i, "route": "r", "fare": 1.0} for i in range(size)])
    _run(stream, each_batch, control, first=2)
    found = records(control, "light")
    assert [r.arrived for r in found] == sizes
    assert [r.kept for r in found] == sizes
    assert all(a.balanced for a in audit(control, "light"))


def _run(stream, each_batch, control: Path, first: int) -> None:
    """Run all there is; the first batch of the run starts up."""

    def act(frame: DataFrame, batch: int) -> None:
        if batch == first:
            time.sleep(START_UP_S)
        frame.count()

    each_batch(stream.frame().transform(hg.gate("light", hold="4 seconds", control=control)), act)
