"""A gate between two tables of one kind, in a process with that connector; prints what it found.

The source gets rows in several commits; a query reads them behind a gate in several runs, one of which
is killed after its sink has the batch and before Spark has committed it; its sink is another table. Then
the shed rows are read again.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException

import headgate as hg
from headgate.demo.session import quiet_session
from headgate.spark.loop.loop import ControlLoop
from headgate.store.ledger.audit import audit
from headgate.store.ledger.records import Ledger, queries_of
from headgate.testing.table_formats import CATALOG, table_settings

ROWS = 400
#: More than a worker of the batch that is rescued can take.
ROOM = 600
#: What makes a batch of each commit, which has four files.
_ONE_COMMIT = {
    "delta": {"maxFilesPerTrigger": "4"},
    "iceberg": {"streaming-max-files-per-micro-batch": "4"},
}


class Tables:
    """What differs between the kinds: how a table is named, written, streamed and read again."""

    def __init__(self, kind: str, spark: Any, folder: Path) -> None:
        self.kind, self.spark, self._folder = kind, spark, folder

    def name(self, table: str) -> str:
        return str(self._folder / table) if self.kind == "delta" else f"{CATALOG}.db.{table}"

    def append(self, table: str, frame: Any) -> None:
        if self.kind == "delta":
            frame.write.format("delta").mode("append").save(self.name(table))
        elif self.spark.catalog.tableExists(self.name(table)):
            frame.writeTo(self.name(table)).append()
        else:
            frame.writeTo(self.name(table)).create()

    def read(self, table: str) -> Any:
        return self.spark.read.format(self.kind).load(self.name(table))

    def stream(self, table: str, options: dict[str, str]) -> Any:
        return self.spark.readStream.format(self.kind).options(**options).load(self.name(table))

    def write(self, writer: Any, table: str) -> Any:
        if self.kind == "delta":
            return writer.format("delta").start(self.name(table))
        return writer.format("iceberg").toTable(self.name(table))

    def rows(self, table: str, options: dict[str, str], checkpoint: Path, prepare: Any) -> Any:
        if self.kind == "delta":
            return hg.delta_rows(self.spark, self.name(table), options, prepare)
        return hg.iceberg_rows(self.spark, self.name(table), prepare, checkpoint=checkpoint)


def main(kind: str, folder: Path, limit: str) -> None:
    """Everything once; `limit` is the option that makes batches of parts of a commit, or "whole"."""
    settings = table_settings(kind, folder / "warehouse")
    settings["spark.databricks.delta.snapshotPartitions"] = "1"  # of fifty: the tables are small
    with quiet_session(folder / "scratch", more=settings) as spark:
        tables, found = Tables(kind, spark, folder), {"spark": spark.version}
        options = {} if limit == "whole" else dict([tuple(limit.split("=", 1))])
        checkpoint, control = folder / "checkpoint", folder / "control"

        def add(first: int) -> None:
            made = spark.range(first, first + ROWS, 1, 4).selectExpr(
                "id", "id % 7 AS route", "id * 0.5 AS fare"
            )
            tables.append("rides", made)

        def prepare(frame: Any) -> Any:
            return frame.where("route < 6")

        def gated() -> Any:
            gate = hg.gate("g", rate=0.5, identity="id", control=control, checkpoint=checkpoint)
            return prepare(tables.stream("rides", options)).transform(gate)

        def run() -> None:
            writer = gated().drop("_weight").writeStream.outputMode("append")
            writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
            query = tables.write(writer, "kept")
            query.awaitTermination()
            ControlLoop.of(spark).drain()

        add(0)
        if kind == "iceberg":  # a sink table must be there
            tables.append("kept", spark.range(0).selectExpr("id", "id % 7 AS route", "id * 0.5 AS fare"))
        add(ROWS)
        run()  # what the table had
        add(2 * ROWS)
        add(3 * ROWS)
        run()
        _forget_last_commit(checkpoint)
        run()  # the last batch runs again, and its sink knows it
        [query] = queries_of(control, "g")
        records = Ledger(control, "g", query).records()
        lines = list(Ledger(control, "g", query).lines())
        found["batches"] = {b: [r.arrived, r.kept, r.shed] for b, r in records.items()}
        found["twice"] = len(lines) - len(records)
        found["fingerprints"] = len({r.evidence.fingerprint for r in lines if r.batch == max(records)})
        found["witnesses"] = sorted({r.evidence.witness for r in records.values()})
        found["offsets"] = {b: r.offsets for b, r in records.items()}
        [books] = audit(control)
        found["complete"], found["doubtful"] = books.complete, sorted(books.doubtful)
        everything = Counter(r["id"] for r in prepare(tables.read("rides")).select("id").collect())
        kept = Counter(r["id"] for r in tables.read("kept").select("id").collect())
        found["arrived"], found["kept"] = sum(everything.values()), sum(kept.values())
        found["doubled"] = sum(n > 1 for n in kept.values())
        reader = tables.rows("rides", options, checkpoint, prepare)
        try:
            shed = Counter(
                r["id"] for r in hg.backfill(spark, "g", control, reader).select("id").collect()
            )
            found["backfilled"], found["exact"] = sum(shed.values()), kept + shed == everything
        except hg.HeadgateError as error:
            found["refused"] = str(error)
            shed = Counter()
            with contextlib.suppress(hg.NotAsRecorded):  # it may be every one of them
                some = hg.backfill(spark, "g", control, reader, on_mismatch="skip")
                shed = Counter(r["id"] for r in some.select("id").collect())
            found["backfilled"] = sum(shed.values())
            found["exact"] = not (kept & shed) and not (shed - everything)
        if limit == "whole":
            found["repaid"] = _repaid(tables, control, folder, kept, everything)
            found["rescued"] = _rescued(tables, folder)
        found["again"], found["sizes"] = _again(tables, options, folder)
        found["tried"] = _tried(kind, tables, reader, checkpoint)
        print(json.dumps(found))


def _repaid(
    tables: Tables, control: Path, folder: Path, kept: Counter[int], everything: Counter[int]
) -> dict[str, Any]:
    """The operation from what the gate noted, to a table; and its parts merged, each slice twice."""
    spark, kind = tables.spark, tables.kind
    totals, seen = hg.Repairable(by="route", sums="fare"), Counter[int]()
    empty = spark.createDataFrame([], "route bigint, fare double, _batch int")
    parts = "parts" if kind == "delta" else tables.name("parts")
    totals.shed(empty).writeTo(parts).using(kind).create()

    def merge(frame: Any, slice_id: str) -> None:
        seen.update(r["id"] for r in frame.select("id").collect())
        for _ in range(2):
            totals.merge(totals.shed(frame), parts)

    shutil.copytree(control, folder / "control-merged")
    done = hg.repay(spark, "g", folder / "control-merged", merge, slice_batches=1)
    merged = spark.table(parts).selectExpr("sum(_rows)").collect()[0][0]
    found = {"exact": kept + seen == everything, "rows": done.rows, "merged": merged}
    found["left_open"] = done.left_open
    if kind == "delta":
        from headgate.spark.backfill.sinks import TableSink
        from headgate.store.repaid.slices import Given, Slice

        late = str(folder / "late")
        found["late"] = hg.repay(spark, "g", control, late, format="delta").rows
        sink = TableSink(late)
        again = Slice(folder, "000000000000-000000000001-00000000", Given("delta", late, "delta"), 1)
        more = spark.read.format("delta").load(late).limit(5)
        for _ in range(2):  # a slice that died behind its commit
            sink.write(again, more)
        found["late_table"] = spark.read.format("delta").load(late).count()
    return found


def _causes(error: BaseException | None) -> str:
    """Spark says that a stream failed; why is in the causes."""
    said = []
    while error is not None:
        said.append(str(error))
        error = getattr(error, "_cause", None)
    return "\n".join(said)


def _with_room(batches: Any) -> Any:
    """Dies of more rows than `ROOM`, as a worker does that runs out of memory."""
    seen = list(batches)
    if sum(batch.num_rows for batch in seen) > ROOM:
        raise MemoryError("out of room")
    yield from seen


def _rescued(tables: Tables, folder: Path) -> dict[str, Any]:
    """All rows in one batch that dies of them: what each start said, what table and ledger have then."""
    spark, checkpoint, control = tables.spark, folder / "checkpoint-rescue", folder / "control-rescue"
    sink = "delta" if tables.kind == "delta" else "files"  # no Rescue has a word for Iceberg's
    tables.append("rescued", spark.range(0))

    def start() -> str:
        gate = hg.gate(
            "r", rate=0.9, identity="id", control=control, checkpoint=checkpoint, weight=False,
            rescue=hg.Rescue(sink=sink),
        )  # fmt: skip
        rows = tables.stream("rides", {}).transform(gate).select("id").repartition(1)
        writer = rows.mapInArrow(_with_room, "id bigint").writeStream.outputMode("append")
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        query = tables.write(writer, "rescued")
        try:
            query.awaitTermination()
            return "finished"
        except StreamingQueryException as error:
            return _causes(error)
        finally:
            ControlLoop.of(spark).drain()

    found: dict[str, Any] = {"starts": [start() for _ in range(3 if sink == "delta" else 1)]}
    kept = Counter(r["id"] for r in tables.read("rescued").collect())
    found["kept"] = sum(kept.values())
    try:
        hg.Rescue(sink="iceberg")
    except hg.BadArgument as error:
        found["at the call"] = str(error)
    if sink == "delta":
        reader = hg.delta_rows(spark, tables.name("rides"))
        shed = Counter(r["id"] for r in hg.backfill(spark, "r", control, reader).collect())
        everything = Counter(r["id"] for r in tables.read("rides").collect())
        found["exact"] = kept + shed == everything
        [query] = queries_of(control, "r")
        [record] = Ledger(control, "r", query).records().values()
        found["record"] = [record.origin, record.attempt, record.arrived, record.kept]
        found["complete"] = audit(control)[0].complete
    return found


def _forget_last_commit(checkpoint: Path) -> None:
    """As if the driver had died behind the sink's write and before Spark's own."""
    [last] = sorted((checkpoint / "commits").glob("[0-9]*"), key=lambda p: int(p.name))[-1:]
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)


def _again(tables: Tables, options: dict[str, str], folder: Path) -> tuple[list[bool], list[Any]]:
    """Whether a batch that runs again, into a sink that takes it again, has the same rows.

    And how large the batches were known to be, at a gate that holds a target.
    """
    checkpoint, control, seen = folder / "checkpoint-again", folder / "control-again", {}
    first = {**options, **({"startingVersion": "0"} if tables.kind == "delta" else {})}

    def act(frame: Any, batch: int) -> None:
        seen.setdefault(batch, []).append(sorted(r["id"] for r in frame.select("id").collect()))

    for _ in range(2):
        sized = hg.gate("s", hold="1 hour", identity="id", control=control, checkpoint=checkpoint)
        halved = hg.gate("h", rate=0.5, identity="id", control=control, checkpoint=checkpoint)
        frame = tables.stream("rides", {**first, **_ONE_COMMIT[tables.kind]})
        writer = frame.transform(sized).transform(halved).writeStream.foreachBatch(act)
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        writer.start().awaitTermination()
        ControlLoop.of(tables.spark).drain()
        if len(seen[max(seen)]) == 1:
            _forget_last_commit(checkpoint)
    then, now = seen[max(seen)]
    [query] = queries_of(control, "s")
    records = Ledger(control, "s", query).records().values()
    sizes = [[r.size.size_known_by, r.size.expected_rows, r.arrived] for r in records if r.batch]
    return [bool(then), then == now], sizes


def _tried(kind: str, tables: Tables, reader: Any, checkpoint: Path) -> dict[str, str]:
    """What must be refused, and what is said."""
    from headgate.spark.backfill.offsets import BatchOffsets

    said: dict[str, str] = {}

    def tell(what: str, act: Any) -> None:
        try:
            said[what] = "" if act() is None else "read"
        except hg.HeadgateError as error:
            said[what] = f"{type(error).__name__}: {error}"

    tell("another source", lambda: reader(BatchOffsets(0, ({"t": {"0": 1}},), ({"t": {"0": 2}},))))
    if kind == "delta":
        offset = {"sourceVersion": 1, "reservoirId": "x", "index": -1, "isStartingVersion": False}
        gone = [{**offset, "reservoirVersion": v} for v in (900, 901)]
        tell("commits that are gone", lambda: reader(BatchOffsets(9, (gone[0],), (gone[1],))))
        tables.spark.sql(f"UPDATE delta.`{tables.name('rides')}` SET fare = 0 WHERE id = 3")
        history = tables.spark.sql(f"DESCRIBE HISTORY delta.`{tables.name('rides')}`")
        version = history.selectExpr("max(version)").collect()[0][0]
        changed = [{**offset, "reservoirVersion": v} for v in (version, version + 1)]
        tell("rows that were changed", lambda: reader(BatchOffsets(9, (changed[0],), (changed[1],))))
        skipping = hg.delta_rows(tables.spark, tables.name("rides"), {"skipChangeCommits": "true"})
        tell("skipped", lambda: skipping(BatchOffsets(9, (changed[0],), (changed[1],))).count())
    else:
        offset = {"version": 1, "position": 0, "scan_all_files": False}
        gone = [{**offset, "snapshot_id": v} for v in (900, 901)]
        tell("snapshots that are gone", lambda: reader(BatchOffsets(9, (gone[0],), (gone[1],))))
        blind = hg.iceberg_rows(tables.spark, tables.name("rides"))
        tell("no checkpoint", lambda: blind(BatchOffsets(0, (None,), (gone[1],))))
    return said


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
