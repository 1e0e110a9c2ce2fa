"""`together`: rows that a gate keeps or sheds together count as one, so that error bars stay honest.

Behind ``identity="user"`` all rows of a user share one fate. An estimator that takes them for rows drawn
one by one sees more luck cancel out than does, and its error bar is too small, by a factor that grows
with the rows of a user. What was drawn is users: add up each user's rows first, and estimate from users
(cluster sampling: Särndal, Swensson and Wretman, *Model Assisted Survey Sampling*, 1992, chapter 4).

A user's rows may have several weights, where a rate changed from batch to batch or a class is shed less
than another. One hash decides about all of them, so a row of weight w is kept whenever one of a greater
weight is. With z = Σ w y over a user's kept rows, the variance of the total is estimated without bias by

    Σ z² - Σ max(w_b, w_c) y_b y_c    (over users, and over all pairs of a user's rows),

and a single row of the greatest weight W and the value z / W says z² - z² / W, which is the same for one
weight and else more, as long as a user's values have one sign: the error may be overstated.
Rows that were never shed have no luck at all, and stand in a row of their own of weight 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headgate.errors import BadArgument
from headgate.spark.estimates.moments import number_of
from headgate.spark.gate.identity import require_columns, require_own_column
from headgate.spark.gate.shape import WEIGHT, quoted
from headgate.spark.gate.weights import coin_column

__all__ = ["IDENTITIES", "together"]

#: The column that adds up to the number of identities.
IDENTITIES = "identities"

_MOST, _LEAST, _CERTAIN = (f"_headgate_{name}" for name in ("most", "least", "certain"))
_VALUE, _SHED, _PART = (f"_headgate_{name}" for name in ("value", "shed", "part"))


def together(
    identity: str | Sequence[str],
    *,
    within: str | Sequence[str] = (),
    sums: Mapping[str, str | Column],
) -> Callable[[DataFrame], DataFrame]:
    """One row for the rows of each identity: ``calm.transform(hg.together("user", sums=...))``.

    For rows behind a gate with ``identity=``. `identity` names the same columns, `within` the columns
    of the groups that will be estimated (a window as a column, ``F.window(...)``), and `sums` what is
    added up by identity: names of new columns, and the column of each. ``F.lit(1)`` counts rows.

    The result has `within`, `identity`, the sums, ``identities`` and ``_weight``. Group it by `within`
    and estimate: ``hg.sum("fare")`` and ``hg.sum("rides")`` are totals of rows, ``hg.ratio("fare",
    "rides")`` is the mean of a row, ``hg.sum("identities")`` the number of users. In a stream it is an
    aggregate with a state of one row for each identity in a window that is open, so in append mode.
    """
    who, where = _names("identity", identity), _names("within", within)
    if not who:
        raise BadArgument("identity=(): name the columns that the gate's identity= has")
    if not isinstance(sums, Mapping) or not sums:
        raise BadArgument(
            f"sums={sums!r}: give what to add up by identity, such as "
            '{"fare": "fare", "rides": F.lit(1)}'
        )
    taken = [*where, *who, *sums, IDENTITIES, WEIGHT]
    twice = next((name for name in taken if taken.count(name) > 1), None)
    if twice is not None:
        raise BadArgument(
            f"two columns {twice!r} in the result, which has {', '.join(taken)}: name the sum otherwise"
        )
    values = {name: number_of(column, f"sums[{name!r}]") for name, column in sums.items()}

    def transform(frame: DataFrame) -> DataFrame:
        for argument, names in (("identity", who), ("within", where)):
            for name in names:
                require_own_column(frame, name, argument)
        require_columns(frame, [WEIGHT], "weight")
        keys = [quoted(name) for name in (*where, *who)]
        return _apart(_by_identity(frame, keys, values), keys, list(values))

    return transform


def _names(argument: str, given: str | Sequence[str]) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    if not all(isinstance(name, str) and name for name in names):
        raise BadArgument(f"{argument}={given!r}: give a column's name, or several")
    return names


def _by_identity(frame: DataFrame, keys: Sequence[Column], values: Mapping[str, Column]) -> DataFrame:
    """For each identity: its sums over rows never shed, those over the others times their weights."""
    w = F.coalesce(F.col(WEIGHT).cast("double"), F.lit(1.0))
    shed = w > 1.0
    found = [
        F.max(F.when(shed, w)).alias(_MOST),
        F.min(F.when(shed, w)).alias(_LEAST),
        F.count(F.when(~shed, F.lit(1))).alias(_CERTAIN),
    ]
    for number, value in enumerate(values.values()):
        found.append(F.sum(F.when(~shed, value)).alias(f"{_VALUE}{number}"))
        found.append(F.sum(F.when(shed, w * value)).alias(f"{_SHED}{number}"))
    return frame.groupBy(*keys).agg(*found)


def _apart(every: DataFrame, keys: Sequence[Column], names: Sequence[str]) -> DataFrame:
    """A row for what was never shed and one for the rest, of the weight of a coin."""
    most, certain = F.col(_MOST), F.col(_CERTAIN) > 0
    whole = [
        *[F.col(f"{_VALUE}{number}").alias(name) for number, name in enumerate(names)],
        F.lit(1.0).alias(IDENTITIES),
        F.lit(1.0).alias(WEIGHT),
    ]
    rest = [
        *[(F.col(f"{_SHED}{number}") / most).alias(name) for number, name in enumerate(names)],
        # An identity is met whenever its row of least weight is; one with a row of weight 1 always.
        F.when(certain, F.lit(0.0)).otherwise(F.col(_LEAST) / most).alias(IDENTITIES),
        coin_column(most).alias(WEIGHT),
    ]
    parts = F.array(F.when(certain, F.struct(*whole)), F.when(most.isNotNull(), F.struct(*rest)))
    rows = every.select(*keys, F.explode(F.array_compact(parts)).alias(_PART))
    return rows.select(*keys, *[F.col(_PART)[name].alias(name) for name in (*names, IDENTITIES, WEIGHT)])
