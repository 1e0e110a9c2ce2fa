"""`check_store`: what every place of a control store must do, whatever it is made of.

Run it over a place of your own store (a mounted volume, an S3-compatible server) before you trust it
with gates: the claims of racing tasks are what replay rests on.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from headgate.store.file_age import age_by_the_store, time_by_the_store
from headgate.store.places.place import Place
from headgate.store.places.stores import store_of

__all__ = ["STORE_CHECKS", "check_store"]

#: Tasks that race for one name: speculation and retries make two or three of them.
_RACERS = 8
#: What may stand in a name besides letters and digits: queries, partitions and people's gates.
_NAMES = ("a.b", "a-b_c", "0", "with space", "ümlaut", "100%25", "a+b&c=d#e", "x" * 200, "..a", "a..")


def _absent(place: Place) -> None:
    store = store_of(place)
    assert store.get(place / "nothing") is None
    assert store.entries(place / "nowhere") == []
    store.delete(place / "nothing")  # and is no error
    store.delete_all(place / "nowhere")


def _put_is_read(place: Place) -> None:
    store, at = store_of(place), place / "deep" / "er" / "value.json"
    for text in (b"", b"{}", b"\x00\xff" * 1000, b"x" * 300_000):
        store.put(at, text, lasting=len(text) % 2 == 0)
        held = store.get(at)
        assert held is not None
        assert held.data == text
    store.delete(at)
    assert store.get(at) is None


def _listing(place: Place) -> None:
    store, at = store_of(place), place / "listed"
    for name in ("b", "a", "c/d", "c/e"):
        store.put(at / name, b"{}")
    found = [(e.name, e.is_folder) for e in store.entries(at)]
    assert found == [("a", False), ("b", False), ("c", True)]
    assert [e.name for e in store.entries(at / "c")] == ["d", "e"]
    assert store.is_used(at)
    store.delete(at / "a")
    assert [e.name for e in store.entries(at)] == ["b", "c"]
    store.delete_all(at)
    assert [e.name for e in store.entries(at) if not e.is_folder] == []
    assert store.get(at / "c" / "d") is None


def _prefixes_are_not_folders(place: Place) -> None:
    """A name that begins like another one's is not below it."""
    store = store_of(place)
    store.put(place / "gate" / "x", b"1")
    store.put(place / "gate2" / "x", b"2")
    assert [e.name for e in store.entries(place / "gate")] == ["x"]
    store.delete_all(place / "gate")
    held = store.get(place / "gate2" / "x")
    assert held is not None
    assert held.data == b"2"


def _odd_names(place: Place) -> None:
    store, at = store_of(place), place / "odd"
    for number, name in enumerate(_NAMES):
        store.put(at / name, str(number).encode())
    assert sorted(e.name for e in store.entries(at)) == sorted(_NAMES)
    for number, name in enumerate(_NAMES):
        held = store.get(at / name)
        assert held is not None
        assert held.data == str(number).encode()


def _created_once(place: Place) -> None:
    store, at = store_of(place), place / "claims" / "one.json"
    assert store.create(at, b'{"n":1}') == b'{"n":1}'
    assert store.create(at, b'{"n":2}') == b'{"n":1}'
    store.delete(at)
    assert store.create(at, b'{"n":3}') == b'{"n":3}'


def _racers_agree(place: Place) -> None:
    store = store_of(place)
    for turn in range(5):
        at = place / "races" / f"{turn}.json"
        values = [json.dumps({"racer": n}).encode() for n in range(_RACERS)]
        with ThreadPoolExecutor(_RACERS) as pool:
            agreed = list(pool.map(lambda value, at=at: store.create(at, value), values))
        held = store.get(at)
        assert held is not None
        assert set(agreed) == {held.data}
        assert held.data in values


def _times_are_the_stores(place: Place) -> None:
    store, at = store_of(place), place / "time.json"
    store.put(at, b"{}")
    assert 0.0 <= age_by_the_store(at) < 60.0
    held = store.get(at)
    assert held is not None
    assert abs(time_by_the_store(place) - held.written_at) < 60.0
    listed = {e.name: e.written_at for e in store.entries(place)}
    assert abs(listed["time.json"] - held.written_at) <= 1.0


def _many_at_once(place: Place) -> None:
    store, at = store_of(place), place / "many"
    store.put_all(((at / f"{number:04d}", str(number).encode()) for number in range(40)), lasting=False)
    found = store.get_all([at / f"{number:04d}" for number in range(41)])
    assert [None if held is None else int(held.data) for held in found] == [*range(40), None]
    store.delete_many([at / f"{number:04d}" for number in range(39)])
    assert [e.name for e in store.entries(at)] == ["0039"]
    store.delete_many([at / "0039"])
    store.delete_many([])
    assert not store.entries(at)


STORE_CHECKS: dict[str, Callable[[Place], None]] = {
    "what is absent is absent": _absent,
    "what was put is read": _put_is_read,
    "listings have what was put, and not what was deleted": _listing,
    "a name that begins like another is not below it": _prefixes_are_not_folders,
    "names may have odd characters": _odd_names,
    "a name is created once": _created_once,
    "of many that create a name all get one value": _racers_agree,
    "times are the store's own": _times_are_the_stores,
    "many are written, read and deleted at once": _many_at_once,
}


def check_store(place: Place) -> None:
    """Run every check below this place; raises AssertionError with the name of the first that fails."""
    for name, check in STORE_CHECKS.items():
        try:
            check(place / name.replace(" ", "-").replace(",", ""))
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error
