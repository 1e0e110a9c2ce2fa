"""Every kind of damage is seen for what it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate_lab.bench.kills.tally import Books, Sunk, tally

WANTED = range(8)
SUNK = Sunk({0: [0, 2], 1: [5, 6]}, {0: [[0, 2]], 1: [[5, 6], [5, 6]]})
BOOKS = Books({0: 2, 1: 2}, 4, 0, 0)
LATE = [1, 3, 4, 7]


def test_a_query_that_lost_nothing() -> None:
    line = tally("gate", WANTED, SUNK, BOOKS, repaid=LATE)
    assert (line.arrived, line.kept, line.repaid) == (8, 4, 4)
    assert (line.lost, line.doubled, line.wrong, line.differ) == (0, 0, 0, 0)
    assert (line.batches, line.replayed, line.jaccard) == (2, 1, 1.0)


@pytest.mark.parametrize(
    ("batches", "late", "lost", "doubled", "wrong"),
    [
        ({0: [0, 2], 1: [5]}, LATE, 1, 0, 0),
        ({0: [0, 2], 1: [5, 6, 0]}, LATE, 0, 1, 0),
        ({0: [0, 2, 2, 2], 1: [5, 6]}, LATE, 0, 2, 0),
        ({0: [0, 2], 1: [5, 6]}, [*LATE, 5], 0, 1, 0),
        ({0: [0, 2], 1: [5, 6]}, LATE[1:], 1, 0, 0),
        ({0: [0, 2, 99], 1: [5, 6]}, [*LATE, 99], 0, 0, 2),
    ],
)
def test_what_is_missing_there_twice_or_from_nowhere(
    batches: dict[int, list[int]], late: list[int], lost: int, doubled: int, wrong: int
) -> None:
    line = tally("gate", WANTED, replace(SUNK, batches=batches), BOOKS, repaid=late)
    assert (line.lost, line.doubled, line.wrong) == (lost, doubled, wrong)


def test_other_rows_at_another_attempt() -> None:
    other = replace(SUNK, attempts={1: [[5, 6], [5], [5, 6]]})
    assert tally("rand", WANTED, other, None).jaccard == 0.5


def test_books_that_say_otherwise_and_batches_that_they_do_not_know() -> None:
    line = tally("guard", WANTED, SUNK, Books({0: 3}, 5, 1, 1))
    assert (line.differ, line.unbalanced, line.unsettled) == (1, 1, 1)
    assert (line.lost, line.repaid) == (None, None), "it does not promise that"


def test_without_replays_there_is_no_likeness() -> None:
    assert tally("gate", WANTED, replace(SUNK, attempts={}), None).jaccard is None
