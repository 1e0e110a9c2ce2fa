"""How gates stand, as their drivers write it: what is written again, and what is cleared away."""

from __future__ import annotations

import gzip
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from headgate.store.ledger import board as board_module
from headgate.store.ledger.board import Board, boards_in
from headgate.testing.clock import ManualClock

GATE = ("g", "q")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000.0)


def _shown(control: Path) -> dict[str, Any]:
    return {row["gate"]: row for board in boards_in(control) for row in board.rows}


def test_what_could_not_be_written_is_written_next_time(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = Board(tmp_path, clock)
    board.tell({GATE: {"last_batch": 1}})
    with monkeypatch.context() as away:
        away.setattr(board_module, "store_of", _raise)
        with pytest.raises(OSError, match="away"):
            board.tell({GATE: {"last_batch": 2}})
    board.tell({GATE: {"last_batch": 2}})
    assert _shown(tmp_path)["g"]["last_batch"] == 2, "though nothing is new since"
    with monkeypatch.context() as away:
        away.setattr(board_module, "store_of", _raise)
        with pytest.raises(OSError, match="away"):
            board.close(GATE, {"last_batch": 3})
    board.tell({})
    assert _shown(tmp_path)["g"] == {"gate": "g", "query": "q", "last_batch": 3, "ended": True}


def _raise(*_: object) -> None:
    raise OSError(5, "the store is away")


def test_a_driver_with_nothing_new_to_say_is_not_taken_for_one_that_left(
    tmp_path: Path, clock: ManualClock
) -> None:
    board = Board(tmp_path, clock)
    board.tell({GATE: {"last_batch": 1}})
    (place,) = (tmp_path / "boards").iterdir()
    place.unlink()
    clock.sleep(60)
    board.tell({GATE: {"last_batch": 1}})
    assert not place.exists(), "nothing is new"
    clock.sleep(3600)
    board.tell({GATE: {"last_batch": 1}})
    assert _shown(tmp_path)["g"]["last_batch"] == 1


def test_a_driver_that_is_killed_again_and_again_leaves_no_more_boards_than_are_read_quickly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_module, "_MOST_LEFT", 3)
    now, folder = time.time(), tmp_path / "boards"
    folder.mkdir()
    for number in range(8):
        left = folder / f"killed-{number}.json.gz"
        left.write_bytes(b"")
        os.utime(left, (now - 86_400 + number,) * 2)
    young = folder / "another-that-lives.json.gz"
    young.write_bytes(b"")
    Board(tmp_path).tell({GATE: {"last_batch": 1}})
    names = sorted(path.name for path in folder.iterdir())
    assert [n for n in names if n.startswith("killed")] == [f"killed-{n}.json.gz" for n in (5, 6, 7)]
    assert young.exists()
    assert _shown(tmp_path)["g"]["last_batch"] == 1


@pytest.mark.parametrize(
    "value",
    [
        {"v": 1},
        {"v": 1, "owner": 7, "driver": "d", "rows": []},
        {"v": 1, "owner": "../../elsewhere", "driver": "d", "rows": []},
        {"v": 1, "owner": "o", "driver": "d", "rows": [[]]},
        {"v": 1, "owner": "o", "driver": "d", "rows": [{"gate": "g"}]},
        {"v": 1, "owner": "o", "driver": "d", "rows": [{"gate": "g", "query": ["q"], "ended": True}]},
        [],
    ],
)
def test_what_is_no_board_is_passed_over(tmp_path: Path, value: Any) -> None:
    Board(tmp_path).tell({GATE: {"last_batch": 1}})
    odd = tmp_path / "boards" / "odd.json.gz"
    odd.write_bytes(gzip.compress(json.dumps(value).encode()))
    assert [row["gate"] for board in boards_in(tmp_path) for row in board.rows] == ["g"]
