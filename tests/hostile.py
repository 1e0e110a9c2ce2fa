"""Values that nobody at Headgate has written: a store or a row may hold anything.

`mangled` takes what was really written and spoils it in one to three places, so that most of what a
parser is shown is right, and the fault is behind the first check and not in front of it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

__all__ = ["TEXTS", "VALUES", "mangled", "texts", "values"]

#: Texts that are markup, paths, commands, control characters or half a character somewhere.
TEXTS = (
    "",
    "../../../etc/passwd",
    "/etc/passwd",
    "C:\\windows",
    "..",
    "a/b",
    "nul\x00byte",
    "line\nbreak\r\nand\ttab",
    "\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "{{7*7}}${7*7}",
    "[bold red]markup[/bold red][/]",
    "'; DROP TABLE rides; --",
    "`x` from y",
    "java_method('java.lang.Runtime', 'exit')",
    'x="1",y="2"} 99',
    "# HELP x\nx 1",
    "%s %d %(x)s",
    "\u202eright to left\u2066",
    "\ufeffmark",
    "\u2028\u2029\x85",
    "half \ud800 a pair",
    "e\u0301\u0344 \U0001f469\u200d\U0001f4bb",
    "nan",
    "1e999",
    "٣",
    "x" * 10_000,
)
#: Values of every kind that JSON can say, the worst of each.
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**400,
    0.0, -0.0, 0.5, 1.5, 1e-320, 1e308, -1e308, float("nan"), float("inf"), float("-inf"),
    [], {}, [[]], [None], [{}], {"": None}, {"v": 1}, {"plan": {}}, [1, 2, 3], [[1, 2], [3]],
    *TEXTS,
)  # fmt: skip


def texts() -> st.SearchStrategy[str]:
    """Any text: the known bad ones, and what Hypothesis makes, halves of pairs among them."""
    return st.sampled_from(TEXTS) | st.text(st.characters(), max_size=20)


def values() -> st.SearchStrategy[Any]:
    """Any JSON value, the infinite and the undefined among them."""
    known = st.sampled_from(VALUES).map(copy.deepcopy)
    return known | st.integers() | st.floats() | texts()


@st.composite
def mangled(draw: st.DrawFn, written: Any) -> Any:
    """What was written, with one to three places spoilt: another value, none, or one more."""
    found = copy.deepcopy(written)
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(found))
        if not places:
            return draw(values())
        holder, at = draw(st.sampled_from(places))
        how = draw(st.sampled_from(("replace", "replace", "replace", "remove", "add")))
        if how == "replace":
            holder[at] = draw(values())
        elif how == "remove":
            del holder[at]
        elif isinstance(holder, dict):
            holder[draw(texts())] = draw(values())
        else:
            holder.insert(at, draw(values()))
    return found


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each place below the value: what holds it, and under which name or number."""
    below: list[tuple[Any, Any]] = list(value.items()) if isinstance(value, dict) else []
    if isinstance(value, list):
        below = list(enumerate(value))
    for at, inner in below:
        yield value, at
        yield from _places(inner)
