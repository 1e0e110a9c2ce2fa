"""What a site does by the clock: decide, exchange with coordinators, leave a status behind.

Deciding never waits for the network: exchanges have a thread for each coordinator. One that is gone is
asked again after a pause that doubles up to ten seconds; the site goes on with what it knows itself
and takes up its coordinator's word again with the first answer.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from headgate.errors import BadArgument, CoordinatorGone, CoordinatorRefused
from headgate.sites.allocator import CoordinatorUpdate, SiteAllocator
from headgate.sites.history import History
from headgate.sites.wire.protocol import MAX_SIC, QueryReport, Reply
from headgate.store.folder import read_json, write_json

__all__ = ["Exchange", "Ticker"]

log = logging.getLogger("headgate")

#: Shorter than a lease, so that nobody takes the site for gone when its coordinator is back.
_LONGEST_PAUSE_S = 10.0
#: And the longest that a coordinator may ask for: it can be restarted with other settings.
_LONGEST_WAIT_S = 60.0


class Client(Protocol):
    """A site's side of the exchange with one coordinator."""

    def exchange(self, queries: Mapping[str, QueryReport]) -> Reply:
        """Report, and hear."""

    def leave(self, queries: Iterable[str] | None = None) -> None:
        """Say goodbye."""

    def skip(self) -> None:
        """Go on with numbers far above those so far."""

    def close(self) -> None:
        """Let go of what it holds."""


