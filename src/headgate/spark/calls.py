"""Mistakes at a call of Headgate's functions, told in the words of their reader.

Python's own ``TypeError`` says how many arguments were counted; whoever reads Headgate's error learns
which one is wrong, and how the call is written.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar

from pyspark.sql import DataFrame

from headgate.errors import BadArgument

__all__ = ["ForTransform", "explained"]

P = ParamSpec("P")
R = TypeVar("R")

#: Parameters that take a DataFrame; a DataFrame given for another one is a mistake.
_FRAMES = ("frame", "left", "right")


def explained(usage: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Have a call that cannot be bound, or that mixes up frames and names, say how it is written.

    >>> @explained('hg.example("rides", hold="2 seconds")')
    ... def example(name: str, *, hold: str | None = None) -> str:
    ...     return name
    >>> example("rides", hodl="2 seconds")
    Traceback (most recent call last):
    ...
    headgate.errors.BadArgument: hodl= is not known here: did you mean hold=? Write hg.example("rides", \
hold="2 seconds")
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @wraps(function)
        def call(*args: P.args, **given: P.kwargs) -> R:
            wrong = next(_mistakes(signature, args, given), None)
            if wrong is not None:
                raise BadArgument(f"{wrong}. Write {usage}".replace("?.", "?"))
            return function(*args, **given)

        return call

    return decorate


class ForTransform(Generic[R]):
    """What ``DataFrame.transform`` takes; whoever uses it as a DataFrame is told so."""

    def __init__(self, function: Callable[[DataFrame], R], what: str) -> None:
        self._function, self._what = function, what

    def __call__(self, frame: DataFrame) -> R:
        """As ``DataFrame.transform`` calls it."""
        if not _is_frame(frame):
            raise BadArgument(f"{self._what} is for a DataFrame; got {_shown(frame)}")
        return self._function(frame)

    def __repr__(self) -> str:
        return f"<{self._what}, for DataFrame.transform>"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_") or not hasattr(DataFrame, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise AttributeError(
            f".{name} of {self._what}: that is no DataFrame yet. Hand it to one: "
            f"frame.transform(...).{name}"
        )


def _mistakes(
    signature: inspect.Signature, args: tuple[Any, ...], given: Mapping[str, Any]
) -> Iterator[str]:
    """What is wrong with these arguments, the likeliest cause of it all first."""
    plain = [p for p in signature.parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    named = {p.name: value for p, value in zip(plain, args, strict=False)} | dict(given)
    frames = [name for name in _FRAMES if name in signature.parameters]
    for name, value in named.items():
        if _is_frame(value) and name not in frames and name in signature.parameters:
            yield f"{name} was given a DataFrame, and takes none"
    for name in frames:
        if name in named and not _is_frame(named[name]):
            yield f"{name}= is {_no_frame(named[name])}"
    for name in given:
        if name not in signature.parameters and not _takes_any(signature):
            likely = difflib.get_close_matches(name, signature.parameters, 1)
            yield f"{name}= is not known here" + (f": did you mean {likely[0]}=?" if likely else "")
    if len(args) > len(plain):
        first = [p.name for p in plain if p.name != "self"]
        yield f"{_shown(args[len(plain)])} has no name in front: only {_listed(first)} may stand so"
    for name in given:
        if name in [p.name for p in plain[: len(args)]]:
            yield f"{name} is given twice"
    missing = [
        p.name
        for p in signature.parameters.values()
        if p.default is p.empty
        and p.name not in named
        and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    ]
    if missing:
        yield f"{_listed(missing)} {'is' if len(missing) == 1 else 'are'} missing"


def _takes_any(signature: inspect.Signature) -> bool:
    return any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _is_frame(value: Any) -> bool:
    """Classic or Connect."""
    return isinstance(value, DataFrame) or hasattr(value, "isStreaming")


def _no_frame(value: Any) -> str:
    if isinstance(value, str):
        instead = f"give the DataFrame itself, for instance spark.readStream.table({value!r})"
        return f"{value!r}, a str, not a DataFrame: {instead}"
    if value is None:
        return "None, not a DataFrame: the function that made it may lack its return"
    return f"{_shown(value)}, not a DataFrame"


def _shown(value: Any) -> str:
    if isinstance(value, str | int | float | bool | None):
        return repr(value)[:60]
    return f"a {type(value).__name__}" if not isinstance(value, type) else f"the class {value.__name__}"
