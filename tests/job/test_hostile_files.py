"""A job file that holds anything: it is read, or what is wrong is said, and nothing else is raised."""

from __future__ import annotations

import contextlib
import json
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example as shown
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import HeadgateError
from headgate.job.examples import SOURCES, example
from headgate.job.reading import read_job
from tests.hostile import mangled

#: All that a file may say, but for what only one source can.
FULL: dict[str, Any] = {
    "name": "all",
    "source": {"format": "kafka", "servers": "broker:9092", "topic": ["rides"], "options": {"a": "b"}},
    "sql": {"query": "select * from source", "view": "source"},
    "gate": {"name": "rides", "hold": "2 seconds", "control": "control", "min_keep": 0.1, "rate": 0.5},
    "rescue": {"after": 2, "factor": 0.5},
    "sink": {"format": "parquet", "path": "out", "checkpoint": "c", "options": {"x": "1"}},
    "spark": {"memory": "1g", "master": "local[2]", "conf": {"spark.a": "b"}},
}


def _toml(value: Any) -> str:
    """One value as TOML writes it; what TOML has no word for is a text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(str(k))} = {_toml(v)}" for k, v in value.items()) + "}"
    return json.dumps("none" if value is None else str(value)).replace("\x7f", "\\u007f")


def _file(value: Any) -> bytes:
    if not isinstance(value, dict):
        return _toml(value).encode()
    return "".join(f"{_toml(str(k))} = {_toml(v)}\n" for k, v in value.items()).encode()


def _read_or_refused(text: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "job.toml"
        file.write_bytes(text)
        before = sorted(Path(folder).rglob("*"))
        with contextlib.suppress(HeadgateError):
            read_job(file, {})
        assert sorted(Path(folder).rglob("*")) == before, "reading makes nothing"


def test_the_writer_of_these_tests_writes_toml() -> None:
    assert tomllib.loads(_file(FULL).decode()) == FULL


@settings(max_examples=150)
@given(mangled(FULL))
def test_a_file_that_was_spoilt_is_read_or_refused(value: Any) -> None:
    _read_or_refused(_file(value))


@settings(max_examples=60)
@given(st.sampled_from(SOURCES).map(example), st.data())
def test_so_is_a_text_that_was_cut_and_patched(text: str, data: st.DataObject) -> None:
    whole = text.encode()
    low = data.draw(st.integers(0, len(whole)))
    high = data.draw(st.integers(low, min(len(whole), low + 40)))
    patch = data.draw(st.binary(max_size=20) | st.sampled_from((b'"', b"[", b"]", b"=", b"\n[gate]\n")))
    _read_or_refused(whole[:low] + patch + whole[high:])


@settings(max_examples=60)
@given(st.binary(max_size=200))
@shown(b"\xef\xbb\xbfname = 1")
@shown(b"a = 1979-05-27T07:32:00Z\nname = 00:00:00")
def test_and_so_are_any_bytes(text: bytes) -> None:
    _read_or_refused(text)


@pytest.mark.parametrize(
    "text",
    ["a = " + "[" * 100_000, "a = " + "{b=" * 100_000, "a" + ".a" * 2_000 + " = 1", "[" * 100_000],
    ids=["arrays", "tables", "dots", "brackets"],
)
def test_no_depth_breaks_the_reader(text: str) -> None:
    _read_or_refused(text.encode())


def test_a_number_with_more_digits_than_python_reads_is_refused() -> None:
    _read_or_refused(b"name = " + b"9" * 10_000)
