"""The SIC of queries over time: lines, and never more than two files of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headgate.sites.service.history import History


def _status(at: float, sic: float | None = 0.5) -> dict[str, Any]:
    return {
        "at": at,
        "level": None,
        "trim": 1.0,
        "queries": {"q": {"sic": sic, "accepted": 0.5, "told_by": "site", "share": 1.0}},
        "gates": {"g": {"keep": 0.25, "query": "q"}},
    }


def test_what_was_added_comes_back_oldest_first(tmp_path: Path) -> None:
    history = History(tmp_path / "new" / "sic.jsonl")
    assert list(history.lines()) == []
    for at in (1.0, 2.0):
        history.add(_status(at))
    assert [line["at"] for line in history.lines()] == [1.0, 2.0]
    (first, _) = history.lines()
    assert first["queries"] == {"q": {"sic": 0.5, "accepted": 0.5, "told_by": "site"}}
    assert first["keep"] == {"g": 0.25}


def test_it_stays_small_and_keeps_the_latest(tmp_path: Path) -> None:
    path = tmp_path / "sic.jsonl"
    history = History(path, largest=2000)
    for at in range(500):
        history.add(_status(float(at)))
    sizes = [file.stat().st_size for file in tmp_path.iterdir()]
    assert len(sizes) == 2
    assert max(sizes) < 2300
    found = [line["at"] for line in history.lines()]
    assert found[-1] == 499.0
    assert found == sorted(found)
    assert len(found) > 10


def test_a_line_that_a_crash_cut_off_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "sic.jsonl"
    history = History(path)
    history.add(_status(1.0))
    with open(path, "a") as file:
        file.write('{"at": 2.0, "lev\n[1, 2]\n')
    history.add(_status(3.0, sic=None))
    assert [line["at"] for line in history.lines()] == [1.0, 3.0]
    with open(path, "a") as file:
        file.write('{"at": 4.0, "lev')
    again = History(path)
    again.add(_status(5.0))
    again.add(_status(6.0))
    assert [line["at"] for line in again.lines()] == [1.0, 3.0, 5.0, 6.0], "not glued to the cut one"
