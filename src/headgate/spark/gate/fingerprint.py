"""A fingerprint of rows whatever their order: which rows were kept, in two numbers.

Made of the hash that decided the rows' fate, as native aggregates. The exclusive or has all its bits but
loses rows that come twice; the sum has them, and sums only the low half, so that it cannot overflow
(Spark 4 fails on overflow) before a batch has four billion rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

__all__ = ["HASH", "fingerprint_columns", "fingerprint_in"]

#: Scratch column: the hash that decided the row's fate.
HASH = "_headgate_row"
_XOR, _SUM = "fingerprint_xor", "fingerprint_sum"
_LOW = (1 << 31) - 1


def fingerprint_columns(hashed: Column) -> list[Column]:
    """The aggregates; rows whose hash is null do not count."""
    return [
        F.bit_xor(hashed).alias(_XOR),
        F.sum(hashed.bitwiseAND(F.lit(_LOW).cast("bigint"))).alias(_SUM),
    ]


def fingerprint_in(values: Mapping[str, Any]) -> str:
    """The fingerprint from the aggregates' values; empty where there are none.

    >>> fingerprint_in({"fingerprint_xor": None, "fingerprint_sum": None})
    '0000000000000000-0'
    >>> fingerprint_in({"kept": 3})
    ''
    """
    if _XOR not in values:
        return ""
    return f"{int(values[_XOR] or 0):016x}-{int(values[_SUM] or 0):x}"
