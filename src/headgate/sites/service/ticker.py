"""What a site does by the clock: decide, exchange with coordinators, leave a status behind.

Deciding never waits for the network: exchanges have a thread for each coordinator.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from headgate.errors import BadArgument, ControlFolderError
from headgate.sites.service.exchange import Exchange
from headgate.sites.service.history import History
from headgate.sites.service.object_history import ObjectHistory
from headgate.sites.shared import SharedSite
from headgate.store.folder import read_json, write_json
from headgate.store.places.place import Place, asks_server

__all__ = ["Ticker"]

log = logging.getLogger("headgate")

#: How often a status is left in an object store, for people and for a restart.
_STATUS_S = 10.0


class Ticker:
    """The threads of a site; `at_work` says which of its streams are processing a batch."""

    def __init__(
        self,
        site: SharedSite,
        folder: Place,
        exchanges: list[Exchange],
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        at_work: Callable[[], Iterable[str]] = tuple,
        still_ours: Callable[[], bool] = lambda: True,
    ) -> None:
        self._site, self._folder = site, folder
        self._exchanges, self._clock, self._wall = exchanges, clock, wall
        self._at_work = at_work
        self._history = _history_in(folder)
        self._still_ours = still_ours
        #: In an object store a status is a request or two, and left less often.
        self._every_s = _STATUS_S if asks_server(folder) else 0.0
        self._left_at: float | None = None
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self._faults: dict[str, str] = {}
        self._restore()

    def start(self) -> None:
        """Start the threads: one that decides, one for each coordinator."""
        self._thread(self._tick)
        for exchange in self._exchanges:
            self._thread(partial(self._talk, exchange))

    def _thread(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name="headgate-site", daemon=True)
        self._threads.append(thread)
        thread.start()

    def stop(self) -> None:
        """Stop the threads, take leave of the coordinators, and leave a last status behind."""
        if self._ended.is_set():
            return
        self._ended.set()
        for thread in self._threads:
            thread.join(timeout=5.0)
        for exchange in self._exchanges:
            exchange.goodbye()
        self._guarded(self.leave_status)

    def _tick(self) -> None:
        interval = self._site.settings.interval_s
        while not self._ended.wait(interval):
            self._guarded(self.once)

    def once(self) -> None:
        """Decide for one shedding interval, and leave a status behind."""
        busy: list[str] = []
        with contextlib.suppress(Exception):  # a stream may end while it is asked
            busy = list(self._at_work())
        with self._site as allocator:
            now = self._clock()
            allocator.state.at_work(busy, now)
            allocator.decide(now)
        if self._left_at is None or now - self._left_at >= self._every_s:
            self.leave_status()
            self._left_at = now
        if not self._still_ours():
            raise ControlFolderError(
                f"another process runs site {self._site.settings.name!r} with this control store: "
                "stop one of them"
            )

    def _talk(self, exchange: Exchange) -> None:
        pause = 0.0
        while not self._ended.wait(pause):
            pause = self._site.settings.interval_s
            try:
                pause = exchange.once()
                self._faults.pop("talk", None)
            except Exception as error:  # a bug here must not silence the site for good
                self._complain("talk", error)

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
            self._faults.pop("tick", None)
        except Exception as error:
            self._complain("tick", error)

    def _complain(self, where: str, error: Exception) -> None:
        """Log each fault once; one that only names another file each time is the same fault."""
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        kind = f"{type(error).__name__} {error.errno}" if isinstance(error, OSError) else text
        if kind != self._faults.get(where):
            self._faults[where] = kind
            log.warning("site %r failed at a step and goes on: %s", self._site.settings.name, text)
            log.debug("details", exc_info=True)

    def status(self) -> dict[str, Any]:
        """The site as of now, as JSON."""
        settings = self._site.settings
        with self._site as allocator:
            now, state = self._clock(), allocator.state
            return {
                "site": settings.name,
                "at": self._wall(),
                "shedding": settings.shedding,
                "stopped": self._ended.is_set(),
                "overloaded": allocator.overloaded,
                "level": _finite(allocator.level),
                "cores": settings.cores,
                "rows_per_s": settings.rows_per_s,
                "capacity": allocator.capacity(now),
                "trim": allocator.trim,
                "coordinator": [exchange.state for exchange in self._exchanges],
                "coordinator_said": [exchange.said for exchange in self._exchanges],
                "queries": {
                    query: {
                        "sic": _finite(view.sic),
                        "told_by": view.told_by,
                        "accepted": view.accepted,
                        "share": view.share,
                        "weight": view.weight,
                        "sources": view.sources,
                        "root": state.measures_results(query),
                        "refused": next(
                            filter(None, (e.refused.get(query) for e in self._exchanges)), None
                        ),
                    }
                    for query, view in state.views(now).items()
                },
                "gates": {
                    name: {
                        "query": gate.query,
                        "source": gate.source,
                        "stream": gate.stream,
                        "keep": allocator.rate(name, now),
                        "sic": gate.sic,
                        "rows_per_s": gate.offered.per_second(now),
                    }
                    for name, gate in state.gates.items()
                },
                "streams": {
                    name: {
                        "duration_s": stream.duration_s,
                        "hold_s": stream.hold_s,
                        "lateness": stream.lateness,
                        "fixed_cores": stream.fixed_per_second,
                        "per_row_s": stream.per_row_s if stream.known else None,
                    }
                    for name, stream in state.streams.items()
                },
            }

    def leave_status(self) -> None:
        """Write the status, for people and for a restart, and a line of the history."""
        status = self.status()
        with self._site as allocator:
            learned = allocator.snapshot()
        write_json(self._folder / "status.json", status | {"learned": learned}, lasting=False)
        self._history.add(status)

    def _restore(self) -> None:
        try:
            value = read_json(self._folder / "status.json")
            if isinstance(value, dict) and "learned" in value:
                with self._site as allocator:
                    allocator.restore(value["learned"])
        except (OSError, ValueError, KeyError, TypeError, BadArgument) as error:
            log.warning("what the site had learned cannot be read (%s); starting afresh", error)


def _history_in(folder: Place) -> History | ObjectHistory:
    if isinstance(folder, Path):
        return History(folder / "sic.jsonl")
    return ObjectHistory(folder / "sic")


def _finite(value: float) -> float | None:
    return value if value == value and abs(value) != float("inf") else None
