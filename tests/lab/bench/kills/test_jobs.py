"""The truth that a join is compared with, and input that is the same whoever makes it."""

from __future__ import annotations

from pathlib import Path

from headgate_lab.bench.kills.jobs import PAIR, add_input, matching_pairs


def test_pairs_share_items_and_are_close_in_time(tmp_path: Path) -> None:
    for side, rows in {
        "left": ['{"id": 1, "at": 100, "items": [1, 2, 3]}', '{"id": 2, "at": 160, "items": [1, 2]}'],
        "right": [
            '{"id": 7, "at": 70, "items": [2, 3, 9]}',  # 30 s before: the last that is close
            '{"id": 8, "at": 131, "items": [1, 2]}',
            '{"id": 9, "at": 160, "items": [1, 9]}',
        ],
    }.items():
        (tmp_path / side).mkdir()
        (tmp_path / side / "000000.json").write_text("\n".join(rows))
    assert matching_pairs(tmp_path) == [1 * PAIR + 7, 2 * PAIR + 8]


def test_files_are_the_same_for_one_seed(tmp_path: Path) -> None:
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        add_input(tmp_path / folder, 0, seed)
    texts = [(tmp_path / name / "left" / "000000.json").read_text() for name in "abc"]
    assert texts[0] == texts[1] != texts[2]
