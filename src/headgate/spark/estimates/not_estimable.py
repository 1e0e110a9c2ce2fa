"""Aggregates that a sample does not tell: asked for by name, they say why, and what to do instead."""

from __future__ import annotations

from typing import NoReturn

from headgate.errors import BadArgument

__all__ = [
    "approx_count_distinct", "collect_list", "collect_set", "count_distinct", "first", "last", "max",
    "max_by", "min", "min_by", "mode", "stddev", "variance",
]  # fmt: skip


def _refuse(name: str, why: str, instead: str) -> NoReturn:
    raise BadArgument(f"hg.{name} does not exist: {why}. {instead}")


def _extreme(name: str, which: str) -> NoReturn:
    _refuse(
        name,
        f"the {which} row may be among the shed ones, and no weight tells",
        f"F.{name} gives the {which} of the KEPT rows; keep= the rows that matter "
        "(keep='fare > 100'), or ask for hg.quantile(column, 0.99)",
    )


def _distinct(name: str) -> NoReturn:
    _refuse(
        name,
        "values that only shed rows had are not in the sample, and how many those are depends on how "
        "often values repeat",
        f"F.{name} counts the values among the KEPT rows, which is too few; give the gate "
        "identity=[the column], so that a value is kept or shed with all its rows: the number of kept "
        "values over the keep rate then estimates it",
    )


def _list(name: str) -> NoReturn:
    _refuse(
        name,
        "the shed rows are not there to be listed",
        f"F.{name} lists the KEPT rows; hg.backfill reads the shed ones again",
    )


def _order(name: str) -> NoReturn:
    _refuse(
        name,
        f"the {name} row may be among the shed ones",
        f"F.{name} gives the {name} KEPT row; keep= the rows that matter",
    )


def _spread(name: str) -> NoReturn:
    _refuse(
        name,
        "Headgate has no error bar for a spread",
        f"behind a uniform gate F.{name} is consistent; elsewhere take hg.mean of x and of x * x, or "
        "hg.quantile at 0.25 and 0.75",
    )


def min(*_: object, **__: object) -> NoReturn:
    """Refused: the least row may have been shed."""
    _extreme("min", "least")


def max(*_: object, **__: object) -> NoReturn:
    """Refused: the greatest row may have been shed."""
    _extreme("max", "greatest")


def min_by(*_: object, **__: object) -> NoReturn:
    """Refused: the least row may have been shed."""
    _extreme("min_by", "least")


def max_by(*_: object, **__: object) -> NoReturn:
    """Refused: the greatest row may have been shed."""
    _extreme("max_by", "greatest")


def count_distinct(*_: object, **__: object) -> NoReturn:
    """Refused: values may have been shed with all their rows."""
    _distinct("count_distinct")


def approx_count_distinct(*_: object, **__: object) -> NoReturn:
    """Refused: values may have been shed with all their rows."""
    _distinct("approx_count_distinct")


def collect_list(*_: object, **__: object) -> NoReturn:
    """Refused: shed rows cannot be listed."""
    _list("collect_list")


def collect_set(*_: object, **__: object) -> NoReturn:
    """Refused: shed rows cannot be listed."""
    _list("collect_set")


def first(*_: object, **__: object) -> NoReturn:
    """Refused: the first row may have been shed."""
    _order("first")


def last(*_: object, **__: object) -> NoReturn:
    """Refused: the last row may have been shed."""
    _order("last")


def mode(*_: object, **__: object) -> NoReturn:
    """Refused: a sample's mode is often another value, and no error bar says so."""
    _refuse(
        "mode",
        "the most frequent value of a sample need not be that of the whole, and no error bar tells",
        "group by the value and compare hg.count()",
    )


def stddev(*_: object, **__: object) -> NoReturn:
    """Refused: no error bar for a spread."""
    _spread("stddev")


def variance(*_: object, **__: object) -> NoReturn:
    """Refused: no error bar for a spread."""
    _spread("variance")
