"""Results of a join on their way out: pairs as columns, payloads as rows, no Python object for a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StructField, StructType

from headgate.errors import BadArgument
from headgate.spark.join.block import Block
from headgate.spark.join.meter import COUNTS
from headgate.spark.join.pack import OWN, as_one, unpacked
from headgate.spark.versions.arrow import arrow_schema

__all__ = ["Unpacker", "counted", "joined_batches", "listed_batches", "result_schema"]


def joined_batches(pairs: list[tuple[Block, np.ndarray, Block, np.ndarray]]) -> pa.RecordBatch | None:
    """The user's columns of the left and the right rows of all pairs, side by side."""
    found = []
    for left, i, right, j in pairs:
        ours = _own(left.batch).take(pa.array(i))
        theirs = _own(right.batch).take(pa.array(j))
        arrays = [*ours.columns, *theirs.columns]
        found.append(pa.RecordBatch.from_arrays(arrays, names=[f"c{k}" for k in range(len(arrays))]))
    return _as_one(found)


def listed_batches(pairs: list[tuple[Block, np.ndarray, Block, np.ndarray]]) -> pa.RecordBatch | None:
    """One row for each left row of each pair of blocks, with the right rows that it met as a list."""
    found = []
    for left, i, right, j in pairs:
        order = np.argsort(i, kind="stable")
        met, starts = np.unique(i[order], return_index=True)
        theirs = _own(right.batch).take(pa.array(j[order]))
        structs = pa.StructArray.from_arrays(theirs.columns, fields=list(theirs.schema))
        lists = pa.ListArray.from_arrays(pa.array(np.append(starts, len(i)), pa.int32()), structs)
        arrays = [*_own(left.batch).take(pa.array(met)).columns, lists]
        found.append(pa.RecordBatch.from_arrays(arrays, names=[f"c{k}" for k in range(len(arrays))]))
    return _as_one(found)


def _as_one(found: list[pa.RecordBatch]) -> pa.RecordBatch | None:
    return as_one(found) if found else None


def _own(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The user's columns alone, without Headgate's."""
    return batch.drop_columns([name for name in OWN if name in batch.schema.names])


@dataclass(frozen=True)
class Unpacker:
    """The function of `mapInArrow` behind the operator."""

    schema: StructType

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One batch of rows for each payload."""
        schema = arrow_schema(self.schema)
        for batch in batches:
            for payload in batch.column("payload"):
                found = unpacked(payload.as_buffer())
                arrays = [
                    column if column.type == field.type else column.cast(field.type)
                    for column, field in zip(found.columns, schema, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def result_schema(
    left: DataFrame, right: DataFrame, output: str, suffixes: tuple[str, str]
) -> StructType | None:
    """The columns of the result; None where it counts pairs and does not list them."""
    if output == "counts":
        return None
    ours, theirs = list(left.schema.fields), list(right.schema.fields)
    if output == "lists":
        matches = StructType([StructField(f.name, f.dataType, True) for f in theirs])
        named = [_named(f, {"matches"}, suffixes[0]) for f in ours]
        return StructType([*named, StructField("matches", ArrayType(matches), True)])
    both = {f.name.lower() for f in ours} & {f.name.lower() for f in theirs}
    named = [_named(f, both, suffixes[0]) for f in ours]
    named += [_named(f, both, suffixes[1]) for f in theirs]
    names = [f.name.lower() for f in named]
    taken = sorted({n for n in names if names.count(n) > 1})
    if taken:
        raise BadArgument(
            f"suffixes={suffixes!r} leave two columns named {taken[0]!r}: rename one, or give others"
        )
    return StructType(named)


def _named(field: StructField, both: set[str], suffix: str) -> StructField:
    return StructField(
        field.name + suffix if field.name.lower() in both else field.name, field.dataType, True
    )


def counted(rows: DataFrame, basic_us: int) -> DataFrame:
    """One row for each basic window and shard; they add up."""
    number = F.col("numbers")
    estimate = number[0] + number[1]
    start = F.timestamp_micros(F.col("bucket") * F.lit(basic_us))
    end = F.timestamp_micros((F.col("bucket") + 1) * F.lit(basic_us))
    return rows.where(F.col("what") == COUNTS).select(
        F.struct(start.alias("start"), end.alias("end")).alias("window"),
        number[0].cast("bigint").alias("pairs"),
        estimate.alias("estimate"),
        F.sqrt(number[2]).alias("stderr"),
        F.when(estimate > 0, number[0] / estimate).otherwise(1.0).alias("completeness"),
        number[3].alias("utility"),
        (number[3] + number[4]).alias("utility_estimate"),
        F.sqrt(number[5]).alias("utility_stderr"),
    )
