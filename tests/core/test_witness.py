"""Counts that add up can still be wrong; what the source says of them, and what that proves."""

from __future__ import annotations

import pytest

from headgate.core.load import LoadSample
from headgate.core.witness import AT_MOST, EQUAL, UNKNOWN, Witness, cross_examine


def says(arrived: int, kept: int, relation: str, **witness: object) -> tuple[str, bool]:
    sample = LoadSample(0, 0.0, 1.0, arrived, kept)
    by, doubt = cross_examine(sample, relation, Witness(**witness))  # type: ignore[arg-type]
    return by, bool(doubt)


@pytest.mark.parametrize(
    ("arrived", "kept", "witness", "by"),
    [
        (2000, 1000, {"handed_out": 2000}, "rows"),
        (2000, 1000, {"handed_out": 2000, "in_range": 2000}, "offsets"),
        (2000, 1000, {"handed_out": 4000, "in_range": 2000, "rereads": True}, "offsets"),
        (2000, 1000, {"handed_out": 2001, "rereads": True, "whole": True}, "passes"),
        (2000, 1000, {"handed_out": 4000, "rereads": True}, "rows"),  # two whole passes
        (1990, 1000, {"handed_out": 1990, "in_range": 2000}, "rows"),  # markers of transactions
        (2000, 1000, {"handed_out": 4000}, "rows"),  # two branches of the query read the source
        (2000, 1000, {"handed_out": 2700}, "bound"),  # and one of them less of it
        (2000, 1000, {}, ""),
        (2000, 1000, {"handed_out": 0}, ""),  # Spark could not tell
    ],
)
def test_counts_that_are_right(arrived: int, kept: int, witness: dict[str, object], by: str) -> None:
    assert says(arrived, kept, EQUAL, **witness) == (by, False)


@pytest.mark.parametrize(
    ("arrived", "kept", "witness"),
    [
        (1, 1, {"handed_out": 2001, "rereads": True}),  # a write, then isEmpty()
        (1, 1, {"handed_out": 2001, "rereads": True, "whole": False}),
        (1001, 500, {"handed_out": 2001, "rereads": True, "whole": False}),  # one of two partitions
        (7, 5, {"handed_out": 2007, "rereads": True, "in_range": 2000}),  # a write, then take(5)
        (27, 10, {"handed_out": 27, "cut_short": True}),  # a streaming limit(10)
        (27, 10, {"handed_out": 27, "in_range": 2000, "rereads": True}),  # only take, no write
        (2001, 1000, {"handed_out": 2000}),
    ],
)
def test_counts_that_are_wrong(arrived: int, kept: int, witness: dict[str, object]) -> None:
    assert says(arrived, kept, EQUAL, **witness) == ("", True)


@pytest.mark.parametrize(
    ("arrived", "relation", "witness", "by", "doubtful"),
    [
        (2000, EQUAL, {"handed_out": 2000, "whole": True}, "passes", False),
        (4000, EQUAL, {"handed_out": 4000, "whole": False}, "", True),  # written twice
        (2005, EQUAL, {"handed_out": 2005, "in_range": 2000}, "", True),  # over Connect, from Kafka
        (2000, EQUAL, {"handed_out": 2000, "in_range": 2000}, "offsets", False),
        (2000, EQUAL, {"handed_out": 2000, "in_range": 2000, "whole": False}, "", True),
        (4000, EQUAL, {"handed_out": 4000}, "", False),  # nobody can tell, and nobody confirms it
        (3000, AT_MOST, {"handed_out": 4000}, "", False),
        (3000, AT_MOST, {"handed_out": 4000, "in_range": 2000}, "", True),
        (1500, AT_MOST, {"handed_out": 2000, "whole": True}, "passes", False),
    ],
)
def test_where_passes_are_added_up_the_source_is_no_witness(
    arrived: int, relation: str, witness: dict[str, object], by: str, doubtful: bool
) -> None:
    found = says(arrived, arrived // 2, relation, rereads=True, added_up=True, **witness)
    assert found == (by, doubtful)


def test_rows_that_a_filter_took_out_are_no_contradiction() -> None:
    assert says(1500, 750, AT_MOST, handed_out=2000) == ("bound", False)
    assert says(2500, 750, AT_MOST, handed_out=2000) == ("", True)
    assert says(2500, 1250, UNKNOWN, handed_out=2000) == ("", False)
    assert says(1, 1, AT_MOST, handed_out=2001, rereads=True, in_range=2000) == ("", True)
    assert says(1500, 750, AT_MOST, handed_out=4000, rereads=True, in_range=2000) == ("bound", False)


def test_an_unlikely_share_alone_is_no_doubt() -> None:
    """Few distinct rows share few fates; the audit names such batches, and controllers still learn."""
    assert says(1000, 900, UNKNOWN, rereads=True) == ("", False)
    assert says(1000, 900, UNKNOWN) == ("", False)
    assert says(1000, 900, EQUAL, handed_out=1000, rereads=True) == ("rows", False)
