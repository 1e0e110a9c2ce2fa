"""Two native passes over a batch DataFrame: count every stratum, then draw from the large ones.

The batch is read twice and cached never: materialising it costs more than reading the columns that
decide (measured: 4.3 million rows a second against 10 and more). No row sees Python.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from headgate.concept.accuracy import Accuracy
from headgate.concept.allocation import Allocation, allocate
from headgate.concept.level import Rule
from headgate.plan import SCALE, Plan
from headgate.spark.cells import CELL, CellShape
from headgate.spark.identity import row_hash
from headgate.spark.weights import counted_column

__all__ = ["drawn_in_two_passes", "quotas_of"]

_HASH, _BOUND, _QUOTA, _ROWS = "_headgate_hash", "_headgate_bound", "_headgate_quota", "_headgate_rows"
#: Strata that are still broadcast; with more of them Spark chooses how to join.
_BROADCAST = 1_000_000


def drawn_in_two_passes(
    spark: SparkSession,
    frame: DataFrame,
    cells: CellShape,
    identity: tuple[str, ...],
    seed: int,
    plan: Plan,
) -> tuple[DataFrame, Column, Allocation]:
    """The kept rows with scratch columns, their weight, and what was allocated."""
    hashed = row_hash(frame, identity, seed)
    counts = _counts(frame, cells, hashed)
    allocation = quotas_of(counts, cells, plan)
    large = allocation.quotas < allocation.counts
    frame = frame.withColumn(CELL, cells.key(frame)).withColumn(_HASH, hashed)
    table = _bounds(counts, allocation, large, cells.draw)
    groups = spark.createDataFrame(table)
    if table.num_rows <= _BROADCAST:
        groups = F.broadcast(groups)
    joined = frame.join(groups, CELL, "left")
    rows, bound = F.col(_ROWS), F.col(_BOUND)
    reached = joined.where(bound.isNull() | (F.col(_HASH) <= bound))
    if cells.draw == "coin":
        return reached, F.coalesce(rows / F.col(_QUOTA), F.lit(1.0)), allocation
    stratum = Window.partitionBy(CELL)
    rank = F.rank().over(stratum.orderBy(_HASH))
    kept = reached.withColumn(_BOUND, rank).where(
        F.col(_QUOTA).isNull() | (F.col(_BOUND) <= F.col(_QUOTA))
    )
    number = F.count(F.lit(1)).over(stratum)
    return kept, counted_column(F.coalesce(rows / number, F.lit(1.0))), allocation


def _counts(frame: DataFrame, cells: CellShape, hashed: Column) -> pa.Table:
    """The rows of every stratum, its lowest hash, and the mean and spread of its values where they count."""
    found = [F.count(F.lit(1)).alias("n"), F.min(hashed).alias("lowest")]
    if cells.value is not None:
        value = F.col(cells.value).cast("double")
        found += [F.avg(value).alias("mean"), F.coalesce(F.stddev(value), F.lit(0.0)).alias("spread")]
    return frame.groupBy(cells.key(frame).alias("k")).agg(*found).toArrow()


def _numbers(counts: pa.Table, name: str) -> npt.NDArray[np.float64]:
    return np.asarray(np.nan_to_num(counts[name].to_numpy().astype(np.float64)))


def quotas_of(counts: pa.Table, cells: CellShape, plan: Plan) -> Allocation:
    """How many rows of each stratum to keep, now that all are counted."""
    sizes = counts["n"].to_numpy().astype(np.int64)
    spread = _numbers(counts, "spread") if cells.value is not None else None
    if plan.keeps_everything:
        return Allocation(sizes, sizes, float(sizes.sum()))
    order = counts["lowest"].to_numpy()
    if cells.accuracy is None:
        return allocate(
            sizes, plan.default * sizes.sum(), cells.rule,
            least=cells.least, deviations=spread, overflow=cells.overflow, order=order,
        )  # fmt: skip
    assert spread is not None
    part = np.full(len(sizes), cells.pane_us / cells.window_us if cells.window_us else 1.0)
    needs = Accuracy(*cells.accuracy).needs(sizes, _numbers(counts, "mean"), spread, part)
    rule = Rule("need", cells.least, cells.overflow)
    dice = order / float(SCALE)  # a lowest hash is as good as any number, if not uniform
    level = 1.0 if plan.level is None else plan.level
    return Allocation(sizes, rule.quotas(level, sizes, needs, 1.0 - dice), float(needs.sum()))


def _bounds(
    counts: pa.Table, allocation: Allocation, large: npt.NDArray[np.bool_], draw: str
) -> pa.Table:
    """The strata that do not keep all: up to which hash rows can be kept, and how many.

    A coin's bound is its rate. For a fixed number of rows it lies a little above the expected one, and
    never below the lowest hash, so that no stratum ends up empty.
    """
    sizes, quotas = allocation.counts[large], allocation.quotas[large]
    if draw == "coin":
        bound = (quotas / sizes * SCALE).astype(np.int64) - 1
    else:
        reach = np.minimum(1.0, (quotas + 2.0 * np.sqrt(quotas) + 2.0) / sizes)
        bound = np.maximum((reach * float(SCALE)).astype(np.int64), counts["lowest"].to_numpy()[large])
    bound = np.where(quotas > 0, bound, -1)
    return pa.table(
        {CELL: counts["k"].filter(pa.array(large)), _BOUND: bound, _QUOTA: quotas, _ROWS: sizes}
    )
