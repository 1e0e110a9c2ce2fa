"""Errors of a gate and of a filter by hand, window by window."""

from __future__ import annotations

from headgate_lab.bench.virtual_peers import peer_rows


def test_the_first_batches_are_what_a_gates_means_are_off_by() -> None:
    warm, cold = peer_rows(range(3))
    for row in (warm, cold):
        assert row["gate, later windows"] < 1.4 * row["filter, later windows"]
    assert cold["least kept of batches 1 to 3"] < 0.02, "each of its rows stands for fifty and more"
    assert cold["gate, all windows"] > 2.0 * cold["gate, later windows"]
    assert warm["gate, all windows"] < 1.5 * warm["filter, all windows"]
