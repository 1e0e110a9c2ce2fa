"""What the estimators aggregate: a row's weight and how it was drawn, and sums that may be empty."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from headgate.errors import BadArgument
from headgate.spark.gate.shape import WEIGHT
from headgate.spark.gate.weights import is_counted

__all__ = [
    "Weighted",
    "column_of",
    "covariance",
    "number",
    "number_of",
    "shape",
    "text_of",
    "total",
]


@dataclass(frozen=True)
class Weighted:
    """A row's weight w, its share v = w (w - 1) in a variance, and how it was drawn."""

    w: Column
    v: Column
    shed: Column
    counted: Column
    coin: Column

    @classmethod
    def of(cls, weight: str | Column = WEIGHT) -> Weighted:
        """From the weight's column; a row without a weight met no gate, and stands for itself."""
        w = F.coalesce(column_of(weight, "weight").cast("double"), F.lit(1.0))
        counted, shed = is_counted(w), w > 1.0
        return cls(w, w * (w - 1.0), shed, counted, shed & ~counted)


def column_of(column: str | Column, argument: str) -> Column:
    """The column that was named or given."""
    if isinstance(column, Column):
        return column
    if not isinstance(column, str) or not column:
        raise BadArgument(f"{argument}={column!r}: give a column's name or a Column (F.col, F.expr)")
    return F.col(column)


def number_of(column: str | Column, argument: str = "column") -> Column:
    """The column as doubles: true is 1, a timestamp is seconds."""
    return column_of(column, argument).cast("double")


def text_of(column: str | Column) -> str:
    """How a default name mentions the column."""
    if isinstance(column, str):
        return column
    return str(column).removeprefix("Column<'").removesuffix("'>")


def number(where: Column) -> Column:
    """How many rows it is true for. (Spark's `count_if` would make two aggregates of the plan.)"""
    return F.count(F.when(where, F.lit(1)))


def total(value: Column, where: Column | None = None) -> Column:
    """The sum over the rows `where` it is true; 0 over no rows, where Spark's sum is null."""
    return F.coalesce(F.sum(value if where is None else F.when(where, value)), F.lit(0.0))


def covariance(x: Column, y: Column) -> Column:
    """Spark's own, which merges without cancellation; 0 over no rows."""
    return F.coalesce(F.covar_pop(x, y), F.lit(0.0))


def shape(value: Column, shed: Column) -> dict[str, Column]:
    """How the shed rows' values lie: the ends, which tell whether all are equal, and the skew."""
    there = F.when(shed, value)
    return {
        "least": F.min(there),
        "most": F.max(there),
        "skew": F.coalesce(F.nanvl(F.skewness(there), F.lit(0.0)), F.lit(0.0)),
    }
