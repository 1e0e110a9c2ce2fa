"""A store that is busy, slow or cut off: what was done counts as done, and nobody waits for ever."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from headgate.core.plan import Plan
from headgate.errors import ControlFolderError
from headgate.store.ledger.records import Ledger, Record
from headgate.store.places.object_turns import ObjectTurns
from headgate.store.places.objects import Objects, Patience, _opened
from headgate.store.places.place import ObjectPath, control_place
from headgate.store.places.stores import store_of
from headgate.store.plans import PinnedPlan, PlanStore
from headgate.testing.faults.faulty_s3 import FaultyS3
from headgate.testing.store_contract import check_store
from tests.harness.object_stores import faulty_s3 as faulty_s3


@pytest.fixture
def place(faulty_s3: FaultyS3) -> ObjectPath:
    found = control_place(f"s3://bucket/{uuid.uuid4().hex}")
    assert isinstance(found, ObjectPath)
    return found


def test_the_server_of_these_tests_is_one(place: ObjectPath) -> None:
    check_store(place)


@pytest.mark.parametrize("fault", ["lost", "cut", "busy"])
def test_a_claim_that_had_to_be_sent_twice_is_won(
    faulty_s3: FaultyS3, place: ObjectPath, fault: str
) -> None:
    faulty_s3.next["claim"].append(fault)
    at = place / "claim.json"
    mine = b'{"by":"me"}'
    assert store_of(at).create(at, mine) is mine
    assert faulty_s3.seen.count("claim") == 2
    assert store_of(at).create(at, b'{"by":"another"}') == mine


@pytest.mark.parametrize("fault", ["lost", "cut", "busy", "conflict"])
def test_a_pin_is_the_same_whatever_becomes_of_an_answer(
    faulty_s3: FaultyS3, place: ObjectPath, fault: str
) -> None:
    faulty_s3.next["claim"].append(fault)
    faulty_s3.next["get"].append("busy")
    store = PlanStore(place, "g", "q")
    pin = PinnedPlan(Plan(0.25), "plan")
    assert store.pin_to(7, pin) == pin
    assert PlanStore(place, "g", "q").pin_to(7, PinnedPlan(Plan(0.5), "plan")) == pin


def test_a_record_whose_answer_was_lost_is_there_once(faulty_s3: FaultyS3, place: ObjectPath) -> None:
    ledger = Ledger(place, "g", "q")
    records = [
        Record(gate="g", query="q", batch=n, arrived=10, kept=4, shed=6, plan=Plan(0.4))
        for n in range(3)
    ]
    for record in records:
        faulty_s3.next["put"].extend(["lost"] * 9)  # more often than it is sent again
        with pytest.raises(OSError, match="bucket"):
            ledger.append(record)
        faulty_s3.next["put"].clear()
        ledger.append(record)
    assert list(Ledger(place, "g", "q").lines()) == records


def test_a_turn_whose_answer_was_lost_is_ours_when_it_is_asked_for_again(
    faulty_s3: FaultyS3, place: ObjectPath
) -> None:
    one, other = ObjectTurns(place), ObjectTurns(place)
    faulty_s3.next["claim"].extend(
        ["lost"] + ["cut"] * 9
    )  # it is made; and what is sent again never arrives
    with pytest.raises(OSError, match="turns"), one.taken():
        pass
    faulty_s3.next["claim"].clear()
    with other.taken() as theirs, one.taken() as mine:
        assert (theirs, mine) == (False, True)
    one.end()
    with other.taken() as theirs, one.taken() as mine:
        assert (theirs, mine) == (True, False)


def test_a_turn_that_could_not_be_looked_at_again_is_ours_the_next_time(
    faulty_s3: FaultyS3, place: ObjectPath
) -> None:
    one = ObjectTurns(place)
    with one.taken() as mine:
        assert mine
    one.end()
    faulty_s3.always["delete"] = "cut"  # the turn is taken, and those before it cannot be removed
    again = ObjectTurns(place)
    with pytest.raises(OSError, match="turns"), again.taken():
        pass
    faulty_s3.always.clear()
    with again.taken() as mine, one.taken() as theirs:
        assert (mine, theirs) == (True, False)


def test_a_store_that_is_always_busy_is_one_clear_error(faulty_s3: FaultyS3, place: ObjectPath) -> None:
    from headgate.store.folder import open_control_folder

    faulty_s3.always = dict.fromkeys(("get", "put", "claim", "list", "delete"), "busy")
    with pytest.raises(ControlFolderError, match="cannot be used") as refused:
        open_control_folder(str(place))
    assert "word" not in str(refused.value)


def test_a_store_that_does_not_answer_is_given_up_in_time(
    faulty_s3: FaultyS3, place: ObjectPath
) -> None:
    """No request begins that could not end within the patience; how often one is sent shows it."""
    from headgate.store.lease import GONE_S

    assert Patience().in_all_s < GONE_S
    hurried = Patience(connect_s=0.3, request_s=0.3, retries=9, in_all_s=0.9)
    Objects.serve(place.root, _opened(place.root, hurried), hurried)
    faulty_s3.always = dict.fromkeys(("get", "put", "claim", "list", "delete"), "hang")
    store, at = store_of(place), place / "x.json"
    asks: dict[str, Callable[[], object]] = {
        "get": lambda: store.get(at),
        "put": lambda: store.put(at, b"{}"),
        "claim": lambda: store.create(at, b"{}"),
    }
    for kind, ask in asks.items():
        with pytest.raises(OSError, match=r"x\.json"):
            ask()
        assert 1 <= faulty_s3.seen.count(kind) <= 3, kind
