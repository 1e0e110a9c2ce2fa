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

from headgate.store.beats import DriverBeats, beats_place, heard_in, may_be_owner
from headgate.store.folder import unclaim
from headgate.store.lease import this_process
from headgate.store.ledger.parts import DAMAGE
from headgate.store.places.contract import Held
from headgate.store.places.place import Place
from headgate.store.places.stores import store_of
from headgate.store.stored_json import parsed_json

__all__ = ["Board", "Key", "BoardSeen", "boards_in"]

#: A gate, and a query that it is in.
Key = tuple[str, str]

_VERSION = 1
#: It is written at most so often.
EVERY_S = 5.0
#: Queries that ended and are still shown; the oldest go first.
_MOST_ENDED = 500
#: After so long it is written anew, whether anything is new or not: so it is known which drivers live.
_AGAIN_S = 3600.0
#: Of what other drivers left, the latest stay, and for so long. A driver that is killed and started
#: again every minute leaves a board each time, and all of them are read together.
_MOST_LEFT, _KEPT_S = 100, 30 * 86_400.0


class Board:
    """What this process says of its gates in one control store."""

    def __init__(self, control: Place, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Several sessions of a process have each their own: their queries differ.
        self._at: Place = control / "boards" / f"{this_process().owner}-{id(self):x}.json.gz"
        self._ended: dict[Key, dict[str, Any]] = {}
        self._told: dict[Key, dict[str, Any]] = {}
        self._looked = self._put_at = -float("inf")
        #: Whether there is something to say that is not written yet.
        self.behind = False
        self._tidied = False
        self._lock = threading.Lock()

    @property
    def due(self) -> bool:
        """Whether it is time to say it again."""
        return self._clock() - self._looked >= EVERY_S

    def tell(self, standing: Mapping[Key, dict[str, Any]]) -> None:
        """Write how the gates stand, if anything is new, or was and could not be written."""
        self._looked = self._clock()
        with self._lock:
            now = {key: {**found, "ended": False} for key, found in standing.items()}
            if any(self._told.get(key) != found for key, found in now.items()):
                self.behind = True
                self._told |= now
                for key in now:
                    self._ended.pop(key, None)
            if self.behind or (self._told and self._clock() - self._put_at >= _AGAIN_S):
                self._put()

    def close(self, key: Key, standing: dict[str, Any] | None) -> None:
        """A query is over: this is how the gate stood then; None: as it was told last, if it was."""
        with self._lock:
            found = standing or self._told.get(key)
            if found is None:
                return
            self._told.pop(key, None)
            self._ended.pop(key, None)
            self._ended[key] = {**found, "ended": True}
            for old in list(self._ended)[:-_MOST_ENDED]:
                del self._ended[old]
            self.behind = True
            self._put()

    def _put(self) -> None:
        rows = [{"gate": k[0], "query": k[1], **v} for k, v in (self._ended | self._told).items()]
        me = this_process()
        value = {"v": _VERSION, "owner": me.owner, "driver": me.described, "rows": rows}
        store = store_of(self._at)
        data = gzip.compress(json.dumps(value, separators=(",", ":")).encode(), 1, mtime=0)
        store.put(self._at, data, lasting=False)
        self.behind, self._put_at = False, self._clock()
        if not self._tidied:
            self._tidied = True
            with contextlib.suppress(OSError):
                self._tidy()

    def _tidy(self) -> None:
        """Remove what drivers left that are gone."""
        entries = [e for e in store_of(self._at).entries(self._at.parent) if not e.is_folder]
        # By the store's clock, and nobody else's: ours has just been written.
        now = max((e.written_at for e in entries if e.name == self._at.name), default=0.0)
        left = sorted(
            (e for e in entries if now - e.written_at > 2 * _AGAIN_S),
            key=lambda e: e.written_at,
            reverse=True,
        )
        for number, old in enumerate(left):
            if number >= _MOST_LEFT or now - old.written_at > _KEPT_S:
                unclaim(self._at.parent / old.name)


@dataclass(frozen=True)
class BoardSeen:
    """What one driver has said of its gates, and its beats where it still has any."""

    driver: str
    rows: list[dict[str, Any]]
    beats: DriverBeats | None


def boards_in(control: Place) -> list[BoardSeen]:
    """What all drivers have said of their gates, the latest word last: two ways to a server and back."""
    store = store_of(control)
    names = [e.name for e in store.entries(control / "boards") if e.name.endswith(".json.gz")]
    names = [name for name in names if may_be_owner(name.partition("-")[0])]
    owners = [name.partition("-")[0] for name in names]
    places = [control / "boards" / name for name in names]
    held = store.get_all([*places, *(beats_place(control, owner) for owner in owners)])
    boards = [(board, beats) for board, beats in zip(held, held[len(names) :], strict=False) if board]
    found = []
    for board, beats in sorted(boards, key=lambda pair: pair[0].written_at):
        value = _board_in(board)
        if value is not None:
            found.append(BoardSeen(value["driver"], value["rows"], heard_in(beats)))
    return found


def _board_in(held: Held) -> dict[str, Any] | None:
    """What a board says; None where it is none, or one of another version."""
    try:
        value = parsed_json(gzip.decompress(held.data))
        if value["v"] != _VERSION or not may_be_owner(value["owner"]):
            return None
        kinds = {(type(row["gate"]), type(row["query"]), type(row["ended"])) for row in value["rows"]}
    except (*DAMAGE, ValueError, KeyError, TypeError):
        return None
    return dict(value) if isinstance(value.get("driver"), str) and kinds <= {(str, str, bool)} else None
