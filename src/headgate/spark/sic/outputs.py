"""SIC through operators with several outputs, or fewer than inputs: top-k, explode, distinct.

All are Eq. 3 (themis-2016, section 4) with the number of outputs that there really are: a group of three
has three outputs of a top five. What is lost is what has no output at all. All are native, and serve
batches and streams in append mode; there the groups are told apart by a window, as any aggregate's are.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.errors import BadArgument
from headgate.spark.gate.identity import require_own_column
from headgate.spark.gate.shape import quoted
from headgate.spark.sic.column import SIC, require_sic, row_sic, total
from headgate.spark.sic.windows import WINDOW
from headgate.spark.versions.aggregates import first_rows

# isort: split
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

__all__ = ["distinct", "explode", "names_of", "top"]

_TOP = "_headgate_top"
#: Spark's own bound of max_by(x, y, k).
_MOST = 100_000


def names_of(frame: DataFrame, names: str | Sequence[str], argument: str) -> list[str]:
    """Columns by their exact names, each once, and none of them `_sic`."""
    found = [names] if isinstance(names, str) else list(names) if isinstance(names, list | tuple) else []
    if not found or len(set(found)) < len(found) or SIC in found:
        raise BadArgument(
            f"{argument}={names!r}: name one column or several, each once, and not {SIC!r} itself"
        )
    for name in found:
        require_own_column(frame, name, argument)
    return found


def top(
    frame: DataFrame, k: int, by: str, within: str | Sequence[str] = WINDOW, *, least: bool = False
) -> DataFrame:
    """The k rows of each group with the largest `by` (`least`: smallest), which share the group's SIC.

    Rows without a value (null) are not ranked; their SIC goes to those that are. Of equal
    ones the larger (smaller) in its other columns goes first, in the columns' order, so the outcome does
    not depend on the order of arrival.
    """
    require_sic(frame)
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= _MOST:
        raise BadArgument(f"k={k!r}: give a whole number from 1 to {_MOST:,}")
    groups = names_of(frame, within, "within")
    if by in groups:
        raise BadArgument(f"by={by!r} is the same in all rows of a group: it is in within={within!r}")
    require_own_column(frame, by, "by")
    others = [name for name in frame.columns if name not in (*groups, SIC)]
    row = F.struct(*[quoted(name) for name in others])
    ranked = F.when(quoted(by).isNotNull(), F.struct(quoted(by), *_orderable(frame, others)))
    chosen = first_rows(frame.sparkSession, row, ranked, k, least).alias(_TOP)
    found = frame.groupBy(*map(quoted, groups)).agg(chosen, total())
    return _spread(found, groups, _TOP, others)


def _orderable(frame: DataFrame, names: Sequence[str]) -> list[Column]:
    """Columns to break ties with; maps and variants have no order, their text has."""
    kinds = {name: frame.schema[name].dataType.simpleString() for name in names}
    return [
        F.to_json(F.struct(quoted(name))) if "map<" in kind or "variant" in kind else quoted(name)
        for name, kind in kinds.items()
    ]


def _spread(frame: DataFrame, kept: Sequence[str], array: str, fields: Sequence[str]) -> DataFrame:
    """A row for each struct of the array, which share `_sic`; none where it is empty."""
    each = (F.col(SIC) / F.size(quoted(array))).alias(SIC)
    rows = frame.select(*map(quoted, kept), F.explode(quoted(array)).alias(array), each)
    return rows.select(*map(quoted, kept), *[F.col(array)[name].alias(name) for name in fields], SIC)


def explode(frame: DataFrame, array: str, name: str | None = None) -> DataFrame:
    """A row for each element of an array column, which share the row's SIC; `name` is its new name.

    This is how a map with several outputs (flatMap) is written: an array of them, and this. A row whose
    array is null or empty has no output, and its SIC is lost.
    """
    require_sic(frame)
    kind = require_own_column(frame, array, "array")
    if not isinstance(kind, ArrayType):
        raise BadArgument(f"array={array!r} is a {kind.simpleString()}, not an array")
    name = array if name is None else name
    others = [column for column in frame.columns if column not in (array, SIC)]
    if name in (*others, SIC):
        raise BadArgument(f"name={name!r}: the DataFrame has such a column already; choose another")
    each = (row_sic() / F.size(quoted(array))).alias(SIC)
    return frame.select(*map(quoted, others), F.explode(quoted(array)).alias(name), each)


def distinct(frame: DataFrame, columns: str | Sequence[str]) -> DataFrame:
    """One row for each value of the columns, with the SIC of all of its copies.

    Spark's own dropDuplicates keeps one copy and loses the SIC of the others.
    """
    require_sic(frame)
    names = names_of(frame, columns, "columns")
    return frame.groupBy(*map(quoted, names)).agg(total())
