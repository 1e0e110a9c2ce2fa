"""A reader of the batches of an Iceberg source: whole snapshots, by the files that they appended.

An offset of an Iceberg source is a snapshot and how many of its files were taken (``snapshot_id``,
``position``). A batch has what is behind its start, all snapshots between, and the files of its end's
snapshot in front of the position. Which files those are follows from the order of a snapshot's
manifests, which nobody outside Iceberg can see: a batch that took a part of a snapshot is
refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.errors import BadArgument, NotAsRecorded
from headgate.spark.backfill.offsets import BatchOffsets
from headgate.spark.checkpoint import open_checkpoint
from headgate.spark.worker_errors import said_by_spark
from headgate.store.folder import read_text

__all__ = ["IcebergOffset", "iceberg_rows"]


@dataclass(frozen=True)
class IcebergOffset:
    """Where a stream is in a table: so many files of a snapshot were taken."""

    snapshot: int
    position: int
    #: Whether all files of the table in that snapshot are counted, and not those that it added.
    all_files: bool = False

    @classmethod
    def read(cls, value: Any) -> IcebergOffset | None:
        """An offset as the checkpoint and the ledger have it; None where it is no Iceberg table's.

        >>> IcebergOffset.read({"version": 1, "snapshot_id": 5, "position": 2, "scan_all_files": False})
        IcebergOffset(snapshot=5, position=2, all_files=False)
        """
        if not isinstance(value, dict) or not {"snapshot_id", "position"} <= value.keys():
            return None
        all_files = bool(value.get("scan_all_files", False))
        return cls(int(value["snapshot_id"]), int(value["position"]), all_files)


@dataclass(frozen=True)
class _Snapshot:
    """A snapshot of the table, as its metadata has it."""

    id: int
    parent: int | None
    operation: str
    files: int


def iceberg_rows(
    spark: SparkSession,
    table: str,
    prepare: Callable[[DataFrame], DataFrame] | None = None,
    *,
    checkpoint: str | Path | None = None,
    source: int = 0,
) -> Callable[[BatchOffsets], DataFrame]:
    """A reader of an Iceberg source's batches.

    `table` is the table's name with its catalog, or the path of a table without one; `prepare` is what
    the query does between the source and the gate. A query's very first batch has no start offset in its
    progress: give `checkpoint` for it. Each snapshot of the batch that appended rows is read as of
    itself, those of its files alone. Refused by name: a batch that took a part of a snapshot
    (``streaming-max-files-per-micro-batch``), and snapshots that have expired.

        rows = hg.iceberg_rows(spark, "lake.db.rides", checkpoint="/checkpoints/rides")
        late = hg.backfill(spark, "rides", "/shared/headgate", rows)
    """

    def rows(batch: BatchOffsets) -> DataFrame:
        start_value, end_value = batch.starts[source], batch.ends[source]
        if start_value is None and checkpoint is not None:
            start_value = _initial(checkpoint, source)
        end = IcebergOffset.read(end_value)
        if end is None:
            raise BadArgument(
                f"batch {batch.batch} ends at {end_value!r}, which is no offset of an Iceberg table: "
                "give source=, the number of the query's source that is one"
            )
        start = IcebergOffset.read(start_value)
        if start is None:
            raise BadArgument(
                f"batch {batch.batch} is the query's first, and Spark reports no start for it: give "
                "checkpoint=, the query's checkpoint folder"
            )
        frame = _Table(spark, table).rows(batch.batch, start, end)
        return frame if prepare is None else prepare(frame)

    return rows


def _initial(checkpoint: str | Path, source: int) -> Any:
    """Where the source began: it has written that down."""
    text = read_text(open_checkpoint(checkpoint) / "sources" / str(source) / "offsets" / "0")
    return None if text is None else json.loads(text)


class _Table:
    """An Iceberg table, with its metadata."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._spark, self._name = spark, name

    def _load(self, what: str = "", snapshot: int | None = None) -> DataFrame:
        """The table, as of a snapshot if one is given; or what its metadata has of this name."""
        reader = self._spark.read.format("iceberg")
        if snapshot is not None:
            reader = reader.option("versionAsOf", snapshot)
        mark = ("#" if "/" in self._name else ".") if what else ""
        return reader.load(f"{self._name}{mark}{what}")

    def rows(self, batch: int, start: IcebergOffset, end: IcebergOffset) -> DataFrame:
        """The rows of a batch, if it took whole snapshots."""
        chain = self._chain(batch, start, end)
        taken = [one for one in chain if one.operation == "append"]
        first, last = chain[0], chain[-1]
        if start == end:  # a batch that a query with state ran for its clock alone
            return self._load(snapshot=last.id).where("false")
        for snapshot, at in ((first, start.position), (last, end.position)):
            whole = (0, snapshot.files) if snapshot is first else (snapshot.files,)
            if snapshot.operation == "append" and at not in whole:
                self._refuse(
                    batch, f"took a part of snapshot {snapshot.id} ({at} of {snapshot.files} files)"
                )
        if start.all_files or end.all_files:
            self._refuse(batch, f"took all files of snapshot {first.id}, and not those that it added")
        if first.operation == "append" and start.position >= first.files and start.position > 0:
            taken.remove(first)
        if not taken:
            return self._load(snapshot=last.id).where("false")
        parts = [self._appended(one) for one in taken]
        return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)

    def _appended(self, snapshot: _Snapshot) -> DataFrame:
        """The rows that a snapshot appended, as of itself."""
        entries = self._load("all_entries")
        mine = entries.where((F.col("status") == 1) & (F.col("snapshot_id") == snapshot.id))
        files = [r[0] for r in mine.select("data_file.file_path").distinct().collect()]
        return self._load(snapshot=snapshot.id).where(F.col("_file").isin(files))

    def _chain(self, batch: int, start: IcebergOffset, end: IcebergOffset) -> list[_Snapshot]:
        """From the start's snapshot to the end's, by who is whose parent."""
        known = {one.id: one for one in self._snapshots()}
        found: list[_Snapshot] = []
        at: int | None = end.snapshot
        while at is not None and at in known:
            found.append(known[at])
            if at == start.snapshot:
                return found[::-1]
            at = known[at].parent
        raise NotAsRecorded(
            f"batch {batch} has the snapshots {start.snapshot} to {end.snapshot} of {self._name}, and "
            f"{at if at is not None else start.snapshot} among them has expired or is not in the "
            "table's line any more",
            {batch: f"has snapshots {start.snapshot} to {end.snapshot}, which are gone"},
        )

    def _snapshots(self) -> list[_Snapshot]:
        try:
            columns = "snapshot_id", "parent_id", "operation", "summary"
            rows = self._load("snapshots").select(*columns).collect()
        except Exception as error:
            if said_by_spark(error) is None:
                raise
            raise BadArgument(
                f"table={self._name!r} is no Iceberg table of this session "
                f"({str(error).splitlines()[0]}): give its name with its catalog, or its path"
            ) from error
        return [
            _Snapshot(
                int(r["snapshot_id"]),
                None if r["parent_id"] is None else int(r["parent_id"]),
                str(r["operation"]),
                int((r["summary"] or {}).get("added-data-files", 0)),
            )
            for r in rows
        ]

    def _refuse(self, batch: int, why: str) -> None:
        raise NotAsRecorded(
            f"batch {batch} {why}: which files of a snapshot come first is not told outside Iceberg. "
            "Streams without streaming-max-files-per-micro-batch and streaming-max-rows-per-micro-batch "
            "take whole snapshots",
            {batch: why},
        )
