"""Python operators with state of their own over Connect: since when its client has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.spark.versions.supported import SparkVersion, require, version_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["require_state_operators"]

#: ``transformWithStateInPandas`` of a Connect session; classic ones have it in every Spark 4.
_OVER_CONNECT = SparkVersion(4, 1)


def require_state_operators(spark: SparkSession, who: str, connect: bool) -> None:
    """Refuse, at the call, an operator with state that this session cannot have."""
    if connect:
        instead = "give it DataFrames of a classic session (SparkSession.builder.master(...))"
        require(version_of(spark), _OVER_CONNECT, f"{who} over Connect", instead)
