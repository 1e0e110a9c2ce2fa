"""The thread that speaks for the queries of one loop in one control folder, and for no others.

Every two seconds it writes one file, whatever the number of gates (`headgate.store.beats`). Besides, it
looks whether another process has taken one of the gates, and gives leases back when a query is over.

All that it writes and reads is in that folder, and whoever asks something of it does not wait for the
folder: where a mount hangs, its own gates fall silent, and those of other folders do not. The thread
begins with the first query to speak for and ends with the last.
"""

from __future__ import annotations

import itertools
import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass

from headgate.spark.loop.fault_log import FaultLog
from headgate.store.beats import Beat, DriverFile
from headgate.store.lease import BEAT_S, Holder, Lease, own_holder, this_process
from headgate.store.places.place import Place, asks_server
from headgate.store.places.stores import store_of
from headgate.store.plans import PlanStore

__all__ = ["Heart", "Key"]

log = logging.getLogger("headgate")

#: A gate, and a query that it is in.
Key = tuple[str, str]

#: In an object store each lease is looked at every so many turns: a look is a request. A batch whose
#: gate another process has is refused by its own worker, whatever is seen here.
_LOOK_TURNS = 10
#: Leases that are looked at, or given back, between two beats, at most.
_AT_ONCE = 64
_PARTS = itertools.count(1)
#: What is counted is never counted again in this process: of a query that begins anew, a worker that saw
#: the same count an hour ago would believe that nobody has spoken since.
_COUNTS = itertools.count(1)


@dataclass
class _Query:
    """A query that the loop steers: the count at which that was last said, and when, by our clock."""

    count: int = 0
    raised_at: float = 0.0

    def beat(self, now: float) -> Beat:
        return Beat(self.count, max(0.0, now - self.raised_at))


@dataclass
class _Pair:
    """A gate in a query, which has reported a batch."""

    lease: Lease
    #: Another process has the lease.
    lost: bool = False


@dataclass(frozen=True)
class _Leave:
    """Leases to be given back: those of this run (None: of any), which may have failed."""

    leases: deque[Lease]
    run: str | None
    failed: bool
    done: threading.Event


