"""Each fault is what it says: seen through the store, and over when its block ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headgate.store.places.stores import store_of
from headgate.testing.clock import ManualClock
from headgate.testing.faults.folders import FOLDER_FAULTS, away, full, gone, read_only, slow, tear, torn


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    at = tmp_path / "control"
    store_of(at).put(at / "a" / "one.json", b'{"n": 1}')
    return at


@pytest.mark.parametrize(("fault", "says"), [(read_only, "Read-only"), (full, "No space left")])
def test_nothing_can_be_changed_and_all_can_be_read(folder: Path, fault, says: str) -> None:
    store, one = store_of(folder), folder / "a" / "one.json"
    with fault(folder):
        for change in (
            lambda: store.put(one, b"{}"),
            lambda: store.put(folder / "b" / "two.json", b"{}"),
            lambda: store.create(folder / "a" / "two.json", b"{}"),
            lambda: one.unlink(),
        ):
            with pytest.raises(OSError, match=says):
                change()
        held = store.get(one)
        assert held is not None
        assert held.data == b'{"n": 1}'
        (folder.parent / "elsewhere").write_text("as ever")
    store.put(one, b"{}")
    assert [e.name for e in store.entries(folder / "a")] == ["one.json"], "and nothing is left of it"


def test_changes_take_longer(folder: Path) -> None:
    clock = ManualClock(0.0)
    with slow(folder, 2.0, clock.sleep):
        store_of(folder).get(folder / "a" / "one.json")
        assert clock() == 0.0
        store_of(folder).put(folder / "a" / "one.json", b"{}")
    assert clock() >= 4.0, "a part is written, and renamed"
    store_of(folder).put(folder / "a" / "one.json", b"{}")
    assert clock() < 20.0


def test_what_was_away_comes_back(folder: Path) -> None:
    store = store_of(folder)
    with away(folder):
        assert store.get(folder / "a" / "one.json") is None
        store.put(folder / "a" / "two.json", b"{}")
    assert [e.name for e in store.entries(folder / "a")] == ["one.json"]


def test_what_is_gone_is_gone(folder: Path) -> None:
    with gone(folder):
        assert not folder.exists()
    assert not folder.exists()


def test_files_are_cut_off(folder: Path) -> None:
    one = folder / "a" / "one.json"
    with torn(folder):
        assert one.stat().st_size < 8
    one.write_text('{"n": 1}')
    tear(one, 3)
    assert one.read_text() == '{"n'


def test_the_table_has_all_of_them(folder: Path) -> None:
    before = os.open
    for fault in FOLDER_FAULTS.values():
        folder.mkdir(exist_ok=True)
        with fault(folder):
            pass
    assert os.open is before
