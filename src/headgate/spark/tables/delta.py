"""A reader of the batches of a Delta source: exactly the files that a batch took, as they were then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.errors import BadArgument, NotAsRecorded
from headgate.spark.backfill.offsets import BatchOffsets
from headgate.spark.tables.delta_log import Commit, DeltaOffset, commit_name
from headgate.spark.worker_errors import said_by_spark

__all__ = ["delta_rows"]


def delta_rows(
    spark: SparkSession,
    table: str,
    options: Mapping[str, str] | None = None,
    prepare: Callable[[DataFrame], DataFrame] | None = None,
    *,
    source: int = 0,
) -> Callable[[BatchOffsets], DataFrame]:
    """A reader of a Delta source's batches.

    `table` is the table's path, or its name; `options` are the stream's own; `prepare` is what the query
    does between the source and the gate. The table's log says which files a batch took, part of a commit
    (``maxFilesPerTrigger``) included, and each is read in the version of the table that had it. Refused
    by name: a batch that took only a part of what the table had when the stream began, commits that
    changed or deleted rows (unless the stream skipped them), and commits whose log is gone.

        rows = hg.delta_rows(spark, "/lake/rides", {"maxFilesPerTrigger": "10"})
        late = hg.backfill(spark, "rides", "/shared/headgate", rows)
    """
    given = {name.lower(): str(value) for name, value in (options or {}).items()}
    if given.get("readchangefeed", "false").lower() == "true":
        raise BadArgument(
            "readChangeFeed=true: a change feed's rows are not read again; give the batches' changes "
            "another way, or stream the table's appended rows"
        )
    location: list[str] = []

    def rows(batch: BatchOffsets) -> DataFrame:
        if not location:
            location.append(_location(spark, table))
        reader = _Batch(spark, location[0], given, batch.batch)
        frame = reader.rows(batch.starts[source], batch.ends[source])
        return frame if prepare is None else prepare(frame)

    return rows


def _location(spark: SparkSession, table: str) -> str:
    if "/" in table:
        return table.rstrip("/")
    try:
        return str(spark.sql(f"DESCRIBE DETAIL {table}").collect()[0]["location"]).rstrip("/")
    except Exception as error:
        if said_by_spark(error) is None:
            raise
        raise BadArgument(
            f"table={table!r} is no Delta table of this session ({str(error).splitlines()[0]}): give "
            "its name, or its path with a slash in it"
        ) from error


class _Batch:
    """One batch of a table's stream."""

    def __init__(self, spark: SparkSession, path: str, options: Mapping[str, str], batch: int) -> None:
        self._spark, self._path, self._options, self._batch = spark, path, options, batch

    def rows(self, start_value: Any, end_value: Any) -> DataFrame:
        end = DeltaOffset.read(end_value)
        if end is None:
            raise BadArgument(
                f"batch {self._batch} ends at {end_value!r}, which is no offset of a Delta table: give "
                "source=, the number of the query's source that is one"
            )
        start, parts = self._start(start_value, end)
        files: dict[int, list[str]] = {}
        commits = self._commits(start.commits_to(end))
        gone = {path for commit in commits for path in commit.removed}
        for commit in commits:
            for file in self._files(commit, start, end):
                # Later versions of the table do not have what a later commit removed.
                version = commit.version if file.path in gone else commits[-1].version
                files.setdefault(version, []).append(unquote(file.name))
        for version, names in sorted(files.items()):
            frame = self._at(version)
            parts.append(frame.where(F.col("_metadata.file_name").isin(names)))
        if not parts:
            return self._at(max(0, end.version - 1)).where("false")
        return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)

    def _start(self, value: Any, end: DeltaOffset) -> tuple[DeltaOffset, list[DataFrame]]:
        """Where its commits begin, and what is read besides them."""
        start = DeltaOffset.read(value)
        if end.initial or (start is not None and start.initial):
            raise NotAsRecorded(
                f"batch {self._batch} took a part of what the table had when the stream began "
                "(maxFilesPerTrigger or maxBytesPerTrigger): which files that were cannot be told any "
                "more. Process the table as it was then instead, in version "
                f"{(end if end.initial else start or end).version}",
                {self._batch: "took a part of the table's first snapshot"},
            )
        if start is not None:
            return start, []
        begins = self._options.get("startingversion")
        if begins is not None and begins.isdigit():
            return DeltaOffset.before(int(begins)), []
        if begins is not None or "startingtimestamp" in self._options:
            raise BadArgument(
                f"batch {self._batch} is the query's first, and the stream began at "
                f"{begins or self._options['startingtimestamp']!r}: give startingVersion as the number "
                "that it was then, in options="
            )
        return DeltaOffset.before(end.version), [self._at(end.version - 1)]

    def _files(self, commit: Commit, start: DeltaOffset, end: DeltaOffset) -> Sequence[Any]:
        """The files of a commit that the batch took; none of one that the stream skipped."""
        found = commit.between(start, end)
        if not commit.removed_rows or not found:
            return found
        if self._options.get("skipchangecommits", "false").lower() == "true":
            return []
        if self._options.get("ignorechanges", "false").lower() == "true":
            return found
        raise NotAsRecorded(
            f"commit {commit.version} of the table {self._path} changed rows, and no stream without "
            "skipChangeCommits or ignoreChanges reads such: give the stream's own options=",
            {self._batch: f"has commit {commit.version}, which changed rows"},
        )

    def _commits(self, versions: range) -> list[Commit]:
        if not versions:
            return []
        names = [f"{self._path}/_delta_log/{commit_name(version)}" for version in versions]
        try:
            read = self._spark.read.text(names, wholetext=True)
            rows = read.select("value", "_metadata.file_name").collect()
        except Exception as error:
            if said_by_spark(error) is None:
                raise
            raise NotAsRecorded(
                f"the log of the table {self._path} does not have the commits {versions[0]} to "
                f"{versions[-1]} of batch {self._batch} any more: "
                f"{str(error).splitlines()[0]}",
                {self._batch: f"has commits {versions[0]} to {versions[-1]}, which are gone"},
            ) from error
        texts = {int(row["file_name"].partition(".")[0]): row["value"] for row in rows}
        return [Commit.read(version, texts[version]) for version in versions]

    def _at(self, version: int) -> DataFrame:
        """The table in one version."""
        return self._spark.read.format("delta").option("versionAsOf", version).load(self._path)
