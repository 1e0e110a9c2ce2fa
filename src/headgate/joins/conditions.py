"""When two rows match: the join conditions (join-2007, sections 1 and 3.2), as values.

A condition says which column it reads and what must hold between a left and a right row. It knows no
engine: the windows of this package, the block kernels and the Spark operator all read these values.

Sets are compared as sets: duplicates in a row's array count once, and nulls among the items not at all.
A row whose own column is null matches nothing, as in SQL; an empty set is the subset of every set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headgate.errors import BadArgument

__all__ = [
    "Condition",
    "Equal",
    "InnerProduct",
    "Overlap",
    "Predicate",
    "Subset",
    "Superset",
    "equal",
    "inner_product",
    "overlap",
    "predicate",
    "subset",
    "superset",
]


@dataclass(frozen=True)
class Condition:
    """What all conditions have: the column of the left rows and that of the right ones."""

    left: str
    right: str

    def __post_init__(self) -> None:
        for side, name in (("left", self.left), ("right", self.right)):
            if not isinstance(name, str) or not name:
                raise BadArgument(
                    f"a join condition needs the name of a column, not {name!r}, for its {side} side: "
                    'hg.overlap("keywords", at_least=3), or hg.overlap("words", "tags", at_least=3)'
                )


@dataclass(frozen=True)
class Equal(Condition):
    """Both columns hold the same value; the classical equi-join."""


@dataclass(frozen=True)
class Subset(Condition):
    """Every item of the left set is in the right one."""


@dataclass(frozen=True)
class Superset(Condition):
    """Every item of the right set is in the left one."""


@dataclass(frozen=True)
class Overlap(Condition):
    """The sets have at least ``at_least`` items in common."""

    at_least: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.at_least, bool) or not isinstance(self.at_least, int) or self.at_least < 1:
            raise BadArgument(
                f"at_least={self.at_least!r} is not a number of common items: give 1 or more; "
                "0 would match every pair of rows"
            )


@dataclass(frozen=True)
class InnerProduct(Condition):
    """The inner product of two weighted sets, or of two dense vectors, reaches ``at_least``."""

    at_least: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        number = isinstance(self.at_least, int | float) and not isinstance(self.at_least, bool)
        if not number or not self.at_least > 0 or self.at_least == float("inf"):
            raise BadArgument(
                f"at_least={self.at_least!r} is not an inner product to reach: give a number above 0; "
                "0 or less would match pairs that share nothing"
            )


@dataclass(frozen=True)
class Predicate(Condition):
    """A user's own condition; opaque, so that only its pay-off can be learnt.

    ``function(left, right)`` gets two pandas frames of equal length, one candidate pair a row, with
    ``left_columns`` and ``right_columns``; it returns one truth value a row.
    """

    function: Callable[[Any, Any], Any] = None  # type: ignore[assignment]
    left_columns: tuple[str, ...] = ()
    right_columns: tuple[str, ...] = ()


def equal(left: str, right: str | None = None) -> Equal:
    """Rows whose columns hold the same value.

    >>> equal("order", "payment_for").right
    'payment_for'
    """
    return Equal(left, left if right is None else right)


def subset(left: str, right: str | None = None) -> Subset:
    """Left rows whose set is contained in the right row's.

    >>> subset("tags").right
    'tags'
    """
    return Subset(left, left if right is None else right)


def superset(left: str, right: str | None = None) -> Superset:
    """Left rows whose set contains the right row's.

    >>> superset("offers", "wanted").left
    'offers'
    """
    return Superset(left, left if right is None else right)


def overlap(left: str, right: str | None = None, *, at_least: int) -> Overlap:
    """Rows whose sets share at least so many items.

    >>> overlap("keywords", at_least=3).at_least
    3
    """
    return Overlap(left, left if right is None else right, at_least)


def inner_product(left: str, right: str | None = None, *, at_least: float) -> InnerProduct:
    """Rows whose weighted sets (maps) or vectors (arrays) have an inner product of so much.

    >>> inner_product("tf_idf", at_least=0.5).at_least
    0.5
    """
    return InnerProduct(left, left if right is None else right, at_least)


def predicate(
    function: Callable[[Any, Any], Any],
    left: str | list[str] | tuple[str, ...],
    right: str | list[str] | tuple[str, ...] | None = None,
) -> Predicate:
    """A condition of your own over the named columns, given two pandas frames of candidate pairs.

    >>> near = predicate(lambda a, b: (a["price"] - b["price"]).abs() < 1, "price")
    """
    if not callable(function):
        raise BadArgument(
            f"hg.predicate needs a function of two pandas frames, not {function!r}: "
            'hg.predicate(lambda a, b: (a["x"] - b["x"]).abs() < 1, "x")'
        )
    ours = (left,) if isinstance(left, str) else tuple(left)
    theirs = ours if right is None else ((right,) if isinstance(right, str) else tuple(right))
    if not ours or not theirs:
        raise BadArgument(
            'hg.predicate needs at least one column of each side: hg.predicate(near, "price")'
        )
    return Predicate(ours[0], theirs[0], function, ours, theirs)
