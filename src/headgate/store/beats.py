"""What a driver says of its queries: one file for all of its gates in a control store.

A driver with hundreds of gates that wrote a heartbeat into each lease would make hundreds of requests
every two seconds, one after another, and workers that wait for one would take it for dead. So a lease
says who has it (`headgate.store.lease`), and whether that one lives is said once for all of a query's
gates, in ``drivers/<owner>.json``: a count for each query that goes up with each beat, and the gates
that are not vouched for, with the count at which they fell silent.

Counts carry their age, in seconds by the driver's own clock when the file was written: a worker that has
never seen the driver before adds that to the file's age by the store's.

Read by Spark's Python workers once a batch, so this module imports little.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from headgate.store.folder import unclaim, write_json
from headgate.store.places.contract import Held
from headgate.store.places.place import Place
from headgate.store.places.stores import store_of
from headgate.store.stored_json import parsed_json

__all__ = ["Beat", "DriverBeats", "DriverFile", "beats_place", "heard_in", "heard_of", "may_be_owner"]

_VERSION = 1
#: What killed drivers left goes after so long.
_KEPT_S = 30 * 86_400.0


@dataclass(frozen=True)
class Beat:
    """How often a driver has said that it lives, and how long ago the last time was by its clock."""

    count: int
    age_s: float = 0.0


@dataclass(frozen=True)
class DriverBeats:
    """What a driver's file says, and when it was written by the store's clock."""

    queries: Mapping[str, Beat]
    #: Gates whose batches the driver cannot take up, by query and gate.
    silent: Mapping[tuple[str, str], Beat]
    written_at: float

    def of(self, gate: str, query: str) -> Beat | None:
        """What it says of a gate in a query; None where it says nothing."""
        return self.silent.get((query, gate)) or self.queries.get(query)


def may_be_owner(name: str) -> bool:
    """Whether a driver may be called so: its file is named after it, and is beside the others'."""
    return bool(name) and "/" not in name


def beats_place(control: Place, owner: str) -> Place:
    """Where the driver of this name says that it lives."""
    return control / "drivers" / f"{owner}.json"


def heard_in(held: Held | None) -> DriverBeats | None:
    """What a driver's file says; None where there is none, or it cannot be read.

    Then a lease is as alive as it says itself: the driver is of an earlier version.
    """
    try:
        value = None if held is None else parsed_json(held.data)
        if held is None or not isinstance(value, dict) or value.get("v") != _VERSION:
            return None
        queries = {str(query): Beat(int(b[0]), float(b[1])) for query, b in value["queries"].items()}
        silent = {
            (str(query), str(gate)): Beat(int(beat[0]), float(beat[1]))
            for query, gates in value["silent"].items()
            for gate, beat in gates.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        return None
    return DriverBeats(queries, silent, held.written_at)


def heard_of(control: Place, owner: str) -> DriverBeats | None:
    """What the driver of this name says now."""
    place = beats_place(control, owner)
    return heard_in(store_of(place).get(place))


class DriverFile:
    """This process's own file in one control store; several sessions may have gates there."""

    #: As long as somebody speaks there: a notebook may see many control stores.
    _of_process: ClassVar[WeakValueDictionary[Place, DriverFile]] = WeakValueDictionary()
    _making: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, control: Place, owner: str) -> None:
        self._control, self.place = control, beats_place(control, owner)
        self._lock = threading.Lock()  # held while the file is written: whoever waits is of this folder
        self._parts: dict[int, tuple[Mapping[str, Beat], Mapping[tuple[str, str], Beat]]] = {}
        self._tidied = False

    @classmethod
    def of_process(cls, control: Place, owner: str) -> DriverFile:
        """The one of this process in this store."""
        with cls._making:
            found = cls._of_process.get(control)
            if found is None or found.place != beats_place(control, owner):
                found = cls._of_process[control] = cls(control, owner)
            return found

    def say(
        self, part: int, queries: Mapping[str, Beat], silent: Mapping[tuple[str, str], Beat]
    ) -> None:
        """Write what this part of the process vouches for, with what the others do."""
        with self._lock:
            self._parts[part] = queries, silent
            self._write()
            if not self._tidied:
                self._tidied = True
                self._forget_the_dead()

    def withdraw(self, part: int) -> None:
        """This part has nothing to vouch for any more; the file goes with the last."""
        with self._lock:
            self._parts.pop(part, None)
            if self._parts:
                self._write()
            else:
                unclaim(self.place)

    def _write(self) -> None:
        queries: dict[str, list[float]] = {}
        silent: dict[str, dict[str, list[float]]] = {}
        for of_queries, of_silent in self._parts.values():
            queries |= {query: _pair(beat) for query, beat in of_queries.items()}
            for (query, gate), beat in of_silent.items():
                silent.setdefault(query, {})[gate] = _pair(beat)
        value: dict[str, Any] = {"v": _VERSION, "queries": queries, "silent": silent}
        # Written again with the next beat: no disk is waited for.
        write_json(self.place, value, lasting=False)

    def _forget_the_dead(self) -> None:
        """Remove what drivers left that were killed long ago."""
        with contextlib.suppress(OSError):
            entries = store_of(self.place).entries(self.place.parent)
            # By the store's clock, and nobody else's: ours has just been written.
            now = max((e.written_at for e in entries if e.name == self.place.name), default=0.0)
            for old in entries:
                if not old.is_folder and now - old.written_at > _KEPT_S:
                    unclaim(self.place.parent / old.name)


def _pair(beat: Beat) -> list[float]:
    return [beat.count, round(beat.age_s, 1)]
