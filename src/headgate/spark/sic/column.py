"""The column `_sic`: a row's source information, and Eq. 3 for groups (themis-2016, section 4).

A gate of a site gives each row that it keeps 1 / (rows of its source in the STW * sources of the query)
(Eq. 1). From there on a query carries the column itself: the outputs of a group share the
SIC of its inputs (Eq. 3), and the sum over a query's results is the query's SIC (Eq. 4).

A SIC is a finite number, 0 or more. Rows of other sites come over a link, and one NaN among them would
be in every sum for a whole STW. So what is no SIC (null, NaN, infinite, negative) counts as 0: such a
row makes its query look poorer, never richer.
"""

from __future__ import annotations

import math
from typing import Any

from headgate.errors import BadArgument, UnknownColumn
from headgate.spark.session import session_of  # first: it says which extra is missing

# isort: split
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType

__all__ = ["SIC", "require_sic", "row_sic", "shared", "total"]

#: The column that a site's gate adds: the source information content of a row.
SIC = "_sic"


def require_sic(frame: Any, argument: str = "frame") -> None:
    """Refuse what is no DataFrame, and one without a `_sic` that can be a gate's.

    Only the schema is looked at: a column of one's own that is called `_sic` and holds doubles is taken
    for a gate's.
    """
    if not hasattr(frame, "sparkSession") or not hasattr(frame, "schema"):
        raise BadArgument(f"{argument}={frame!r} is no DataFrame")
    session_of(frame)
    found = [field for field in frame.schema.fields if field.name == SIC]
    if not found:
        raise UnknownColumn(
            f"{argument}: the DataFrame has no column {SIC!r}; it has "
            f"{', '.join(frame.columns) or 'none'}. A site's gate adds it; a select behind the gate has "
            "to name it, and an aggregate carries it as hg.sic.total()"
        )
    if len(found) > 1:
        raise BadArgument(
            f"{argument}: the DataFrame has {len(found)} columns {SIC!r}, as a join of two gated "
            "streams has; use hg.sic.join, or drop one and add both up"
        )
    if not isinstance(found[0].dataType, DoubleType):
        raise BadArgument(
            f"{argument}: {SIC!r} is a {found[0].dataType.simpleString()}, and a gate's is a double; "
            "if it is a column of your own, rename it in front of the gate"
        )


def row_sic() -> Column:
    """The SIC of a row; 0 where `_sic` is null, NaN, infinite or negative."""
    sic = F.col(SIC)
    # In Spark NaN is above every number, infinity included.
    return F.when((sic >= 0.0) & (sic < F.lit(math.inf)), sic).otherwise(F.lit(0.0))


def total() -> Column:
    """An aggregate, called `_sic`: the SIC of a group's only output (Eq. 3)."""
    return _sum().alias(SIC)


def shared(outputs: int | Column) -> Column:
    """An aggregate, called `_sic`: the SIC of each of a group's outputs (Eq. 3).

    `outputs` is how many there are, as a number or as an aggregate of the same group; where that gives
    0 or null, there is no output to carry the SIC of the inputs, and it is lost.
    """
    if isinstance(outputs, Column):
        count = outputs.cast("double")
        return F.when(count > 0.0, _sum() / count).otherwise(F.lit(0.0)).alias(SIC)
    if isinstance(outputs, bool) or not isinstance(outputs, int) or outputs < 1:
        raise BadArgument(
            f"outputs={outputs!r}: give a whole number of 1 or more, or an aggregate that counts them, "
            "such as F.least(F.count('*'), F.lit(5))"
        )
    return (_sum() / F.lit(float(outputs))).alias(SIC)


def _sum() -> Column:
    return F.coalesce(F.sum(row_sic()), F.lit(0.0))
