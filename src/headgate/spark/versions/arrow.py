"""Arrow between Spark and Python, as each version of PySpark spells it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql.pandas import types as arrow_types
from pyspark.sql.types import StructType

from headgate.spark.versions.supported import SparkVersion, installed, version_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["arrow_function", "arrow_schema", "over_pandas"]

#: The private function that makes an Arrow schema takes a time zone since then, and a flag before.
_TIMEZONE = SparkVersion(4, 2)
#: Functions whose arguments and results are Arrow arrays.
_ARROW_FUNCTIONS = SparkVersion(4, 1)

Batches = Iterator[tuple[pa.Array, ...]]


def arrow_schema(schema: StructType, version: SparkVersion | None = None) -> pa.Schema:
    """The schema as Spark sends rows of it to Python: timestamps are in UTC.

    A worker asks too, so what counts is the PySpark installed there, and no session.
    """
    version = version or installed()
    make: Callable[..., pa.Schema] = arrow_types.to_arrow_schema
    if version is not None and version < _TIMEZONE:
        return make(schema, timestamp_utc=True)
    return make(schema, timezone="UTC")


def arrow_function(
    spark: SparkSession, function: Callable[[Batches], Iterator[pa.Array]], returns: str
) -> Callable[..., Column]:
    """A scalar function over a partition's batches of Arrow arrays, of two columns or more.

    Spark 4.0 has only functions over pandas. Integers without nulls and floating-point numbers cross
    from Arrow to pandas and back unchanged, and no others are used: results are the same to the bit.

    It is not deterministic to Spark: else that may push a filter below it, and call it twice.
    """
    if version_of(spark) >= _ARROW_FUNCTIONS:
        from pyspark.sql.pandas.functions import arrow_udf

        made: Any = arrow_udf(function, returns)  # type: ignore[call-overload]
    else:
        from pyspark.sql.pandas.functions import PandasUDFType, pandas_udf

        with warnings.catch_warnings():  # Spark would rather read annotations
            warnings.simplefilter("ignore", UserWarning)
            kind = PandasUDFType.SCALAR_ITER
            made = pandas_udf(over_pandas(function), returns, kind)
    called: Callable[..., Column] = made.asNondeterministic()
    return called


def over_pandas(
    function: Callable[[Batches], Iterator[pa.Array]],
) -> Callable[[Iterator[tuple[pd.Series, ...]]], Iterator[pd.DataFrame]]:
    """The same function of pandas columns, which gives a struct's fields as the columns of a frame."""

    def called(batches: Iterator[tuple[pd.Series, ...]]) -> Iterator[pd.DataFrame]:
        import pandas as pd

        arrays = (tuple(pa.Array.from_pandas(column) for column in batch) for batch in batches)
        for found in function(arrays):
            names = [field.name for field in found.type]
            yield pd.DataFrame({name: found.field(name).to_pandas() for name in names})

    return called
