"""A query that dies of too many rows and is rescued at its next start, on any session and store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

ROOM = 1500
SCHEMA = "id bigint, route string, at timestamp"


def with_room(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows, if they are not too many for one task."""
    seen = list(batches)
    if sum(batch.num_rows for batch in seen) > ROOM:
        raise MemoryError("out of room")
    yield from seen


def rescued(spark: Any, folder: Path, control: str, **given: Any) -> dict[str, Any]:
    """Two starts over the files in ``folder/in``; what the ledger, the sink and a backfill have then."""
    from pyspark.errors import StreamingQueryException

    import headgate as hg
    from headgate.spark.loop.loop import ControlLoop
    from headgate.store.folder import names_in
    from headgate.store.ledger.records import Ledger, queries_of
    from headgate.store.places.place import control_place
    from headgate.store.plans import PlanStore

    checkpoint, out = folder / "rescued-checkpoint", folder / "rescued-out"

    def start() -> None:
        rescue = hg.Rescue("files", whole=1)
        gate = hg.gate("rescued", rate=0.9, identity="id", control=control, rescue=rescue, **given)
        frame = spark.readStream.schema(SCHEMA).json(str(folder / "in")).transform(gate).select("id")
        writer = frame.repartition(1).mapInArrow(with_room, "id bigint").writeStream.format("parquet")
        writer = writer.option("path", str(out)).option("checkpointLocation", str(checkpoint))
        try:
            writer.trigger(availableNow=True).start().awaitTermination()
        finally:
            ControlLoop.of(spark).drain()

    try:
        start()
        died = ""
    except StreamingQueryException as error:
        died = str(error)
    start()
    place = control_place(control)
    [query] = queries_of(place, "rescued")
    left = names_in(PlanStore(place, "rescued", query).folder / "attempts")
    [record] = Ledger(place, "rescued", query).records().values()
    rows = hg.file_rows(lambda paths: spark.read.schema(SCHEMA).json(paths), checkpoint)
    repaid = [row.id for row in hg.backfill(spark, "rescued", control, rows).collect()]
    return {
        "died": "out of room" in died,
        "attempts_left": left,
        "record": record.to_json(),
        "kept": sorted(row.id for row in spark.read.parquet(str(out)).collect()),
        "repaid": sorted(repaid),
    }


def check_rescued(found: dict[str, Any], arrived: int) -> None:
    """It died once, and was then run with a quarter of its rows; the others were repaid, each once."""
    record = found["record"]
    assert found["died"]
    assert found["attempts_left"] == [], "the pin of a batch that ended says all there is to know"
    assert (record["origin"], record["attempt"], record["arrived"]) == ("rescued", 2, arrived)
    assert record["plan"]["default"] == 0.9 / 4
    assert record["kept"] == len(found["kept"]) <= ROOM
    assert sorted([*found["kept"], *found["repaid"]]) == list(range(arrived))
