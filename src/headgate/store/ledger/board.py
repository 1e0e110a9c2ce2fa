"""How all gates of one driver stand, in one file: what ``headgate status`` reads of a store with many.

To say what a gate does is a dozen reads, and those of five hundred gates in an object store would be
five thousand requests. So each driver writes every few seconds what its own gates do, if they have done
anything, into ``boards/<owner>.json.gz``. Nothing is decided by it, and it may be some seconds old.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headgate.store.beats import DriverBeats, beats_place, heard_in
from headgate.store.folder import unclaim
from headgate.store.lease import this_process
from headgate.store.ledger.parts import DAMAGE
from headgate.store.places.contract import Held
from headgate.store.places.place import Place
from headgate.store.places.stores import store_of

__all__ = ["Board", "Key", "Told", "boards_in"]

#: A gate, and a query that it is in.
Key = tuple[str, str]

_VERSION = 1
#: It is written at most so often.
EVERY_S = 5.0
#: Queries that ended and are still shown; the oldest go first.
_MOST_ENDED = 500
#: What a driver left goes after so long.
_KEPT_S = 30 * 86_400.0


class Board:
    """What this process says of its gates in one control store."""

    def __init__(self, control: Place, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Several sessions of a process have each their own: their queries differ.
        self._at: Place = control / "boards" / f"{this_process().owner}-{id(self):x}.json.gz"
        self._ended: dict[Key, dict[str, Any]] = {}
        self._told: dict[Key, dict[str, Any]] = {}
        self._written = -float("inf")
        self._tidied = False
        self._lock = threading.Lock()

    @property
    def due(self) -> bool:
        """Whether it is time to say it again."""
        return self._clock() - self._written >= EVERY_S

    def tell(self, standing: Mapping[Key, dict[str, Any]]) -> None:
        """Write how the gates stand, if anything is new."""
        self._written = self._clock()
        with self._lock:
            now = {key: {**found, "ended": False} for key, found in standing.items()}
            if all(self._told.get(key) == found for key, found in now.items()):
                return
            self._told |= now
            for key in now:
                self._ended.pop(key, None)
            self._put()

    def close(self, key: Key, standing: dict[str, Any]) -> None:
        """A query is over: this is how the gate stood then."""
        with self._lock:
            self._told.pop(key, None)
            self._ended.pop(key, None)
            self._ended[key] = {**standing, "ended": True}
            for old in list(self._ended)[:-_MOST_ENDED]:
                del self._ended[old]
            self._put()

    def _put(self) -> None:
        rows = [{"gate": k[0], "query": k[1], **v} for k, v in (self._ended | self._told).items()]
        me = this_process()
        value = {"v": _VERSION, "owner": me.owner, "driver": me.described, "rows": rows}
        store = store_of(self._at)
        data = gzip.compress(json.dumps(value, separators=(",", ":")).encode(), 1, mtime=0)
        store.put(self._at, data, lasting=False)
        if not self._tidied:
            self._tidied = True
            with contextlib.suppress(OSError):
                entries = store.entries(self._at.parent)
                now = max((e.written_at for e in entries if e.name == self._at.name), default=0.0)
                for old in entries:
                    if not old.is_folder and now - old.written_at > _KEPT_S:
                        unclaim(self._at.parent / old.name)


@dataclass(frozen=True)
class Told:
    """What one driver has said of its gates, and its beats where it still has any."""

    driver: str
    rows: list[dict[str, Any]]
    beats: DriverBeats | None


def boards_in(control: Place) -> list[Told]:
    """What all drivers have said of their gates, the latest word last: two ways to a server and back."""
    store = store_of(control)
    names = [e.name for e in store.entries(control / "boards") if e.name.endswith(".json.gz")]
    owners = [name.partition("-")[0] for name in names]
    places = [control / "boards" / name for name in names]
    held = store.get_all([*places, *(beats_place(control, owner) for owner in owners)])
    boards = [(board, beats) for board, beats in zip(held, held[len(names) :], strict=False) if board]
    found = []
    for board, beats in sorted(boards, key=lambda pair: pair[0].written_at):
        value = _board_in(board)
        if value is not None:
            found.append(Told(value["driver"], value["rows"], heard_in(beats)))
    return found


def _board_in(held: Held) -> dict[str, Any] | None:
    try:
        value = json.loads(gzip.decompress(held.data))
    except (*DAMAGE, ValueError):
        return None
    return value if isinstance(value, dict) and value.get("v") == _VERSION else None
