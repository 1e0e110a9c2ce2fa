"""Where repaid rows go, and what makes a slice there be once.

- *Files*: a slice is written to a folder that readers do not see, counted there, and shown by one
  rename; which attempt's folder that is, the control store decides once. A reader sees a slice whole or
  not.
- *A Delta table*: the slice's id goes along as the transaction's (``txnAppId``), and the table passes
  over one that it has.
- *A function*: gets ``(frame, slice_id)``. A slice whose process died in the middle is handed to it
  again, with the same id and the same rows: it must write by that id.
"""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession

from headgate.errors import BadArgument, HeadgateError
from headgate.spark.checkpoint import local_path
from headgate.spark.session import is_connect
from headgate.store.repaid.slices import Given, Slice

__all__ = ["FILE_FORMATS", "FileSink", "FunctionSink", "Sink", "TableSink", "sink_for"]

#: Files that can hold any row and its batch.
FILE_FORMATS = ("parquet", "orc", "json", "csv")
#: File systems on which a folder is renamed in one step.
_ONE_STEP = ("hdfs", "viewfs")
_HIDDEN = "_headgate"

Function = Callable[[DataFrame, str], object]


class Sink(ABC):
    """One place for repaid rows."""

    given: Given
    #: Whether a slice that has begun and whose process died can be given up, and its batches taken anew.
    can_give_up: bool = False

    @abstractmethod
    def write(self, one: Slice, rows: DataFrame) -> dict[int, int] | None:
        """Take the rows; how many of each batch there are then, where that can be told."""

    def show(self, one: Slice, attempt: int) -> None:  # noqa: B027 (most have nothing to show)
        """Let the rows of this attempt count: they were decided on."""

    def drop(self, one: Slice, attempt: int) -> None:  # noqa: B027
        """Remove what an attempt wrote that does not count."""


def sink_for(spark: SparkSession, to: str | os.PathLike[str] | Function, format: str) -> Sink:
    """The sink that a call names."""
    if callable(to):
        return FunctionSink(to)
    if not isinstance(to, str | os.PathLike) or not os.fspath(to):
        raise BadArgument(f"to={to!r}: give a folder, or a function of (frame, slice_id)")
    where = os.fspath(to)
    if format == "delta":
        return TableSink(where)
    return FileSink(spark, where, format)


class FileSink(Sink):
    """A folder of files, with a folder in it for each slice."""

    can_give_up = True

    def __init__(self, spark: SparkSession, to: str, format: str) -> None:
        if format not in FILE_FORMATS:
            raise BadArgument(
                f"format={format!r}: give one of {', '.join(FILE_FORMATS)}, or delta; for anything else "
                "let to= be a function of (frame, slice_id) that writes"
            )
        self._spark = spark
        self._local = local_path(to)
        scheme = to.partition("://")[0]
        if self._local is None and (scheme not in _ONE_STEP or is_connect(spark)):
            raise BadArgument(
                f"to={to!r}: no folder is renamed in one step there, so that readers could see a slice "
                "in "
                'part: give a Delta table (format="delta"), a function of (frame, slice_id) that '
                "writes by "
                "the id, or a folder of this machine or on HDFS (a classic session's)"
            )
        self.root = str(self._local.absolute()) if self._local is not None else to.rstrip("/")
        self.given = Given("files", self.root, format)

    def _hidden(self, one: Slice, attempt: int) -> str:
        return f"{self.root}/{_HIDDEN}/{one.id}/{attempt}"

    def shown(self, slice_id: str) -> str:
        """Where a slice's files are once they count."""
        return f"{self.root}/headgate_slice={slice_id}"

    def write(self, one: Slice, rows: DataFrame) -> dict[int, int]:
        """To a folder of this attempt's own; what is there then, batch by batch."""
        at = self._hidden(one, one.attempt)
        rows.write.format(self.given.format).mode("overwrite").save(at)
        back = self._spark.read.format(self.given.format).schema(rows.schema).load(at)
        return {row["_batch"]: row["count"] for row in back.groupBy("_batch").count().collect()}

    def show(self, one: Slice, attempt: int) -> None:
        """One rename; where somebody was faster with the same attempt, it is done."""
        hidden, shown = self._hidden(one, attempt), self.shown(one.id)
        if not self._exists(shown):
            if not self._exists(hidden):
                if self._exists(shown):  # another process renamed it between the two looks
                    return
                raise HeadgateError(
                    f"slice {one.id}: its rows were written to {hidden}, and are neither there nor at "
                    f"{shown}: restore the folder; what is marked as repaid is never written twice"
                )
            self._rename(hidden, shown)
        self._remove(f"{self.root}/{_HIDDEN}/{one.id}")

    def drop(self, one: Slice, attempt: int) -> None:
        """Whoever it was is gone, or may not let it count any more."""
        self._remove(self._hidden(one, attempt))

    # A local folder is this process's to rename; any other one is Hadoop's.

    def _exists(self, path: str) -> bool:
        if self._local is not None:
            return Path(path).exists()
        return bool(self._files(path).util().exists(self._path(path)))

    def _rename(self, before: str, after: str) -> None:
        if self._local is not None:
            try:
                Path(before).rename(after)
            except OSError:
                if not Path(after).exists():
                    raise
            return
        jvm: Any = self._spark._jvm
        gateway = cast(Any, self._spark.sparkContext._gateway)
        never = gateway.new_array(jvm.org.apache.hadoop.fs.Options.Rename, 0)
        self._files(before).rename(self._path(before), self._path(after), never)

    def _remove(self, path: str) -> None:
        if self._local is not None:
            shutil.rmtree(path, ignore_errors=True)
        elif self._exists(path):
            self._files(path).delete(self._path(path), True)

    def _path(self, path: str) -> Any:
        jvm: Any = self._spark._jvm
        return jvm.org.apache.hadoop.fs.Path(path)

    def _files(self, path: str) -> Any:
        jvm: Any = self._spark._jvm
        settings = self._spark._jsc.hadoopConfiguration()
        return jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._path(path).toUri(), settings)


class TableSink(Sink):
    """A Delta table, which knows the transactions that it has."""

    def __init__(self, to: str) -> None:
        self.given = Given("delta", to, "delta")

    def write(self, one: Slice, rows: DataFrame) -> None:
        """Append, once for a slice."""
        writer = rows.write.format("delta").mode("append").option("txnAppId", f"headgate-{one.id}")
        writer = writer.option("txnVersion", "1")
        if "/" in self.given.to:
            writer.save(self.given.to)
        else:
            writer.saveAsTable(self.given.to)


class FunctionSink(Sink):
    """A function of the user's own."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self.given = Given("function")

    def write(self, one: Slice, rows: DataFrame) -> None:
        """It returns when the rows are where they should be."""
        self._function(rows, one.id)
