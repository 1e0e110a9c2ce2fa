"""Aggregates that came to Spark after 4.0, and what stands in for them in an older one."""

from __future__ import annotations

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from headgate.spark.versions.supported import SparkVersion, require, version_of

__all__ = ["first_rows", "has_heaviest", "heaviest", "require_heaviest"]

#: min_by(x, y, k) and max_by(x, y, k).
_SEVERAL_BY = SparkVersion(4, 2)
#: approx_top_k(x, k, counters).
_TOP_K = SparkVersion(4, 1)


def first_rows(spark: SparkSession, row: Column, ranked: Column, k: int, least: bool) -> Column:
    """The k rows of a group with the largest (`least`: smallest) `ranked`, in order; no nulls of that.

    Before Spark 4.2 a group's rows are collected, sorted and cut. The result is the same, but a group's
    rows must fit into the memory of a task, and on a stream its state holds all of them, not k.
    """
    if version_of(spark) >= _SEVERAL_BY:
        choose = F.min_by if least else F.max_by
        return choose(row, ranked, k)
    return sorted_rows(row, ranked, k, least)


def sorted_rows(row: Column, ranked: Column, k: int, least: bool) -> Column:
    """What `first_rows` does before Spark 4.2.

    Only `ranked` and a row's position are compared: a row may hold what has no order, such as a map.
    """
    pair = F.struct(ranked.alias("ranked"), row.alias("row"))
    found = F.collect_list(F.when(ranked.isNotNull(), pair))
    keys = F.transform(found, lambda x, i: F.struct(x["ranked"].alias("ranked"), i.alias("at")))
    first = F.slice(F.sort_array(keys, asc=least), 1, k)
    return F.transform(first, lambda key: found[key["at"]]["row"])


def has_heaviest(spark: SparkSession) -> bool:
    """Whether `heaviest` can be had."""
    return version_of(spark) >= _TOP_K


def require_heaviest(spark: SparkSession, who: str, instead: str) -> None:
    """Refuse what needs the heaviest groups of each batch where Spark cannot find them.

    Spark 4.0 has nothing to make it of: its other aggregates hold every value, or round keys to floating
    point.
    """
    require(version_of(spark), _TOP_K, f"{who}: to find the heaviest groups of a batch", instead)


def heaviest(value: Column, most: int, counters: int) -> Column:
    """The most frequent values with their counts, found with so many counters: `item` and `count`."""
    return F.call_function("approx_top_k", value, F.lit(most), F.lit(counters))
