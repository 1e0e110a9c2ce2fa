"""Checks of single values: each returns what Headgate works with, or says what is legal.

They are called with the value and the key's name, and raise `BadArgument`, whose message names both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headgate.control.duration import check_first_rows, check_inside
from headgate.control.fixed import check_rate
from headgate.durations import seconds
from headgate.errors import BadArgument
from headgate.settings import retention_s
from headgate.store.folder import check_gate_name

__all__ = [
    "Check",
    "Key",
    "duration",
    "first_rows",
    "flag",
    "gate_name",
    "inside",
    "number",
    "one_of",
    "options",
    "retention",
    "share",
    "text",
    "texts",
    "whole",
]

Check = Callable[[Any, str], Any]


@dataclass(frozen=True)
class Key:
    """What a key of a table takes, and whether it must be there."""

    check: Check
    required: bool = False


def text(value: Any, name: str) -> str:
    """The value, if it is text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise BadArgument(f'{name}={value!r} is not a text in quotes: write {name} = "..."')
    return value


def texts(value: Any, name: str) -> str | tuple[str, ...]:
    """A text, or a list of them."""
    if isinstance(value, list) and value and all(isinstance(v, str) and v.strip() for v in value):
        return tuple(value)
    if isinstance(value, list):
        raise BadArgument(f'{name}={value!r}: give a text, or a list of texts: {name} = ["a", "b"]')
    return text(value, name)


def flag(value: Any, name: str) -> bool:
    """The value, if it is true or false."""
    if not isinstance(value, bool):
        raise BadArgument(f"{name}={value!r}: write true or false, without quotes")
    return value


def whole(least: int) -> Check:
    """A whole number, so large at least."""

    def check(value: Any, name: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise BadArgument(f"{name}={value!r}: give a whole number, {least} or more")
        return value

    return check


def number(value: Any, name: str) -> float:
    """The value, if it is a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadArgument(f"{name}={value!r} is not a number: write it without quotes")
    return value


def one_of(*legal: str) -> Check:
    """One of these words."""

    def check(value: Any, name: str) -> str:
        if value not in legal or not isinstance(value, str):
            raise BadArgument(f"{name}={value!r} is not one of {', '.join(map(repr, legal))}")
        return value

    return check


def duration(value: Any, name: str) -> Any:
    """A positive duration, as it was written."""
    seconds(value, name)
    return value


def options(value: Any, name: str) -> dict[str, str]:
    """Options of Spark's or of a connector's: numbers and truth values as Spark writes them."""
    if not isinstance(value, dict):
        raise BadArgument(f"{name}={value!r} is not a table: write [{name}] and a line for each option")
    found = {}
    for key, given in value.items():
        if isinstance(given, bool):
            found[key] = str(given).lower()
        elif isinstance(given, str | int | float):
            found[key] = str(given)
        else:
            raise BadArgument(
                f"{name} {key!r} is a {type(given).__name__}: an option is a text, a number, true or "
                "false"
            )
    return found


def share(value: Any, name: str) -> float:
    """A share of rows to keep."""
    return check_rate(value, name)


def inside(value: Any, name: str) -> float:
    """The share of batches inside the target."""
    return check_inside(value)


def first_rows(value: Any, name: str) -> float:
    """The bound of a first batch; TOML writes infinity as ``inf``."""
    try:
        return check_first_rows(value)
    except BadArgument as error:
        raise BadArgument(str(error).replace("math.inf", "inf, without quotes,")) from None


def retention(value: Any, name: str) -> Any:
    """How long records are kept, as it was written."""
    retention_s(value)
    return value


def gate_name(value: Any, name: str) -> str:
    """A name that can be a folder and a label."""
    return check_gate_name(value)
