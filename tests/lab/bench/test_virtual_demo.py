"""The demo in virtual time: what its kept share depends on."""

from __future__ import annotations

from headgate_lab.bench.virtual_demo import demo_rows


def test_a_warm_demo_keeps_what_fits_and_dear_shed_rows_take_it_away() -> None:
    rows = demo_rows(range(2))
    warm = [row for row in rows if row["prices fall by"] == 1]
    kept = [row["kept"] for row in warm]
    assert kept == sorted(kept, reverse=True), "the dearer a shed row, the fewer are kept"
    assert kept[0] > 0.16, "of the fifth that fits at five times the capacity"
    for row in warm:
        # 0.82 to 0.86: the best budget knows the run's own noise, and 45 s are hardly thirty batches.
        assert row["kept"] >= 0.8 * row["best"], row


def test_a_cold_start_costs_a_demo_more_than_the_shed_rows_do() -> None:
    rows = {(row["prices fall by"], row["arrived row, of a kept one"]): row for row in demo_rows([0, 1])}
    assert rows[2, 0.0]["kept"] < rows[1, 0.01]["kept"]
