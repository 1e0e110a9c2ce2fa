"""Each key's line, for every way in which TOML writes keys and values."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headgate.job.lines import lines_of

TEXT = '''\
# a comment with [brackets] and "quotes"
name = "a # is no comment"   # this is one
'quoted key' = 'literal ]'
dotted . "with.dot" = 1

[gate]   # [not.this]
keep = [
  "a = 'x]'",  # a comment, with a ]
  """many
lines = "three"""",
]
hold = "2 s"
policy = { kind = "x", accuracy = { of = "f" }, list = [1, {deep = 2}] }
text = """
[looks.like.a.table]
key = "value"
\\""" still
"""
raw = \'\'\'
[nor.this]\'\'\'
[gate.inner]
last = 1979-05-27T07:32:00Z
[[many]]
a = 1
[[many]]
a = 2
'''


def test_every_way_to_write_a_key() -> None:
    found = lines_of(TEXT)
    assert tomllib.loads(TEXT)["gate"]["raw"] == "[nor.this]", "the text is as it is meant"
    assert found == {
        ("name",): 2,
        ("quoted key",): 3,
        ("dotted",): 4,
        ("dotted", "with.dot"): 4,
        ("gate",): 6,
        ("gate", "keep"): 7,
        ("gate", "hold"): 12,
        ("gate", "policy"): 13,
        ("gate", "policy", "kind"): 13,
        ("gate", "policy", "accuracy"): 13,
        ("gate", "policy", "accuracy", "of"): 13,
        ("gate", "policy", "list"): 13,
        ("gate", "policy", "list", "deep"): 13,
        ("gate", "text"): 14,
        ("gate", "raw"): 19,
        ("gate", "inner"): 21,
        ("gate", "inner", "last"): 22,
        ("many",): 23,
        ("many", "a"): 24,
    }


def test_a_file_from_another_system_has_the_same_lines() -> None:
    assert lines_of(TEXT.replace("\n", "\r\n")) == lines_of(TEXT)


_KEYS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=5)
_SCALARS = st.one_of(
    st.integers(), st.booleans(), st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_KEYS, inner, max_size=3)),
    max_leaves=6,
)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _quoted(value) if "'" in value else f"'{value}'"
    if isinstance(value, list):
        return "[" + ",  # a comment ]\n".join(map(_written, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(k)} = {_written(v)}" for k, v in value.items()) + "}"
    return str(value)


@given(st.dictionaries(_KEYS, st.dictionaries(_KEYS, _VALUES, max_size=3), max_size=3))
def test_the_keys_are_those_that_the_standard_library_reads(tables: dict[str, dict[str, Any]]) -> None:
    text, expected = "", {}
    for table, keys in tables.items():
        text += f"\n[{_quoted(table)}] # a table\n"
        expected[(table,)] = text.count("\n")
        for key, value in keys.items():
            expected[(table, key)] = text.count("\n") + 1
            text += f"{_quoted(key)} = {_written(value)}\n"
    assert tomllib.loads(text) == tables
    found = lines_of(text)
    assert {path: line for path, line in found.items() if len(path) <= 2} == expected
