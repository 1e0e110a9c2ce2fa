"""Results that begin as estimates and end exact: counts and sums by key, batch by batch.

A gated query knows the rows that it kept and what they stand for; a backfill brings the others, later.
Neither may be added to a figure that already holds an estimate of the same rows. So what is stored are
*parts*, one row for each key and batch: of kept rows their number and sums as they are, and the
estimates for all that arrived with their variances; of repaid rows their number and sums. A result takes
of a batch that is repaid both exact parts, and of any other one the estimate. Batches are drawn by
themselves, so variances add up, and what is repaid has none: the error bar closes as batches are.

Parts are stored by name (`save`) or by key and batch (`merge`), so that a batch or a slice that runs
again replaces what it wrote.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headgate.errors import BadArgument, UnknownColumn
from headgate.spark.backfill.parts import query_named
from headgate.spark.estimates.totals import count as count_of
from headgate.spark.estimates.totals import sum as sum_of
from headgate.spark.gate.shape import WEIGHT, quoted, quoted_name
from headgate.store.folder import used_control_folder
from headgate.store.repaid.marks import marks_of

__all__ = ["Repairable", "repaid_batches"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")
_BATCH, _SIDE, _ROWS = "_batch", "_side", "_rows"


def repaid_batches(control: str | os.PathLike[str], gate: str, query: str | None = None) -> list[int]:
    """The batches of a gate whose shed rows were repaid (`repay`), as the control store has them now.

    totals.result(parts, hg.repaid_batches("/shared/headgate", "rides"))
    """
    folder = used_control_folder(control)
    return list(marks_of(folder, gate, query_named(folder, gate, query)).rows())


class Repairable:
    """Counts and sums by key, from weighted rows now and from the shed ones later.

    totals = hg.Repairable(by="route", sums="fare")
    totals.save(totals.kept(frame, batch), parts, f"batch-{batch}")      # in foreachBatch
    totals.save(totals.shed(frame), parts, slice_id)                     # in hg.repay's function
    totals.result(spark.read.parquet(parts), hg.repaid_batches(control, "rides"))
    """

    def __init__(self, by: str | Sequence[str], sums: str | Sequence[str] = ()) -> None:
        self.by = (by,) if isinstance(by, str) else tuple(by)
        self.sums = (sums,) if isinstance(sums, str) else tuple(sums)
        names = [name.lower() for name in (*self.by, *self.sums)]
        taken = sorted({"rows", "exact", _BATCH, _SIDE, _ROWS} & set(names))
        if taken:
            raise BadArgument(f"the column {taken[0]!r} is one that results have: rename yours")
        if not self.by or len(set(names)) < len(names):
            raise BadArgument(
                f"by={list(self.by)!r}, sums={list(self.sums)!r}: name one column to count by at "
                "least, and each column once"
            )

    # Parts.

    def kept(self, frame: DataFrame, batch: int) -> DataFrame:
        """The parts of a batch that the query has: in ``foreachBatch``, behind the gate."""
        self._require(frame, WEIGHT)
        made: list[Column] = [F.count(F.lit(1)).alias(_ROWS), count_of().alias(f"_of_{_ROWS}")]
        for name in self.sums:
            made += [self._plain(name), sum_of(quoted(name)).alias(f"_of_{name}")]
        parts = frame.groupBy(*self._keys()).agg(*made)
        chosen = [*self._keys(), *self._marked(F.lit(batch), "kept")]
        for name in (_ROWS, *self.sums):
            estimate = quoted(f"_of_{name}")
            chosen += [
                quoted(name),
                estimate["estimate"].alias(f"{name}_estimate"),
                F.pow(F.coalesce(estimate["stderr"], F.lit(0.0)), 2.0).alias(f"{name}_variance"),
            ]
        return parts.select(*chosen)

    def shed(self, frame: DataFrame) -> DataFrame:
        """The parts of repaid rows, with their batches: in the function that `repay` calls."""
        self._require(frame, _BATCH)
        made = [F.count(F.lit(1)).alias(_ROWS), *[self._plain(name) for name in self.sums]]
        parts = frame.groupBy(*self._keys(), quoted(_BATCH)).agg(*made)
        chosen = [*self._keys(), *self._marked(quoted(_BATCH), "shed")]
        none = F.lit(None).cast("double")
        for name in (_ROWS, *self.sums):
            chosen += [quoted(name), none.alias(f"{name}_estimate"), none.alias(f"{name}_variance")]
        return parts.select(*chosen)

    def _keys(self) -> list[Column]:
        return [quoted(name) for name in self.by]

    def _plain(self, name: str) -> Column:
        return F.coalesce(F.sum(quoted(name).cast("double")), F.lit(0.0)).alias(name)

    def _marked(self, batch: Column, side: str) -> list[Column]:
        return [batch.cast("bigint").alias(_BATCH), F.lit(side).alias(_SIDE)]

    def _require(self, frame: DataFrame, special: str) -> None:
        missing = [n for n in (*self.by, *self.sums, special) if n not in frame.columns]
        if missing:
            raise UnknownColumn(
                f"the rows have no column {', '.join(missing)}; they have {', '.join(frame.columns)}: "
                "give kept rows behind a gate to kept(), and the rows of a backfill to shed()"
            )

    # Where they are.

    def save(self, parts: DataFrame, path: str | os.PathLike[str], name: str) -> None:
        """Write parts to a folder of Parquet; what was written under this name before is replaced."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise BadArgument(
                f"name={name!r}: give the batch or the slice's id, letters, digits, '_', '-' and '.'"
            )
        parts.write.mode("overwrite").parquet(f"{os.fspath(path).rstrip('/')}/part={name}")

    def merge(self, parts: DataFrame, table: str) -> None:
        """Merge parts into a Delta or Iceberg table; those of the same key, batch and side are replaced.

        The table must be there: ``parts.limit(0).writeTo(table).using("delta").create()`` makes it.
        """
        view = "headgate_parts"
        parts.createOrReplaceTempView(view)
        same = " AND ".join(
            f"t.{quoted_name(name)} <=> s.{quoted_name(name)}" for name in (*self.by, _BATCH, _SIDE)
        )
        named = ".".join(quoted_name(part.strip("`")) for part in table.split("."))
        try:
            parts.sparkSession.sql(
                f"MERGE INTO {named} t USING {view} s ON {same} "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )
        finally:
            parts.sparkSession.catalog.dropTempView(view)

    # The result.

    def result(self, parts: DataFrame, repaid: Iterable[int]) -> DataFrame:
        """Counts (``rows``) and sums by key, each with its standard error, and whether they are exact.

        `repaid` are the batches whose shed rows are all among the parts (`repaid_batches`); of any other
        batch the estimates count, and parts of its shed rows, should there be some already, do not.
        """
        batches = sorted(set(repaid))
        spark = parts.sparkSession
        done = spark.createDataFrame([(b, True) for b in batches], "_done_batch bigint, _done boolean")
        on = F.col(_BATCH) == F.col("_done_batch")
        judged = parts.join(F.broadcast(done), on, "left")
        exact = F.coalesce(F.col("_done"), F.lit(False))
        counted = judged.where(exact | (F.col(_SIDE) == "kept"))
        made: list[Column] = []
        for name, shown in ((_ROWS, "rows"), *((n, n) for n in self.sums)):
            value = F.when(exact, quoted(name).cast("double")).otherwise(quoted(f"{name}_estimate"))
            variance = F.when(exact, F.lit(0.0)).otherwise(quoted(f"{name}_variance"))
            made += [F.sum(value).alias(shown), F.sqrt(F.sum(variance)).alias(f"{shown}_stderr")]
        certain = exact | (quoted(f"{_ROWS}_estimate") == quoted(_ROWS))
        made.append(F.bool_and(certain).alias("exact"))
        return counted.groupBy(*self._keys()).agg(*made)
