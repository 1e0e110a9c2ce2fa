"""`sum` and `count` of what arrived: totals, whose error has the luck of the number of rows in it."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from headgate.spark.estimates.intervals.answers import careful_or_exact
from headgate.spark.estimates.intervals.student import normal_quantile, t_sql
from headgate.spark.estimates.moments import (
    Weighted,
    column_of,
    covariance,
    number,
    number_of,
    shape,
    text_of,
    total,
)
from headgate.spark.estimates.sql import (
    about,
    around,
    check_confidence,
    check_interval,
    effective,
    estimate,
    let,
    literal,
    whole,
)
from headgate.spark.gate.shape import WEIGHT

__all__ = ["count", "sum"]


def sum(
    column: str | Column,
    *,
    confidence: float = 0.95,
    weight: str | Column = WEIGHT,
    interval: str = "careful",
) -> Column:
    """The sum over all that arrived: Σ w y.

    A coin's luck is in the number of rows too: where few were kept by chance, the variance is
    understated as well. The careful interval knows it as skew about 0. The plain one solves
    D² = t² (V + u ȳ D), with u = Σ v / Σ w: the score interval of `count`, carried over to sums. In
    counted strata a null counts as a zero, as the number of rows that are not null is luck there.
    """
    check_confidence(confidence)
    careful = check_interval(interval)
    y, row = number_of(column), Weighted.of(weight)
    there = y.isNotNull()
    coin = there & row.coin
    zeros = F.when(row.counted, F.coalesce(y, F.lit(0.0)))
    moments = {
        "rows": F.count(y),
        "thinned": number(row.shed),
        "w": total(row.w, there),
        "wy": total(row.w * y),
        "coins": number(coin),
        "kw": total(row.w, coin),
        "kwy": total(row.w * y, coin),
        "kv": total(row.v, coin),
        "kvv": total(row.v * row.v, coin),
        "kvyy": total(row.v * y * y, coin),
        "counted": number(row.counted),
        "cw": total(row.w, row.counted),
        "cv": total(row.v, row.counted),
        "cvv": total(row.v * row.v, row.counted),
        "middle": F.coalesce(F.avg(zeros), F.lit(0.0)),
        "vy": covariance(row.v, zeros),
        "vyy": covariance(row.v * zeros, zeros),
    }

    def squares(offset: str) -> str:
        return about("m.counted", "m.cv", "m.middle", "m.vy", "m.vyy", offset)

    sizes = {"coins": effective("m.kv", "m.kvv"), "counted": effective("m.cv", "m.cvv")}
    known = f"m.counted > 1 AND {whole('m.cw', 'm.counted')}"
    centred = f"{squares('m.counted * m.vy / m.cv')} * try_divide(n.counted, n.counted - 1)"
    counted = (
        f"CASE WHEN m.counted = 0 THEN 0D WHEN {known} THEN {centred} ELSE {squares('-m.middle')} END"
    )
    variance = "(m.kvyy + v.counted)"
    # Satterthwaite: each part of the variance with its own degrees of freedom.
    free_coins, free_counted = (
        f"coalesce(greatest(n.{kind} - 1, 1D), 1D)" for kind in ("coins", "counted")
    )
    spread = f"(m.kvyy * m.kvyy / {free_coins} + v.counted * v.counted / {free_counted})"
    freedom = f"try_divide({variance} * {variance}, {spread})"
    name, strata = f"sum({text_of(column)})", {"counted": counted}
    if careful:
        x = F.when(row.counted, F.coalesce(y, F.lit(0.0))).when(coin, y)
        moments |= {
            "x": F.count(x),
            "xmiddle": F.coalesce(F.avg(x), F.lit(0.0)),
            "xv": covariance(row.v, x),
            "xvx": covariance(row.v * x, x),
            **shape(x, row.shed),
        }
        body = _careful(variance, freedom, known, confidence)
        return estimate(name, moments, let("n", sizes, let("v", strata, body)))
    t = let("f", {"n": f"coalesce({freedom}, 1D)"}, t_sql("f.n", confidence))
    body = around(
        "CASE WHEN m.rows > 0 THEN m.wy END",
        variance=variance,
        z=t,
        pull="coalesce(try_divide(m.kv * m.kwy, m.kw * m.kw), 0D)",
        known_when="m.rows > 0 AND (m.thinned = 0 OR m.coins + m.counted > 1)",
    )
    return estimate(name, moments, let("n", sizes, let("v", strata, body)))


def _careful(variance: str, freedom: str, known: str, confidence: float) -> str:
    """The careful interval of a sum: all shed rows have one spread, whatever their draw."""
    both = {"v": "(m.kv + m.cv)", "n": effective("(m.kv + m.cv)", "(m.kvv + m.cvv)")}
    squares = about("m.x", "b.v", "m.xmiddle", "m.xv", "m.xvx", "o.offset")
    sample = {
        "value": "CASE WHEN m.rows > 0 THEN m.wy END",
        "n": "b.n",
        "centre": "m.xmiddle + o.offset",
        "square": f"try_divide(({squares}) * try_divide(b.n, b.n - 1), b.v)",
        "fixed": f"CASE WHEN {known} THEN m.cv ELSE 0D END",
        "coins": f"CASE WHEN {known} THEN m.kv ELSE b.v END",
        "variance": variance,
        # of rows that are all equal, Satterthwaite's is 0 / 0
        "freedom": f"coalesce({freedom}, b.n - 1, 1D)",
    }
    other = {name: f"r.{name}" for name in ("coins", "freedom")}
    answer = careful_or_exact("(m.coins + m.counted)", confidence, **other)
    offset = {"offset": "coalesce(try_divide(m.x * m.xv, b.v), 0D)"}
    return let("b", both, let("o", offset, let("r", sample, answer)))


def count(
    column: str | Column | None = None, *, confidence: float = 0.95, weight: str | Column = WEIGHT
) -> Column:
    """How many rows arrived, or how many in which `column` is not null: Σ w.

    All rows: exact where nothing was shed or all shed rows are of counted draws, a whole number with
    standard error 0. Coins get the score interval, all N with (N - N̂)² <= z² u N and u = Σ v / Σ w,
    but none below the rows seen. It needs no spread, so one shed row will do.

    Of a column, counted rows are a domain of their strata: of N rows an estimated share is not null,
    which has Wilson's interval, (N_x - N̂_x)² <= z² u N_x (1 - N_x / N). ``count(F.when(condition,
    1))`` counts the rows that meet a condition so, with the right error; a filter behind the gate
    would leave no trace of the others.
    """
    check_confidence(confidence)
    row = Weighted.of(weight)
    every = column is None or (isinstance(column, str) and column == "*")
    there = F.lit(True) if every or column is None else column_of(column, "column").isNotNull()
    moments = {
        "every": F.count(F.lit(1)),
        "everyw": total(row.w),
        "rows": number(there),
        "w": total(row.w, there),
        "coins": number(row.coin),
        "kw": total(row.w, row.coin),
        "kv": total(row.v, row.coin),
        "kwx": total(row.w, row.coin & there),
        "kvx": total(row.v, row.coin & there),
        "counted": number(row.counted),
        "cw": total(row.w, row.counted),
        "cv": total(row.v, row.counted),
        "cvv": total(row.v * row.v, row.counted),
        "cwx": total(row.w, row.counted & there),
        "cvx": total(row.v, row.counted & there),
    }

    def coins(of_coins: str, of_counted: str) -> str:
        """A moment of the coins; counted rows of strata that were cut are coins."""
        return f"m.{of_coins} + CASE WHEN w.known THEN 0D ELSE m.{of_counted} END"

    n = effective("m.cv", "m.cvv")
    kinds = {
        # u: a row's share in the variance. Of the coins, and of the counted.
        "coin": f"coalesce(try_divide({coins('kvx', 'cvx')}, {coins('kwx', 'cwx')}), "
        f"try_divide({coins('kv', 'cv')}, {coins('kw', 'cw')}), 0D)",
        "counted": "coalesce(try_divide(m.cvx, m.cwx), try_divide(m.cv, m.cw), 0D)",
        # The share of the counted rows that the column does not have: of all rows none, and we know it.
        "others": "0D" if every else "coalesce(1 - try_divide(m.cwx, m.cw), 0D)",
        "coins": coins("kvx", "cvx"),
        "most": coins("kv", "cv"),
        "open": "0D" if every else "CASE WHEN w.known THEN m.cv ELSE 0D END",
        "small": f"coalesce(try_divide({n}, {n} - 1), 1D)",
    }
    counted = {"v": "CASE WHEN w.known THEN m.cvx * k.others ELSE 0D END"}
    # How much of D is the counted rows': their share in the variance.
    split = {"d": "coalesce(try_divide(c.v, k.coins + c.v), try_divide(k.open, k.most + k.open), 0D)"}
    body = around(
        "CASE WHEN w.exact AND c.v = 0 THEN rint(m.w) ELSE m.w END",
        variance="k.coins + c.v",
        error="k.coins + c.v * k.small",
        z=literal(normal_quantile(confidence)),
        pull="(1 - s.d) * k.coin + s.d * k.counted * (2 * k.others - 1)",
        bend="coalesce(try_divide(k.counted * s.d * s.d, m.cw), 0D)",
        known_when="m.every > 0",
        least="double(m.rows)",
        most="CASE WHEN w.exact THEN rint(m.everyw) END",
    )
    known = whole("m.cw", "m.counted")
    strata = {"known": known, "exact": f"({known} AND m.coins = 0)"}
    body = let("w", strata, let("k", kinds, let("c", counted, let("s", split, body))))
    name = "count" if every or column is None else f"count({text_of(column)})"
    return estimate(name, moments, body)
