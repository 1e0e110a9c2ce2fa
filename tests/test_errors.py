"""The exception tree is the one that is drawn, and messages teach."""

from __future__ import annotations

import inspect
import re

import pytest

from headgate import errors
from headgate.errors import HeadgateError, MissingExtra


def _drawn() -> dict[str, tuple[str, str | None]]:
    """Each error's parent in the drawing, and the builtin that it also is."""
    found: dict[str, tuple[str, str | None]] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"^ {4}([│├└─ ]*)(\w+)(?: +\(also (\w+)\))?", line)
        if match is None or not hasattr(errors, match[2]):
            continue
        depth = len(match[1]) // 4
        path[depth:] = [match[2]]
        if depth:
            found[match[2]] = (path[depth - 1], match[3])
    return found


def test_the_tree_is_as_drawn() -> None:
    drawn = _drawn()
    classes = {n: c for n, c in vars(errors).items() if inspect.isclass(c) and n != "HeadgateError"}
    assert set(drawn) == set(classes)
    for name, (parent, builtin) in drawn.items():
        bases = [b.__name__ for b in classes[name].__bases__]
        assert bases == [parent] if builtin is None else bases == [parent, builtin]


def test_every_error_can_be_caught_as_one() -> None:
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), HeadgateError)
    assert sorted(errors.__all__) == errors.__all__


def test_a_missing_extra_names_its_pip_line() -> None:
    with pytest.raises(ImportError, match=r"'pyspark'.*pip install 'headgate\[spark\]'"):
        raise MissingExtra("pyspark", "spark")
