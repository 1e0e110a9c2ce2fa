"""Kill -9 in the middle of batches: replayed batches keep the same rows, and the ledger balances.

`headgate bench replay` does the same at least twenty times.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from rich.progress import Progress

from headgate_lab.bench import replay
from headgate_lab.bench.replay import kill_and_replay
from tests.eventually import eventually


@pytest.mark.parametrize(
    "end", [KeyboardInterrupt(), RuntimeError("a fault"), subprocess.TimeoutExpired("child", 900)]
)
def test_a_benchmark_that_is_broken_off_leaves_no_process_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: BaseException
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def start(folder: Path, attempt: int) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sh", "-c", "sleep 300 & wait"], start_new_session=True))
        return started[-1]

    def break_off(*_: object) -> bool:
        raise end

    monkeypatch.setattr(replay, "_start", start)
    monkeypatch.setattr(replay, "_reached_new_batch", break_off)
    with Progress(disable=True) as progress, pytest.raises(type(end)):
        kill_and_replay(tmp_path, kills=1, progress=progress)
    (child,) = started
    assert child.returncode == -9
    eventually(lambda: not _alive(child.pid), "that what the child had started is gone, too")


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_killed_query_keeps_the_same_rows_again(tmp_path: Path) -> None:
    with Progress(disable=True) as progress:
        result = kill_and_replay(tmp_path, kills=3, progress=progress, seed=4)
    context = result["context"]
    assert context["kills"] == 3, context
    assert context["ledger_balanced"], context
    assert context["replayed_batches"] >= 1, context
    assert result["ratios"]["jaccard_gate"] == 1.0
    assert context["ledger"]["arrived"] == context["batches"] * 400