class Exchange:
    """The site's word with one coordinator, which speaks for some of its queries or for all."""

    def __init__(
        self,
        shares: SiteAllocator,
        lock: threading.RLock,
        client: Client,
        every_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shares, self._lock, self._client = shares, lock, client
        self._every, self._clock = every_s, clock
        #: The queries that this coordinator speaks for; None for all.
        self.queries: set[str] | None = None
        self._pause = every_s
        self._said = self._code = ""
        self._refused: dict[str, str] = {}
        self._unreported: dict[str, str] = {}
        #: What this coordinator was told of, and not yet that it has ended here.
        self._hosted: set[str] = set()
        self.state = "joining"

    def once(self) -> float:
        """One exchange; how long to wait before the next."""
        with self._lock:
            report = self._report()
            ended = self._hosted.difference(self._shares.queries)
        try:
            if ended:
                self._client.leave(sorted(ended))
                self._hosted -= ended
            self._hosted.update(report)
            # An empty report too: it keeps the site's name, and shows that the coordinator is there.
            reply = self._client.exchange(report)
        except CoordinatorRefused as error:
            self._say("refused", error.code, str(error))
            if error.code == "replayed":  # the file with the numbers is an old one
                self._client.skip()
            return max(min(_LONGEST_WAIT_S, error.retry_after_s or 0.0), self._longer())
        except (CoordinatorGone, OSError) as error:
            gone = isinstance(error, CoordinatorGone)
            self._say("gone" if gone else "failed", type(error).__name__, str(error))
            return self._longer()
        self._pause = self._every
        self._say("in touch")
        self._take(reply, report)
        return self._every

    def _longer(self) -> float:
        self._pause = min(_LONGEST_PAUSE_S, max(self._every, 2.0 * self._pause))
        return self._pause

    def _report(self) -> dict[str, QueryReport]:
        now, shares = self._clock(), self._shares
        found = {}
        for query, view in shares.views(now).items():
            if self.queries is not None and query not in self.queries:
                continue
            root = shares.measures_results(query)
            result = shares.result_sic(query, now)
            try:
                found[query] = QueryReport(
                    sources=shares.sources_of(query),
                    of=shares.declared(query),
                    root=root,
                    result_sic=None if result is None else min(MAX_SIC, result),
                    accepted_sic=min(MAX_SIC, view.accepted),
                    weight=view.weight,
                    priority=shares.priority(query),
                )
            except BadArgument as error:  # what is wrong with one query is not the others' affair
                if self._unreported.get(query) != str(error):
                    self._unreported[query] = str(error)
                    log.warning("query %r cannot be reported: %s", query, error)
        return found

    def _take(self, reply: Reply, sent: Mapping[str, QueryReport]) -> None:
        now = self._clock()
        told = {
            query: CoordinatorUpdate(
                word.sic, max(1, word.sources), now - (word.age_s or 0.0), word.accepted, now
            )
            for query, word in reply.queries.items()
        }
        with self._lock:
            self._shares.apply_updates(told)
            for query, word in reply.queries.items():
                if self._is_as_sent(query, sent):
                    self._shares.declare(query, weight=word.weight, priority=word.priority)
        for query, reason in reply.refused.items():
            if self._refused.get(query) != reason:
                log.warning("query %r was refused by its coordinator: %s", query, reason)
        self._refused = dict(reply.refused)

    def _is_as_sent(self, query: str, sent: Mapping[str, QueryReport]) -> bool:
        """Whether a root elsewhere has the last word: nobody here has said otherwise in the meantime."""
        shares, said = self._shares, sent.get(query)
        if said is None or query not in shares.queries or shares.measures_results(query):
            return False
        return (said.weight, said.priority) == (shares.weight(query), shares.priority(query))

    @property
    def refused(self) -> dict[str, str]:
        """Queries that the coordinator does not take, and why."""
        return dict(self._refused)

    @property
    def said(self) -> str:
        """Why the coordinator is gone, or refuses; empty while it answers."""
        return self._said

    def _say(self, state: str, code: str = "", why: str = "") -> None:
        """Each change once: a coordinator may be gone for hours, and its words hold numbers."""
        self._said = why
        if (state, code) == (self.state, self._code):
            return
        site = self._shares.settings.name
        if state != "in touch":
            what = {"refused": "refuses site", "gone": "is gone for site"}.get(
                state, "cannot be told of"
            )
            log.warning("the coordinator %s %r, which goes on with its own view: %s", what, site, why)
        elif self.state not in ("joining", "in touch"):
            log.warning("the coordinator is back for site %r", site)
        self.state, self._code = state, code

    def goodbye(self) -> None:
        """The site ends."""
        try:
            self._client.leave(None)
        except (CoordinatorGone, CoordinatorRefused) as error:
            log.info("the coordinator was not told that this site ends: %s", error)
        finally:
            self._client.close()


class Ticker:
    """The threads of a site; `at_work` says which of its streams are processing a batch."""

    def __init__(
        self,
        shares: SiteAllocator,
        lock: threading.RLock,
        folder: Path,
        exchanges: list[Exchange],
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        at_work: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._shares, self._lock, self._folder = shares, lock, folder
        self._exchanges, self._clock, self._wall = exchanges, clock, wall
        self._at_work = at_work
        self._history = History(folder / "sic.jsonl")
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
        """End, and tell the coordinators."""
        if self._ended.is_set():
            return
        self._ended.set()
        for thread in self._threads:
            thread.join(timeout=5.0)
        for exchange in self._exchanges:
            exchange.goodbye()
        self._guarded(self.leave_status)

    def _tick(self) -> None:
        interval = self._shares.settings.interval_s
        while not self._ended.wait(interval):
            self._guarded(self.once)

    def once(self) -> None:
        """One shedding interval."""
        busy: list[str] = []
        with contextlib.suppress(Exception):  # a stream may end while it is asked
            busy = list(self._at_work())
        with self._lock:
            now = self._clock()
            self._shares.at_work(busy, now)
            self._shares.decide(now)
        self.leave_status()

    def _talk(self, exchange: Exchange) -> None:
        pause = 0.0
        while not self._ended.wait(pause):
            pause = self._shares.settings.interval_s
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
        """Each fault once; the name of a file that differs every time does not make it another."""
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        kind = f"{type(error).__name__} {error.errno}" if isinstance(error, OSError) else text
        if kind != self._faults.get(where):
            self._faults[where] = kind
            log.warning("site %r failed at a step and goes on: %s", self._shares.settings.name, text)
            log.debug("details", exc_info=True)

    def status(self) -> dict[str, Any]:
        """The site as of now, as JSON."""
        with self._lock:
            now, shares = self._clock(), self._shares
            return {
                "site": shares.settings.name,
                "at": self._wall(),
                "shedding": shares.settings.shedding,
                "stopped": self._ended.is_set(),
                "overloaded": shares.overloaded,
                "level": _finite(shares.level),
                "cores": shares.settings.cores,
                "rows_per_s": shares.settings.rows_per_s,
                "capacity": shares.capacity(now),
                "trim": shares.trim,
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
                        "root": shares.measures_results(query),
                        "refused": next(
                            filter(None, (e.refused.get(query) for e in self._exchanges)), None
                        ),
                    }
                    for query, view in shares.views(now).items()
                },
                "gates": {
                    name: {
                        "query": gate.query,
                        "source": gate.source,
                        "stream": gate.stream,
                        "keep": shares.rate(name, now),
                        "sic": gate.sic,
                        "rows_per_s": gate.offered.per_second(now),
                    }
                    for name, gate in shares.gates.items()
                },
                "streams": {
                    name: {
                        "duration_s": stream.duration_s,
                        "hold_s": stream.hold_s,
                        "lateness": stream.lateness,
                        "fixed_cores": stream.fixed_per_second,
                        "per_row_s": stream.per_row_s if stream.known else None,
                    }
                    for name, stream in shares.streams.items()
                },
            }

    def leave_status(self) -> None:
        """For whoever looks, and for a restart."""
        status = self.status()
        with self._lock:
            learned = self._shares.snapshot()
        write_json(self._folder / "status.json", status | {"learned": learned}, lasting=False)
        self._history.add(status)

    def _restore(self) -> None:
        try:
            value = read_json(self._folder / "status.json")
            if isinstance(value, dict) and "learned" in value:
                self._shares.remember(value["learned"])
        except (OSError, ValueError, KeyError, TypeError, BadArgument) as error:
            log.warning("what the site had learned cannot be read (%s); starting afresh", error)


def _finite(value: float) -> float | None:
    return value if value == value and abs(value) != float("inf") else None
