"""Durations as people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.durations import seconds
from headgate.errors import BadArgument


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2 seconds", 2.0),
        ("1 second", 1.0),
        ("500 ms", 0.5),
        ("500ms", 0.5),
        (" 1.5 S ", 1.5),
        ("1e3 milliseconds", 1.0),
        ("1 minute", 60.0),
        ("2 hours", 7200.0),
        (".5 min", 30.0),
        (3, 3.0),
        (0.25, 0.25),
        (timedelta(milliseconds=1500), 1.5),
    ],
)
def test_what_people_write_is_understood(written: object, meant: float) -> None:
    assert seconds(written) == pytest.approx(meant)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "written",
    [
        "", "5", "seconds", "-1 s", "0 s", "1e999 s", "1 fortnight", "1 s 2", "٣ s", 0, -1.0, True,
        None, float("nan"), float("inf"), timedelta(0), timedelta(seconds=-1), ["1 s"],
    ],
)  # fmt: skip
def test_what_is_no_positive_duration_is_refused_with_its_name_and_an_example(
    written: object,
) -> None:
    with pytest.raises(BadArgument, match=r"(?s)hold=.*'2 seconds'"):
        seconds(written, "hold")  # type: ignore[arg-type]


@given(st.floats(min_value=1e-6, max_value=1e9))
def test_a_number_and_its_text_mean_the_same(value: float) -> None:
    assert seconds(value) == value
    assert seconds(f"{value!r} s") == value
    assert seconds(f"{value!r} ms") == pytest.approx(value / 1000)
