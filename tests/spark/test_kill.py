"""Kill -9 in the middle of batches: replayed batches keep the same rows, and the ledger balances.

`headgate bench replay` does the same at least twenty times.
"""

from __future__ import annotations

from pathlib import Path

from rich.progress import Progress

from headgate.bench.replay import kill_and_replay


def test_a_killed_query_keeps_the_same_rows_again(tmp_path: Path) -> None:
    with Progress(disable=True) as progress:
        result = kill_and_replay(tmp_path, kills=3, progress=progress, seed=4)
    context = result["context"]
    assert context["kills"] == 3, context
    assert context["ledger_balanced"], context
    assert context["replayed_batches"] >= 1, context
    assert result["ratios"]["jaccard_gate"] == 1.0
    assert context["ledger"]["arrived"] == context["batches"] * 400
