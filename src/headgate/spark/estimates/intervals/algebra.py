"""Formulas once, for two runtimes: Spark reckons with SQL text, the laboratory with arrays.

A formula is a function of an `Algebra` and of its terms. `SqlAlgebra` writes the expression down;
`headgate_lab.bench.coverage.arrays` computes it on numpy arrays, so that coverage is measured of the
arithmetic that ships and not of a twin of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, Protocol

from headgate.spark.estimates.intervals.student import t_sql
from headgate.spark.estimates.sql import let, literal

__all__ = ["Algebra", "Sql", "SqlAlgebra", "terms"]

#: A number for each group: text, or an array.
Term = Any


class Algebra(Protocol):
    """What formulas are made of, besides + - * and unary minus on terms."""

    def divide(self, above: Term, below: Term) -> Term:
        """Null (no number) where `below` is 0."""
        ...

    def root(self, x: Term) -> Term:
        """The square root."""
        ...

    def cube_root(self, x: Term) -> Term:
        """The cube root."""
        ...

    def least(self, *xs: Term) -> Term:
        """Of those that are known."""
        ...

    def greatest(self, *xs: Term) -> Term:
        """Of those that are known."""
        ...

    def positive(self, x: Term) -> Term:
        """Whether x is above 0; not, where it is not known."""
        ...

    def choose(self, condition: Term, then: Term, otherwise: Term) -> Term:
        """One or the other, by a condition."""
        ...

    def known(self, x: Term, otherwise: Term) -> Term:
        """x, or the other where it is not known."""
        ...

    def t(self, freedom: Term) -> Term:
        """Student's two-sided quantile at the interval's confidence."""
        ...

    def let(self, name: str, values: Mapping[str, Term], body: Callable[[Any], Term]) -> Term:
        """`body` of the values by name, each computed once; nested lets have different names."""
        ...

    def answer(self, values: Mapping[str, Term]) -> Term:
        """Several terms as one."""
        ...


class Sql:
    """A piece of SQL text that can be reckoned with."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    def __add__(self, other: Term) -> Sql:
        return Sql(f"({self} + {_text(other)})")

    def __sub__(self, other: Term) -> Sql:
        return Sql(f"({self} - {_text(other)})")

    def __mul__(self, other: Term) -> Sql:
        return Sql(f"({self} * {_text(other)})")

    def __radd__(self, other: Term) -> Sql:
        return Sql(f"({_text(other)} + {self})")

    def __rsub__(self, other: Term) -> Sql:
        return Sql(f"({_text(other)} - {self})")

    def __rmul__(self, other: Term) -> Sql:
        return Sql(f"({_text(other)} * {self})")

    def __neg__(self) -> Sql:
        return Sql(f"(-{self})")


def _text(term: Term) -> str:
    return literal(term) if isinstance(term, int | float) else str(term)


def terms(name: str, fields: tuple[str, ...]) -> Any:
    """The fields of a struct as terms: ``terms("m", ("rows",)).rows`` is m.rows."""
    return SimpleNamespace(**{field: Sql(f"{name}.{field}") for field in fields})


class SqlAlgebra:
    """Formulas as SQL text at a confidence."""

    def __init__(self, confidence: float) -> None:
        self._confidence = confidence

    def divide(self, above: Term, below: Term) -> Sql:
        """Null where `below` is 0."""
        return Sql(f"try_divide({_text(above)}, {_text(below)})")

    def root(self, x: Term) -> Sql:
        """The square root."""
        return Sql(f"sqrt({_text(x)})")

    def cube_root(self, x: Term) -> Sql:
        """The cube root."""
        return Sql(f"cbrt({_text(x)})")

    def least(self, *xs: Term) -> Sql:
        """Of those that are known."""
        return Sql(f"least({', '.join(map(_text, xs))})")

    def greatest(self, *xs: Term) -> Sql:
        """Of those that are known."""
        return Sql(f"greatest({', '.join(map(_text, xs))})")

    def positive(self, x: Term) -> Sql:
        """Whether x is above 0; not, where it is not known."""
        return Sql(f"({_text(x)} > 0D)")

    def choose(self, condition: Term, then: Term, otherwise: Term) -> Sql:
        """One or the other, by a condition."""
        return Sql(f"CASE WHEN {condition} THEN {_text(then)} ELSE {_text(otherwise)} END")

    def known(self, x: Term, otherwise: Term) -> Sql:
        """x, or the other where it is not known."""
        return Sql(f"coalesce({_text(x)}, {_text(otherwise)})")

    def t(self, freedom: Term) -> Sql:
        """Student's two-sided quantile."""
        return Sql(let("f", {"n": _text(freedom)}, t_sql("f.n", self._confidence)))

    def let(self, name: str, values: Mapping[str, Term], body: Callable[[Any], Term]) -> Sql:
        """`body` of the values by name."""
        written = {key: _text(value) for key, value in values.items()}
        return Sql(let(name, written, str(body(terms(name, tuple(values))))))

    def answer(self, values: Mapping[str, Term]) -> Sql:
        """Several terms as one."""
        inside = ", ".join(f"'{key}', {_text(value)}" for key, value in values.items())
        return Sql(f"named_struct({inside})")
