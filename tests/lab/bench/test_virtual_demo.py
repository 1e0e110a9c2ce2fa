"""The demo in virtual time: what its kept share depends on."""

from __future__ import annotations

from headgate_lab.bench.virtual_demo import demo_rows

FIXED = "before the first row, of the target"


def test_a_warm_demo_keeps_what_fits_and_dear_shed_rows_take_it_away() -> None:
    rows = demo_rows(range(2))
    warm = [row for row in rows if row["prices fall by"] == 1 and row[FIXED] == 0.2]
    kept = [row["kept"] for row in warm]
    assert kept == sorted(kept, reverse=True), "the dearer a shed row, the fewer are kept"
    assert kept[0] > 0.16, "of the fifth that fits at five times the capacity"
    for row in warm:
        # 0.82 to 0.86: the best budget knows the run's own noise, and 45 s are hardly thirty batches.
        assert row["kept"] >= 0.8 * row["best"], row


def test_a_cold_start_costs_a_demo_more_than_the_shed_rows_do() -> None:
    rows = {
        (row["prices fall by"], row["arrived row, of a kept one"]): row
        for row in demo_rows([0, 1])
        if row[FIXED] == 0.2
    }
    assert rows[2, 0.0]["kept"] < rows[1, 0.01]["kept"]


def test_what_goes_before_the_first_row_bounds_what_anybody_keeps() -> None:
    """What the noise takes is a larger part of what is left for rows, and so is what shed rows take."""
    rows = {(row[FIXED], row["arrived row, of a kept one"]): row for row in demo_rows([0, 1])[-8:]}
    assert all(rows[place]["best"] < 0.16 for place in ((0.5, 0.07), (0.7, 0.03), (0.7, 0.07)))
    assert all(row["inside"] >= 0.9 for row in rows.values())
    assert rows[0.7, 0.0]["kept"] < rows[0.5, 0.0]["kept"]
