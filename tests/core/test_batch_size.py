"""Rows for each unit of a source: learned, told apart by source, and carried from driver to worker."""

from __future__ import annotations

import json
import random

import pytest

from headgate.core.batch_size import OFFSETS, BatchSize, RowsExpected, Sizing
from headgate.errors import SnapshotError


def _offsets(units: float) -> tuple[BatchSize, ...]:
    return (BatchSize(units, OFFSETS),)


def test_offsets_are_taken_for_rows_until_batches_say_otherwise() -> None:
    sizing = Sizing()
    assert sizing.rows(_offsets(1000)) == 1000
    for _ in range(5):  # a marker for each three records, and a filter that takes half
        sizing.add(_offsets(400), arrived=150)
    assert sizing.rows(_offsets(1000)) == pytest.approx(375)


@pytest.mark.parametrize("unit", ["steps", "bytes", "files"])
def test_other_units_say_nothing_before_the_first_batch(unit: str) -> None:
    sizing = Sizing()
    assert sizing.rows((BatchSize(7, unit),)) is None
    sizing.add((BatchSize(2, unit),), arrived=1000)
    assert sizing.rows((BatchSize(7, unit),)) == pytest.approx(3500)


def test_an_empty_batch_says_nothing() -> None:
    sizing = Sizing()
    sizing.add(_offsets(0), arrived=0)
    assert sizing.rows(_offsets(10)) == 10


def test_a_ratio_that_rises_is_believed_at_once_and_one_that_falls_by_and_by() -> None:
    """A filter that lets more through, or a burst that is made behind the source."""
    sizing = Sizing()
    for _ in range(50):
        sizing.add((BatchSize(1000, "bytes"),), arrived=100)
    sizing.add((BatchSize(1000, "bytes"),), arrived=900)
    assert sizing.rows((BatchSize(1000, "bytes"),)) == pytest.approx(900)
    sizing.add((BatchSize(1000, "bytes"),), arrived=100)
    assert 100 < sizing.rows((BatchSize(1000, "bytes"),)) < 400
    for _ in range(10):
        sizing.add((BatchSize(1000, "bytes"),), arrived=100)
    assert sizing.rows((BatchSize(1000, "bytes"),)) == pytest.approx(100, rel=0.1)


def test_few_rows_are_not_believed_alone() -> None:
    sizing = Sizing()
    for _ in range(10):
        sizing.add(_offsets(1000), arrived=500)
    sizing.add(_offsets(4), arrived=4)
    assert sizing.rows(_offsets(1000)) == pytest.approx(500, rel=0.01)


def test_a_filter_that_lets_nothing_through_for_long_is_not_taken_for_small_batches() -> None:
    """What comes when it matches again is as large as before, and has to be cut."""
    sizing = Sizing()
    for _ in range(10):
        sizing.add(_offsets(1000), arrived=900)
    for _ in range(500):
        sizing.add(_offsets(1000), arrived=0)
    assert sizing.rows(_offsets(1000)) == pytest.approx(900)
    for _ in range(5):
        sizing.add(_offsets(1000), arrived=3)
    assert sizing.rows(_offsets(1000)) > 700, "fifteen rows are no proof"
    for _ in range(40):
        sizing.add(_offsets(1000), arrived=60)
    assert sizing.rows(_offsets(1000)) == pytest.approx(60, rel=0.1), "2,400 are"


def test_before_the_first_row_an_offset_is_taken_for_one_however_many_brought_none() -> None:
    sizing = Sizing()
    for _ in range(20):
        sizing.add(_offsets(1000), arrived=0)
        sizing.add((BatchSize(1000, "bytes"),), arrived=0)
    assert sizing.rows(_offsets(1000)) == 1000
    assert Sizing.from_json(sizing.to_json()).rows(_offsets(1000)) == 1000


def test_of_several_sources_the_one_that_explains_the_rows_is_found() -> None:
    sizing, draw = Sizing(), random.Random(1)
    assert sizing.rows((BatchSize(5, OFFSETS), BatchSize(6, OFFSETS))) is None, "either may be it"
    for _ in range(5):
        own, other = draw.randrange(100, 10_000), draw.randrange(100, 10_000)
        sizing.add((BatchSize(other, OFFSETS), BatchSize(own, OFFSETS)), arrived=own)
    assert sizing.rows((BatchSize(1, OFFSETS), BatchSize(600, OFFSETS))) == pytest.approx(600)
    assert sizing.unit((BatchSize(1, OFFSETS), BatchSize(600, OFFSETS))) == OFFSETS


def test_behind_a_union_all_sources_are_the_gates_own() -> None:
    sizing, draw = Sizing(), random.Random(2)
    for _ in range(5):
        one, other = 10_000, draw.randrange(100, 1_000)
        sizing.add((BatchSize(one, OFFSETS), BatchSize(other, OFFSETS)), arrived=one + other)
    burst = (BatchSize(10_000, OFFSETS), BatchSize(500_000, OFFSETS))
    assert sizing.rows(burst) == pytest.approx(510_000)


def test_a_source_of_another_kind_begins_anew() -> None:
    sizing = Sizing()
    sizing.add((BatchSize(1000, "bytes"),), arrived=10)
    assert sizing.rows((BatchSize(3, "files"),)) is None
    assert sizing.rows(_offsets(3)) == 3


def test_what_was_learned_comes_back_from_json() -> None:
    sizing = Sizing()
    sizing.add((BatchSize(10, "bytes"), BatchSize(3, OFFSETS)), arrived=4)
    again = Sizing.from_json(json.loads(json.dumps(sizing.to_json())))
    assert again.to_json() == sizing.to_json()
    expected = RowsExpected(12.5, "bytes", (BatchSize(10, "bytes"),))
    assert RowsExpected.from_json(json.loads(json.dumps(expected.to_json()))) == expected


@pytest.mark.parametrize(
    "junk", [5, ["x"], [[0, "bytes", "NaN", 1, 1, 1, 1, 1]], [[0, "bytes", 1, 0, 1, 1, 1, 1]], [[0]]]
)
def test_what_is_nothing_learned_is_refused(junk: object) -> None:
    with pytest.raises(SnapshotError):
        Sizing.from_json(junk)


@pytest.mark.parametrize("junk", [{}, {"rows": 1, "known_by": "x", "sizes": [[1]]}])
def test_what_is_no_size_is_refused(junk: dict[str, object]) -> None:
    with pytest.raises(SnapshotError):
        RowsExpected.from_json(junk)
