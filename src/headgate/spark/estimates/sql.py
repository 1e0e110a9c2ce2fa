"""From a group's moments to its estimate: SQL text, and the pieces that the estimators share.

The arithmetic is done once a group, and mentions its terms many times. As text it is one call to Spark
instead of hundreds; `let` keeps it from growing when terms are made of terms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from headgate.errors import BadArgument
from headgate.policies.by_group.counted import UNIT
from headgate.spark.estimates.intervals.student import t_sql

__all__ = [
    "FIELDS", "INTERVALS", "SAMPLE", "about", "around", "check_confidence", "check_interval",
    "effective", "estimate", "fields", "let", "literal", "no_sample", "symmetric", "whole",
]  # fmt: skip

#: The fields of every estimate.
FIELDS = ("estimate", "stderr", "low", "high", "rows", "share", "sample")
#: How an interval is made: with what the sample has not seen in mind, or as textbooks have it.
INTERVALS = ("careful", "plain")
#: What a careful interval is made of, beside the estimate: the effective number of shed rows, degrees of
#: freedom; mean, variance (n - 1 below) and third central moment of the shed rows; the factors of that
#: variance in the estimate's own, for rows whose number is luck in a sum (`coins`) and for others
#: (`fixed`); and the plain variance of the estimate.
SAMPLE = ("n", "freedom", "centre", "square", "third", "coins", "fixed", "variance")


def check_interval(interval: str) -> bool:
    """Whether the interval asked for is the careful one; refuse what is none."""
    if interval not in INTERVALS:
        raise BadArgument(
            f'interval={interval!r} is not one of {", ".join(map(repr, INTERVALS))}: "careful" minds '
            'skew and rows not seen, "plain" is Student\'s t'
        )
    return interval == "careful"


def check_confidence(confidence: float) -> float:
    """Refuse what is not strictly between 0 and 1."""
    fine = isinstance(confidence, int | float) and not isinstance(confidence, bool)
    if not fine or math.isnan(confidence) or not 0.0 < confidence < 1.0:
        raise BadArgument(
            f"confidence={confidence!r} is not between 0 and 1: 0.95 gives intervals that hold the "
            "truth in 95 of 100 draws"
        )
    return float(confidence)


def estimate(name: str, moments: Mapping[str, Column], body: str) -> Column:
    """The estimator: `body` says what to do with the moments, ``m.name``.

    A lambda binds them. It is `zip_with`'s, the one array function that Spark 4.3 does not compile:
    code for all of this, to be run once a group, outgrows what the JVM takes as a method.
    """
    bound = F.array(F.struct(*[moment.alias(key) for key, moment in moments.items()]))
    bare = F.call_function("zip_with", bound, F.array(F.lit(0)), F.expr(f"(m, nothing) -> {body}"))
    return bare[0].alias(name)


def let(name: str, values: Mapping[str, str], body: str) -> str:
    """`body`, in which ``name.key`` is a value that is computed once."""
    fields = ", ".join(f"'{key}', {value}" for key, value in values.items())
    return f"zip_with(array(named_struct({fields})), array(0), ({name}, nothing) -> {body})[0]"


def literal(value: float) -> str:
    """A literal double: without its D, SQL takes 0.5 for a decimal."""
    return f"{float(value)!r}D"


def effective(v: str, vv: str) -> str:
    """The number of rows, as far as a variance goes: (sum v)^2 / sum v^2; null without shed rows.

    It is the number of shed rows where their weights are alike. Five rows that stand for a hundred each
    and a thousand that stand for 1.01 are worth five; Satterthwaite's degrees of freedom are one less.
    """
    return f"try_divide({v} * {v}, {vv})"


def whole(weight: str, rows: str) -> str:
    """Whether counted weights can be those of whole strata: they then add up to a whole number.

    If not, the result's groups cut strata in two (a filter behind the gate, a finer grouping, a window's
    edge inside a batch), and the number of rows is not known but estimated. The converse fails: parts
    of a stratum whose N / n is a whole number pass.
    """
    return f"(abs({weight} - rint({weight})) <= {rows} * {literal(UNIT)})"


def about(rows: str, v: str, middle: str, vy: str, vyy: str, offset: str) -> str:
    """Σ v (y - middle - offset)², from the plain mean and the covariances of v, y and of v y, y."""
    squares = f"{rows} * ({vyy} - {middle} * {vy})"
    return f"greatest(0D, {squares} - 2 * ({offset}) * {rows} * {vy} + ({offset}) * ({offset}) * {v})"


def no_sample() -> str:
    """The sample of an interval that cannot be pooled: null, of the same type."""
    return f"cast(null as struct<{', '.join(f'{name}: double' for name in SAMPLE)}>)"


def fields(estimate: str, stderr: str, low: str, high: str, sample: str = "") -> str:
    """The struct that every estimator returns; estimate and error are null without rows."""
    values = (estimate, stderr, low, high, "m.rows", "try_divide(m.rows, m.w)", sample or no_sample())
    return "named_struct(" + ", ".join(f"'{f}', {v}" for f, v in zip(FIELDS, values, strict=True)) + ")"


def symmetric(value: str, variance: str, effective: str, confidence: float) -> str:
    """A t interval; of no width where nothing was shed (``m.thinned``), else none below two values."""
    some = f"CASE WHEN m.thinned = 0 THEN 0D WHEN m.shed > 1 THEN sqrt({variance}) END"
    stderr = f"CASE WHEN m.rows > 0 THEN {some} END"
    freedom = f"coalesce({effective} - 1, 1D)"
    values = {"value": value, "stderr": stderr, "t": let("f", {"n": freedom}, t_sql("f.n", confidence))}
    low, high = "e.value - e.t * e.stderr", "e.value + e.t * e.stderr"
    return let("e", values, fields("e.value", "e.stderr", low, high))


def around(
    value: str, variance: str, z: str, pull: str, known_when: str, error: str = "", bend: str = "0D",
    least: str = "", most: str = "",
) -> str:  # fmt: skip
    """The interval of all value + D with D² <= z² (variance + pull D - bend D²); null unless `told`.

    The variance at value + D, that is, instead of at the estimate. `error` is the variance that the
    standard error shows, if it is another; `least` and `most` are what the ends cannot pass.
    """
    values = {"value": value, "v": variance, "error": error or variance, "z": z, "pull": pull}
    shift = "0.5D * e.z * e.z * e.pull"
    root = "e.z * sqrt(q.scale * e.v + 0.25D * e.z * e.z * e.pull * e.pull)"
    low, high = (f"e.value + ({shift} {sign} {root}) / q.scale" for sign in "-+")
    low = f"greatest({low}, {least})" if least else low
    high = f"least({high}, {most})" if most else high
    shown = [f"CASE WHEN {known_when} THEN {x} END" for x in ("sqrt(e.error)", low, high)]
    bound = let("q", {"scale": f"1 + e.z * e.z * ({bend})"}, fields("e.value", *shown))
    return let("e", values, bound)
