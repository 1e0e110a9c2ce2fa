"""The control loop of a session: hears of finished batches, and has each gate decide.

Two ways of hearing. The listener is prompt, but Spark drops events when a listener is slow, so it
only puts them on a queue. A thread takes them off, and besides asks the queries themselves for their
recent progress: every second (less often where they are many) for what the listener did not bring,
before a report whose predecessor is missing, when a query ends, and when the process ends, so that a
short job's last batches are in the ledger too.

The loop reads and writes no control folder: what it hears it leaves for the folder's own worker
(`headgate.spark.loop.folder_worker`), so that a folder that hangs is its own gates' problem alone.

Over Spark Connect there is only the second way, five times a second: a Connect listener runs in a
thread that keeps the process from ending (seen on 4.3.0).
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, TypeVar

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headgate.errors import BadArgument
from headgate.run.report import Report
from headgate.run.spec import Spec
from headgate.spark.checkpoint import location_of, sink_described
from headgate.spark.loop.batch_facts import BatchFacts
from headgate.spark.loop.batch_tallies import Tally
from headgate.spark.loop.fault_log import FaultLog
from headgate.spark.loop.folders import Folders
from headgate.spark.loop.kinds import reports_of_all_kinds
from headgate.spark.loop.progress import Listener, last_batch, recent_reports
from headgate.spark.loop.specs import Specs
from headgate.spark.session import is_connect
from headgate.spark.worker_errors import said_by_worker
from headgate.store.places.place import Place

__all__ = ["ControlLoop"]

log = logging.getLogger("headgate")

#: A loop that has not gone round for so long is stuck, and its gates must not be told that it lives; nor
#: those of a folder whose worker has been at one thing for so long.
STUCK_S = 60.0
#: However many queries there are, each is asked so often.
_POLL_AT_MOST_S = 15.0
#: How long a call waits for the folders in which a gate of its name may just be opening.
_OPENING_S = 5.0

Step = Callable[[], object]
_S = TypeVar("_S", bound=Spec)


class ControlLoop:
    """One for each Spark session; made by the first gate in it, and ended with the process."""

    _of_session: ClassVar[dict[int, tuple[SparkSession, ControlLoop]]] = {}
    _making: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        connect = is_connect(spark)
        self._poll_s = 0.2 if connect else 1.0
        #: The share of its time that the loop asks queries; over Connect nobody else tells it anything.
        self._poll_share = 0.5 if connect else 0.1
        # No SimpleQueue: one whose item another thread takes may wait for ever, whatever its timeout
        # (CPython 3.11), and `drain` takes items.
        self._steps: queue.Queue[Step] = queue.Queue()
        self.specs = Specs()
        self._tallies: dict[tuple[str, str, int], Tally] = {}
        self._facts = BatchFacts(spark)
        #: Queries that have a gate, or may have one; the handle outlives the query.
        self._queries: dict[str, StreamingQuery] = {}
        self._seen: dict[str, int] = {}
        #: Runs that ended, latest last: their reports may still come by the listener.
        self._over: deque[str] = deque(maxlen=1000)
        self._lock = threading.RLock()  # never held while a control folder is waited for
        self._faults = FaultLog("the control loop")
        self._ended = threading.Event()
        self._was_well = time.monotonic()
        if not connect:
            spark.streams.addListener(self._listener())
        self._thread = threading.Thread(target=self._run, name="headgate-loop", daemon=True)
        self.folders = Folders(self.specs, self._going_round)
        self._thread.start()
        atexit.register(self.end)

    @classmethod
    def of(cls, spark: SparkSession) -> ControlLoop:
        """The one control loop of this Spark session."""
        with cls._making:
            held = cls._of_session.get(id(spark))
            if held is None or held[0] is not spark:
                held = (spark, cls(spark))
                cls._of_session[id(spark)] = held
            return held[1]

    def register(self, spec: _S, inside: str | None = None) -> _S:
        """A gate was built: from now on its queries are steered. Returns it as the loop knows it.

        While a query runs behind a gate, only that query may change what the gate is (`inside`, from a
        ``foreachBatch``).
        """
        self.refuse_another(spec, inside)
        worker = None
        with self._lock:
            spec = self.specs.add(spec, self.folders.in_use())
            self.folders.add(spec)
            for query in self._queries:
                self.folders.steer(query)
            if inside is not None and self.folders.serves(spec.name, inside):
                worker = self.folders.exchange(spec, inside)
        if worker is not None:
            worker.wait(_OPENING_S)  # its batch is about to ask for a plan
        return spec

    def refuse_another(self, spec: Spec, inside: str | None = None) -> None:
        """While a query runs behind a gate, its name is not given to one that differs.

        Each would follow its own code; but what people read and set under the name is one gate.
        """
        with self._lock:
            workers = self.folders.with_gate(spec.name)
            if not workers:
                return  # nobody has built one of the name: there is nothing to ask Spark
            self._catch_up()  # forget queries that have ended
        for worker in workers:
            worker.wait(_OPENING_S)
        for worker in workers:
            for (name, query), running in worker.running().items():
                if name == spec.name and query != inside and not running.same_as(spec):
                    raise BadArgument(
                        f"gate {name!r} is running in query {query}, and is another one there "
                        f"(control={str(running.control)!r}, or other settings, policy or columns): "
                        "give this one another name, or stop that query first"
                    )

    def _going_round(self, control: Place | None = None) -> bool:
        """Whether the loop's thread is well, and Spark answers it, and the folder is not stuck.

        A heartbeat without that would keep old plans alive, and vouch for a Spark that is gone.
        """
        if control is not None and self.folders.stuck_s(control) >= STUCK_S:
            return False
        return self._thread.is_alive() and time.monotonic() - self._was_well < STUCK_S

    def tally(self, gate: str, query: str, batch: int, tally: Tally) -> None:
        """A gate inside ``foreachBatch`` has counted a batch that Spark will report."""
        with self._lock:
            self._tallies[(gate, query, batch)] = tally

    def drain(self) -> None:
        """Return when every batch that the session's queries have reported is in the ledger.

        A control folder that hangs is not waited for any longer than it takes to know that.
        """
        with self._lock:
            self._work_off()
            self._catch_up()
            workers = self.folders.all()
        for worker in workers:
            if not worker.wait():
                worker.tell_if_it_hangs()

    def _listener(self) -> Listener:
        def post(act: Callable[..., object]) -> Callable[..., None]:
            return lambda *event: self.post(partial(act, *event))

        return Listener(post(self.on_started), post(self.on_progress), post(self.on_terminated))

    # What the listener posts: run by the thread, under the lock.

    def post(self, step: Step) -> None:
        """Have the thread run this."""
        self._steps.put(step)

    def on_started(self, query: str) -> None:
        """Take up a query from before a restart where it stood, before its first batch."""
        if query not in self._queries:
            found = self._spark.streams.get(query)
            if found is None:
                return
            self._queries[query] = found
        self.folders.steer(query)
        handle = self._queries[query]
        self.folders.take_up(query, location_of(handle), sink_described(handle))

    def on_progress(self, text: str) -> None:
        """Let every gate of the query decide; first on the batches before it that nobody told of."""
        progress = json.loads(text)
        query, batch = str(progress["id"]), int(progress["batchId"])
        handle = self._queries.get(query)
        if handle is not None and batch > self._seen.get(query, -1) + 1:
            self._faults.do("asking for progress", partial(self._read_recent, query, handle))
        self._take_up(progress)

    def _take_up(self, progress: dict[str, Any]) -> None:
        """A batch's report: pass it on to the folders of its gates, if it is new."""
        if "addBatch" not in progress["durationMs"]:
            return  # a trigger that ran nothing bears the number of the batch to come
        query, batch, run = str(progress["id"]), int(progress["batchId"]), str(progress["runId"])
        if run in self._over or batch <= self._seen.get(query, -1):
            return  # its last word was read when it ended; or it was told by the other way, too
        self._seen[query] = batch
        told: set[str] | None = set()  # whose reports went on; None: all that there are
        try:
            reports, whole = reports_of_all_kinds(progress)
            reports |= self._tallied(query, batch, progress)
            specs = {name: self.specs.of(name, report.spec) for name, report in reports.items()}
            reports = self._facts.added(reports, specs, run, self._queries.get(query))
            self.folders.pass_on(query, batch, reports, specs)
            told = None if whole else set(reports)
        finally:
            self.folders.heard(query, told)

    def _tallied(self, query: str, batch: int, progress: dict[str, Any]) -> dict[str, Report]:
        """The reports of gates inside ``foreachBatch``; a replayed batch was tallied again."""
        found: dict[str, Report] = {}
        for key in [k for k in self._tallies if k[1] == query and k[2] <= batch]:
            tally = self._tallies.pop(key)
            report = tally.report(progress) if key[2] == batch else None
            if report is not None:
                found[key[0]] = report
        return found

    def on_terminated(self, query: str, run: str | None = None) -> None:
        """The last word of a query that ended."""
        handle = self._queries.get(query)
        if handle is not None and run is not None and str(handle.runId) != run:
            return  # the end of an earlier run, told late: this one goes on
        self._queries.pop(query, None)
        failed = False
        if handle is not None:
            self._read_recent(query, handle)
            with contextlib.suppress(Exception):  # the session may be gone
                error = handle.exception()
                failed = error is not None
                if (said := said_by_worker(error)) is not None:
                    log.error("query %s ended: %s", query, said)
            self._over.append(str(handle.runId))
            self._facts.forget(str(handle.runId))
        self._seen.pop(query, None)
        for tally in [k for k in self._tallies if k[1] == query]:
            del self._tallies[tally]
        self.folders.end(query, None if handle is None else str(handle.runId), failed)

    # The thread.

    def _run(self) -> None:
        polled = asked = took_s = 0.0
        while not self._ended.is_set():
            with contextlib.suppress(queue.Empty):
                self._do("a report", self._steps.get(timeout=self._poll_s / 2))
            now = time.monotonic()
            if now - polled >= self._poll_s:
                polled = now
                self._look_around()
            # Each query is asked, which takes some milliseconds: a hundred must not keep the loop, and
            # Spark's driver, busy with nothing else.
            if now - asked >= min(_POLL_AT_MOST_S, max(self._poll_s, took_s / self._poll_share)):
                asked = now
                self._do("asking for progress", self._catch_up)
                took_s = time.monotonic() - now

    def _do(self, what: str, step: Step) -> None:
        """A fault must not end the loop (the gates would fail open or closed); say each once."""
        with self._lock:
            self._faults.do(what, step)

    def _look_around(self) -> None:
        for worker in self.folders.all():
            worker.tell_if_it_hangs()
            worker.refresh()

    def _work_off(self) -> None:
        while True:
            try:
                step = self._steps.get_nowait()
            except queue.Empty:
                return
            self._do("a report", step)

    def _catch_up(self) -> None:
        """Handle what the queries report and the listener did not bring."""
        if not self.specs:
            self._was_well = time.monotonic()
            return
        active = {str(handle.id): handle for handle in self._spark.streams.active}
        self._was_well = time.monotonic()
        for query, handle in active.items():
            held = self._queries.get(query)
            if held is not None and held.runId != handle.runId:
                self.on_terminated(query)  # stopped and started again since the last look
            if query not in self._queries:
                self._queries[query] = handle
                self.on_started(query)
            self.folders.steer(query)
        for query, handle in list(self._queries.items()):
            if query in active:
                self._read_recent(query, handle)
            else:
                self.on_terminated(query)
        # One that was over before it was looked at, and whose reports came by the listener all the same.
        for query in self.folders.queries().difference(active):
            self.folders.end(query)

    def _read_recent(self, query: str, handle: StreamingQuery) -> None:
        if last_batch(handle) > self._seen.get(query, -1):
            for report in recent_reports(handle):
                self._take_up(json.loads(report))

    def end(self) -> None:
        """Read the last reports, and no more: the process ends, or nobody needs the loop any longer."""
        atexit.unregister(self.end)
        self._ended.set()
        self._faults.quiet = True
        # The session may be gone already, and then there is nothing left to ask.
        self._faults.do("the last reports", self.drain)
        self.folders.stop()
