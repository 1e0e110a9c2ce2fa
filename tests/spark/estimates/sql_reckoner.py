"""Spark SQL's scalar expressions, as far as the estimators use them, reckoned in Python without Spark.

Slow and obvious, for tests: null is None, NaN and infinity are doubles, a struct is a dict.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["reckon"]

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+\.?\d*(?:e[-+]?\d+)?D?)|(?P<text>'[^']*')|(?P<quoted>`[^`]*`)"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<sign>->|<=|>=|!=|[-+*/()\[\],.=<>:]))"
)
_PRIORITY = {"OR": 1, "AND": 2, "=": 3, "!=": 3, "<": 3, ">": 3, "<=": 3, ">=": 3}
_PRIORITY |= {"+": 4, "-": 4, "*": 5, "/": 5}

Names = Mapping[str, Any]


def reckon(text: str, names: Names) -> Any:
    """The value of an expression, with these columns."""
    return _Reckoner(text).expression()(names)


def _least(xs: list[Any], pick: Callable[..., Any]) -> Any:
    known = [x for x in xs if x is not None]
    return pick(known) if known else None


def _divide(a: Any, b: Any) -> Any:
    return None if a is None or b is None or b == 0 else a / b


_CALLS: dict[str, Callable[[list[Any]], Any]] = {
    "try_divide": lambda xs: _divide(*xs),
    "coalesce": lambda xs: next((x for x in xs if x is not None), None),
    "least": lambda xs: _least(xs, min),
    "greatest": lambda xs: _least(xs, max),
    "array": list,
    "named_struct": lambda xs: dict(zip(xs[::2], xs[1::2], strict=True)),
}
_OF_ONE: dict[str, Callable[[float], Any]] = {
    "sqrt": lambda x: math.sqrt(x) if x >= 0 else math.nan,
    "cbrt": lambda x: math.copysign(abs(x) ** (1.0 / 3.0), x),
    "abs": abs,
    "floor": math.floor,
    "int": int,
    "rint": round,
}
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
    "=": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
    ">": lambda a, b: a > b, "<=": lambda a, b: a <= b, ">=": lambda a, b: a >= b,
    "AND": lambda a, b: a and b, "OR": lambda a, b: a or b,
}  # fmt: skip


class _Reckoner:
    """A parser whose results are functions of the columns."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        at = 0
        while at < len(text.rstrip()):
            found = _TOKEN.match(text, at)
            assert found is not None, f"what is {text[at : at + 40]!r}?"
            self._tokens.append(found.group().strip())
            at = found.end()
        self._tokens.append("")
        self._at = 0

    def _next(self, *expected: str) -> str:
        token = self._tokens[self._at]
        assert not expected or token in expected, (token, expected, self._tokens[self._at - 5 :][:12])
        self._at += 1
        return token

    def _is(self, token: str) -> bool:
        if self._tokens[self._at] == token:
            self._at += 1
            return True
        return False

    def expression(self, above: int = 0) -> Callable[[Names], Any]:
        left = self._one()
        while _PRIORITY.get(self._tokens[self._at], 0) > above:
            name = self._next()
            left = _both(_OPERATORS[name], left, self.expression(_PRIORITY[name]))
        return left

    def _one(self) -> Callable[[Names], Any]:
        token = self._next()
        if token == "-":
            inner = self._one()
            return lambda names: None if (x := inner(names)) is None else -x
        if token == "(":
            found = self.expression()
            self._next(")")
        elif token == "CASE":
            found = self._case()
        elif token[0].isdigit():
            value = float(token.rstrip("D"))
            found = lambda names: value  # noqa: E731
        elif token[0] == "'":
            found = lambda names: token[1:-1]  # noqa: E731
        elif self._is("("):
            found = self._call(token)
        else:
            found = lambda names: names[token.strip("`")]  # noqa: E731
        return self._inside(found)

    def _inside(self, found: Callable[[Names], Any]) -> Callable[[Names], Any]:
        while True:
            if self._is("."):
                found = _field(found, self._next().strip("`"))
            elif self._is("["):
                found = _item(found, self.expression())
                self._next("]")
            else:
                return found

    def _case(self) -> Callable[[Names], Any]:
        cases, otherwise = [], None
        while self._next("WHEN", "ELSE", "END") == "WHEN":
            condition = self.expression()
            self._next("THEN")
            cases.append((condition, self.expression()))
        if self._tokens[self._at - 1] == "ELSE":
            otherwise = self.expression()
            self._next("END")

        def choose(names: Names) -> Any:
            for condition, then in cases:
                if condition(names):
                    return then(names)
            return None if otherwise is None else otherwise(names)

        return choose

    def _call(self, name: str) -> Callable[[Names], Any]:
        if name == "cast":  # of null alone
            depth = 1
            while depth:
                token = self._next()
                depth += (token == "(") - (token == ")")
            return lambda names: None
        if name == "zip_with":
            return self._bound()
        if name == "aggregate":
            return self._added()
        parts = [self.expression()]
        while self._is(","):
            parts.append(self.expression())
        self._next(")")
        if name == "pow":
            return _both(lambda a, b: a**b if a >= 0 else math.nan, *parts)
        if name in _OF_ONE:
            return lambda names: None if (x := parts[0](names)) is None else _OF_ONE[name](x)
        return lambda names: _CALLS[name]([part(names) for part in parts])

    def _bound(self) -> Callable[[Names], Any]:
        """zip_with(values, array(0), (name, nothing) -> body)."""
        values = self.expression()
        for token in (",", "array", "(", "0", ")", ",", "("):
            self._next(token)
        name = self._next()
        for token in (",", "nothing", ")", "->"):
            self._next(token)
        body = self.expression()
        self._next(")")
        return lambda names: [body({**names, name: value}) for value in values(names)]

    def _added(self) -> Callable[[Names], Any]:
        """aggregate(values, start, (sum, name) -> body)."""
        values = self.expression()
        self._next(",")
        start = self.expression()
        for token in (",", "("):
            self._next(token)
        so_far = self._next()
        self._next(",")
        name = self._next()
        for token in (")", "->"):
            self._next(token)
        body = self.expression()
        self._next(")")

        def found(names: Names) -> Any:
            total = start(names)
            for value in values(names):
                total = body({**names, so_far: total, name: value})
            return total

        return found


def _both(
    operator: Callable[[Any, Any], Any], a: Callable[[Names], Any], b: Callable[[Names], Any]
) -> Callable[[Names], Any]:
    def found(names: Names) -> Any:
        x, y = a(names), b(names)
        return None if x is None or y is None else operator(x, y)

    return found


def _field(of: Callable[[Names], Any], name: str) -> Callable[[Names], Any]:
    return lambda names: None if (x := of(names)) is None else x[name]


def _item(of: Callable[[Names], Any], at: Callable[[Names], Any]) -> Callable[[Names], Any]:
    return lambda names: of(names)[int(at(names))]
