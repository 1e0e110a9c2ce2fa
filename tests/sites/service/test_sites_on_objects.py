"""What a site keeps, in an object store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.errors import ControlFolderError
from headgate.sites.allocator import SiteAllocator
from headgate.sites.service import object_history
from headgate.sites.service.object_history import ObjectHistory
from headgate.sites.service.ticker import Ticker
from headgate.sites.settings import SiteSettings
from headgate.sites.shared import SharedSite
from headgate.sites.wire.incarnation import Incarnation
from headgate.store.folder import read_json
from headgate.store.lease import Holder
from headgate.store.places import object_turns
from headgate.store.places.objects import Objects
from headgate.store.places.place import ObjectPath, Place
from headgate.store.places.process_claim import claim_for_process
from headgate.store.places.stores import store_of
from tests.harness.object_stores import memory
from tests.harness.virtual_store_time import StoreTime

__all__ = ["memory"]


def _status(at: float) -> dict[str, Any]:
    return {"at": at, "level": 1.0, "trim": 0.0, "queries": {}, "gates": {"g": {"keep": 0.5}}}


def test_history_is_kept_in_chunks_and_the_oldest_go(
    memory: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_history, "_LINES", 5)
    monkeypatch.setattr(object_history, "_CHUNKS", 4)
    history = ObjectHistory(memory / "sic")
    for at in range(12):
        history.add(_status(float(at)))
    again = ObjectHistory(memory / "sic")  # a restart
    again.add(_status(12.0))
    assert [line["at"] for line in again.lines()] == [float(at) for at in range(13)]
    for at in range(13, 30):
        again.add(_status(float(at)))
    assert [line["at"] for line in again.lines()][-1] == 29.0
    assert len(store_of(memory).entries(memory / "sic")) == 4


@pytest.fixture(params=["folder", "objects"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "folder":
        return tmp_path
    found: Place = request.getfixturevalue("memory")
    return found


def test_a_name_is_for_one_process(place: Place) -> None:
    claim = claim_for_process(place / "running.lock", "it is taken")
    assert claim.beat()
    claim.close()
    claim_for_process(place / "running.lock", "it is taken").close()


def test_an_incarnation_goes_on_after_a_restart(place: Place) -> None:
    first = Incarnation(place, "a")
    numbers = [first.next() for _ in range(3)]
    first.close()
    second = Incarnation(place, "a")
    assert second.name == first.name
    assert second.next() > max(numbers)
    second.close()


def test_a_claim_is_refused_while_its_holder_is_heard_and_waited_for_if_not(
    memory: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    elsewhere = Holder("another", host="elsewhere", boot="x", pid=7, pid_started="1")
    with StoreTime(monkeypatch) as hours:
        with monkeypatch.context() as there:
            there.setattr(object_turns, "this_process", lambda: elsewhere)
            other = claim_for_process(memory / "running.lock", "it is taken")

        def both(seconds: float) -> None:
            now[0] += seconds
            hours.pass_s(seconds)

        def heard(seconds: float) -> None:
            both(seconds)
            other._turns._beaten -= 100.0  # type: ignore[attr-defined]
            assert other.beat()

        with pytest.raises(ControlFolderError, match="it is taken"):
            claim_for_process(memory / "running.lock", "it is taken", lambda: now[0], heard)
        mine = claim_for_process(memory / "running.lock", "it is taken", lambda: now[0], both)
        assert 50.0 < now[0] < 90.0, "it was silent for a minute"
        other._turns._beaten -= 100.0  # type: ignore[attr-defined]
        assert not other.beat()
        assert mine.beat()


def test_reports_and_the_end_do_not_wait_for_a_store_that_is_gone(
    memory: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = Incarnation(memory, "a")
    numbers = [who.next()]
    assert who._lock is not None
    who._lock._turns._beaten -= 100.0  # type: ignore[attr-defined]

    def gone(*_: object, **__: object) -> None:
        raise OSError("nobody answers")

    with monkeypatch.context() as outage:
        for name in ("get", "put", "create", "entries", "delete"):
            outage.setattr(Objects, name, gone)
        numbers += [who.next(), who.next()]
        who.close()
    assert numbers == [1, 2, 3]


def test_one_that_was_taken_for_gone_sends_no_more_reports(
    memory: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = Holder("another", host="elsewhere", boot="x", pid=7, pid_started="1")
    with StoreTime(monkeypatch) as hours:
        paused = Incarnation(memory, "a")
        paused.next()
        hours.pass_s(100)
        monkeypatch.setattr(object_turns, "this_process", lambda: elsewhere)
        other = Incarnation(memory, "a")
        assert other.name == paused.name
        assert paused._lock is not None
        paused._lock._turns._beaten -= 100.0  # type: ignore[attr-defined]
        with pytest.raises(ControlFolderError, match="site 'a' is running already"):
            paused.next()
        assert other.next() > 1


def test_a_ticker_leaves_its_status_less_often_and_says_if_its_name_is_lost(memory: ObjectPath) -> None:
    now = [0.0]
    settings = SiteSettings.for_hold("a", 2.0, 1.0, None, None)
    shared = SharedSite(SiteAllocator(settings))
    ours = [True]
    ticker = Ticker(
        shared, memory, [], clock=lambda: now[0], wall=lambda: now[0], still_ours=lambda: ours[0]
    )
    for _ in range(25):
        ticker.once()
        now[0] += 1.0
    assert read_json(memory / "status.json")["at"] == 20.0
    assert [line["at"] for line in ObjectHistory(memory / "sic").lines()] == [0.0, 10.0, 20.0]
    ours[0] = False
    with pytest.raises(ControlFolderError, match="another process runs site 'a'"):
        ticker.once()
    ticker.stop()
    assert read_json(memory / "status.json")["stopped"]
