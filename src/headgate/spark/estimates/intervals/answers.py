"""An estimator's answer: exact, not known, a share's, or careful, from a group's moments as SQL.

Moments are ``m``; what the estimator made of them is ``r``: ``value``, ``n``, ``centre``, ``square``,
``fixed``, ``variance``, and ``coins`` and ``freedom`` where they are other than of a mean.
"""

from __future__ import annotations

from headgate.spark.estimates.intervals.algebra import Sql, SqlAlgebra, terms
from headgate.spark.estimates.intervals.careful import alone, share_ends
from headgate.spark.estimates.intervals.student import normal_quantile
from headgate.spark.estimates.sql import SAMPLE, fields, let, literal

__all__ = ["careful_or_exact", "share_or"]


def careful_or_exact(shed: str, confidence: float, **other: str) -> str:
    """The careful interval of ``r``; exact where nothing was shed, else none of fewer than two values.

    `shed` counts the values that stand for shed rows, ``m.thinned`` all rows that do: where none of
    them has a value, what was shed is not known. `other` are parts of the sample that differ from those
    of a mean. The ends of the values say whether all are equal: a variance of sums may be off 0.
    """
    equal = "m.least = m.most"
    parts = {
        "n": "r.n",
        "freedom": "coalesce(r.n - 1, 1D)",
        "centre": "r.centre",
        "square": f"CASE WHEN {equal} THEN 0D ELSE r.square END",
        "third": f"CASE WHEN {equal} THEN 0D ELSE m.skew * pow(r.square * (1 - 1 / r.n), 1.5D) END",
        "coins": "0D",
        "fixed": "r.fixed",
        "variance": "r.variance",
        **other,
    }
    told = "named_struct(" + ", ".join(f"'{name}', s.{name}" for name in SAMPLE) + ")"

    def finish(error: Sql, low: Sql, high: Sql) -> Sql:
        return Sql(fields("r.value", str(error), str(low), str(high), told))

    inside = alone(SqlAlgebra(confidence), Sql("r.value"), terms("s", SAMPLE), finish)
    exact = "CASE WHEN m.rows > 0 AND m.thinned = 0 THEN r.value END"
    error = "CASE WHEN m.rows > 0 AND m.thinned = 0 THEN 0D END"
    one = f"CASE WHEN {shed} = 1 THEN {told} END"
    few = fields("r.value", error, exact, exact, one)
    return let("s", parts, f"CASE WHEN m.rows > 0 AND {shed} > 1 THEN {inside} ELSE {few} END")


def share_or(answer: str, confidence: float) -> str:
    """Wilson's interval where the column is true or false (``m.kind``), else the answer.

    The shed rows have the interval; rows that were never shed add nothing to it. Where the rows are all
    alike, the standard error is what the interval would have it be.
    """
    ops, z = SqlAlgebra(confidence), literal(normal_quantile(confidence))
    low, high = share_ends(ops, Sql("h.share"), Sql("h.reach"), Sql("h.z"))
    shed = "(m.w - (m.rows - m.shed))"
    parts = {
        "share": "greatest(0D, least(1D, r.centre))",
        "reach": f"try_divide(m.v, {shed} * {shed})",
        "part": f"try_divide({shed}, m.w)",
        "z": z,
    }
    ends = {"low": str(low), "high": str(high)}
    plain = "CASE WHEN m.least < m.most THEN sqrt(r.variance) END"
    error = f"coalesce({plain}, (i.high - i.low) * h.part / (2 * h.z))"
    moved = [f"r.value + h.part * (i.{end} - h.share)" for end in ("low", "high")]
    inside = let("h", parts, let("i", ends, fields("r.value", error, *moved)))
    return f"CASE WHEN m.kind = 'boolean' AND m.shed > 0 THEN {inside} ELSE {answer} END"
