"""What a site's calls may be given, and what they say of anything else."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.errors import BadArgument

__all__ = ["check_token", "number", "strings", "whole"]


def number(name: str, value: object, legal: str) -> float:
    """The number, or an error that says what is legal."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadArgument(f"{name}={value!r}: give a number {legal}")
    return float(value)


def whole(name: str, value: object) -> None:
    """Refuse what is no whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadArgument(f"{name}={value!r}: give a whole number")


def check_token(coordinator: str | None, token: str | None) -> None:
    """Refuse a token where there is no coordinator to give it to."""
    if token is not None and coordinator is None:
        raise BadArgument("token= is for a coordinator: give coordinator= too, or leave the token out")
    if token is not None and (not isinstance(token, str) or not token.strip()):
        raise BadArgument("token= is empty: give what `headgate coordinator token NAME` prints")


def strings(name: str, value: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """One string or several, as a tuple."""
    if value is None:
        return None
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Sequence) or not all(isinstance(part, str) for part in value):
        raise BadArgument(f"{name}={value!r}: give a string, or a list of strings")
    return tuple(value)