class Heart:
    """The queries of one loop in one control folder, and its gates in them."""

    def __init__(
        self,
        control: Place,
        going_round: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._control, self._going_round, self._clock = control, going_round, clock
        self._file = DriverFile.of_process(control, this_process().owner)
        self._part = next(_PARTS)
        self._queries: dict[str, _Query] = {}
        self._pairs: dict[Key, _Pair] = {}
        #: Not vouched for: their reports cannot be handled.
        self._silent: dict[Key, _Query] = {}
        self._leaving: deque[_Leave] = deque()
        self._turn = 0
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()  # never held while a file is read or written
        self._woken = threading.Event()
        #: Whatever fails must not end the thread: no gate of the folder would be vouched for any more.
        self.faults = FaultLog(f"the heartbeat in {control}")

    def steer(self, query: str) -> None:
        """Speak for this query from now on; whatever gates it has here are its workers' to find out."""
        with self._lock:
            if query not in self._queries:
                self._queries[query] = _Query(next(_COUNTS), self._clock())
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="headgate-heartbeats", daemon=True
                )
                self._thread.start()

    def meet(self, key: Key) -> None:
        """A batch of the query came through this gate: it has a lease, which is to be ours."""
        if key not in self._pairs:
            with self._lock:
                self._pairs.setdefault(key, _Pair(PlanStore(self._control, *key).lease))

    def silence(self, key: Key, silent: bool) -> None:
        """Do not vouch for it, or do so again."""
        with self._lock:
            if not silent:
                self._silent.pop(key, None)
            elif key not in self._silent:
                now = self._queries.get(key[1], _Query(0, self._clock()))
                self._silent[key] = _Query(now.count, now.raised_at)

    def lost(self, key: Key) -> bool:
        """Whether another process steers it now."""
        with self._lock:
            return key in self._pairs and self._pairs[key].lost

    def leave(
        self, query: str | None, run: str | None, failed: bool = False, gates: Collection[str] = ()
    ) -> threading.Event:
        """Give the leases of a query (None: of all) back; set when that is done.

        Where no gate of it has reported anything, those of all `gates`: a query that fails in its first
        batch has begun leases, too.
        """
        done = threading.Event()
        with self._lock:
            queries = [query] if query is not None else [*self._queries]
            keys = [key for one in queries for key in self._keys(one, gates)]
            pairs = [self._pairs.pop(key, None) for key in keys]
            leases = [
                PlanStore(self._control, *key).lease if pair is None else pair.lease
                for key, pair in zip(keys, pairs, strict=True)
            ]
            for one in queries:
                self._queries.pop(one, None)
            self._silent = {key: of for key, of in self._silent.items() if key[1] not in queries}
            if self._thread is None or not (leases or not self._queries):
                done.set()
            else:
                self._leaving.append(_Leave(deque(leases), run, failed, done))
                self._woken.set()
        return done

    def _keys(self, query: str, gates: Collection[str]) -> list[Key]:
        met = [key for key in self._pairs if key[1] == query]
        return met or ([(gate, query) for gate in gates] if query in self._queries else [])

    def steers(self, query: str | None) -> bool:
        """Whether there is anything to speak for, in this query (None: in any)."""
        with self._lock:
            return bool(self._queries) if query is None else query in self._queries

    def queries(self) -> set[str]:
        """What is spoken for."""
        with self._lock:
            return set(self._queries)

    # The thread.

    def _run(self) -> None:
        beaten = -float("inf")
        while True:
            if not self._leaving:
                self._woken.wait(max(0.0, BEAT_S - (self._clock() - beaten)))
            self._woken.clear()
            if self._leaving:
                self._give_some_back()
            with self._lock:
                if not self._queries and not self._leaving:
                    self._thread = None
                    return
            if self._clock() - beaten >= BEAT_S and self._going_round():
                beaten = self._clock()
                self.faults.do("a heartbeat", self._beat)
                self.faults.do("looking at leases", self._look)
            elif self._clock() - beaten >= BEAT_S:
                beaten = self._clock()

    def _beat(self) -> None:
        now = self._clock()
        with self._lock:
            for query in self._queries.values():
                query.count, query.raised_at = next(_COUNTS), now
            queries = {name: query.beat(now) for name, query in self._queries.items()}
            silent = {(key[1], key[0]): of.beat(now) for key, of in self._silent.items()}
        if queries:
            self._file.say(self._part, queries, silent)

    def _look(self) -> None:
        """Who has the leases of gates that have reported: all of them in some turns."""
        with self._lock:
            pairs = list(self._pairs.items())
        # The next beat waits for this: a mount may take a while for each of hundreds.
        every = max(_LOOK_TURNS if asks_server(self._control) else 1, -(-len(pairs) // _AT_ONCE))
        pairs = pairs[self._turn % every :: every]
        me = this_process()
        try:
            found = store_of(self._control).get_all([pair.lease.place for _, pair in pairs])
        finally:  # where some cannot be read, the others have their turn
            self._turn += 1
        for (key, pair), held in zip(pairs, found, strict=True):
            holder = own_holder(held)
            lost = holder is not None and holder.owner != me.owner and not _free(holder)
            if lost and not pair.lost:
                log.error(
                    "gate %r of query %s is steered by another process now: this one's query ends with "
                    "its next batch",
                    *key,
                )
            pair.lost = lost  # perhaps the other one has ended, and our workers took it up again

    def _give_some_back(self) -> None:
        """As many as one turn may take: beats go on between."""
        leave = self._leaving[0]
        some = [leave.leases.popleft() for _ in range(min(_AT_ONCE, len(leave.leases)))]

        def give_back() -> None:
            store = store_of(self._control)
            found = store.get_all([lease.place for lease in some])
            returned = [
                (lease.place, lease.returned(held, this_process(), leave.run, leave.failed))
                for lease, held in zip(some, found, strict=True)
            ]
            store.put_all(
                [(at, json.dumps(asdict(h)).encode()) for at, h in returned if h is not None],
                lasting=False,
            )

        self.faults.do("giving leases back", give_back)
        if leave.leases:
            return
        with self._lock:
            last = not self._queries and len(self._leaving) == 1
        if last:  # before whoever waits for it ends the process
            self.faults.do("taking the driver's word back", lambda: self._file.withdraw(self._part))
        with self._lock:
            self._leaving.popleft()
        leave.done.set()


def _free(holder: Holder) -> bool:
    return holder.released or holder.surely_gone()
