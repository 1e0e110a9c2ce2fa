"""The control loop of a session: hears of finished batches, and lets each gate decide.

Two ways of hearing. The listener is prompt, but Spark drops events when a listener is slow, so it
only puts them on a queue. A thread takes them off, and besides asks the queries themselves for their
recent progress: every second for what the listener did not bring, when a query ends, and when the
process ends, so that a short job's last batches are in the ledger too.

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
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headgate.errors import BadArgument
from headgate.run.faults import TOO_MANY_FAULTS
from headgate.run.run import Run
from headgate.run.spec import Spec
from headgate.spark.loop.batch_tallies import Tally
from headgate.spark.loop.heartbeats import Heartbeats
from headgate.spark.loop.kinds import reports_of_all_kinds
from headgate.spark.loop.passes import Passes
from headgate.spark.loop.progress import Listener, last_batch, recent_reports
from headgate.spark.loop.specs import Specs
from headgate.spark.loop.task_times import TaskTimes
from headgate.spark.session import is_connect
from headgate.spark.worker_errors import said_by_worker
from headgate.store.lease import this_process
from headgate.store.plans import PlanStore

__all__ = ["ControlLoop"]

log = logging.getLogger("headgate")

#: A loop that has not gone round for so long is stuck, and its gates must not be told that it lives.
STUCK_S = 60.0

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
        self._steps: queue.SimpleQueue[Step] = queue.SimpleQueue()
        self.specs = Specs()
        self._runs: dict[tuple[str, str], Run] = {}
        self._tallies: dict[tuple[str, str, int], Tally] = {}
        self._times = TaskTimes(spark)
        self._passes = Passes(spark)
        #: Queries that have a gate, or may have one; the handle outlives the query.
        self._queries: dict[str, StreamingQuery] = {}
        self._seen: dict[str, int] = {}
        #: Runs that ended, latest last: their reports may still come by the listener.
        self._over: deque[str] = deque(maxlen=1000)
        self._lock = threading.RLock()
        self._faults: dict[str, str] = {}
        self._failed: dict[tuple[str, str], int] = {}
        self._ended = threading.Event()
        self._was_well = time.monotonic()
        if not connect:
            spark.streams.addListener(self._listener())
        self._thread = threading.Thread(target=self._run, name="headgate-loop", daemon=True)
        self._heartbeats = Heartbeats(self._going_round)
        self._thread.start()
        atexit.register(self.end)

    @classmethod
    def of(cls, spark: SparkSession) -> ControlLoop:
        """The session's loop."""
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
        with self._lock:
            self.refuse_another(spec, inside)
            spec = self.specs.add(spec)
            if inside is not None and (spec.name, inside) in self._runs:
                self._exchange((spec.name, inside), spec)
            for query in self._queries:
                self._steer(query)
            return spec

    def refuse_another(self, spec: Spec, inside: str | None = None) -> None:
        """While a query runs behind a gate, its name is not given to one that differs.

        Each would follow its own code; but what people read and set under the name is one gate.
        """
        with self._lock:
            self._catch_up()  # forget queries that have ended
            for (name, query), run in self._runs.items():
                if name == spec.name and query != inside and run.spec != spec:
                    raise BadArgument(
                        f"gate {name!r} is running in query {query}, and is another one there "
                        f"(control={str(run.spec.control)!r}, or other settings, policy or columns): "
                        "give this one another name, or stop that query first"
                    )

    def _exchange(self, key: tuple[str, str], spec: Spec) -> None:
        """The query turns out to be behind another gate of the name."""
        before = self._runs.pop(key)
        before.finish()
        self._runs[key] = spec.open(key[1])
        self._runs[key].last_batch = before.last_batch

    def _steer(self, query: str) -> None:
        """Beat for every gate that may be in this query.

        Where gates of one name have several control folders, the query's is the one in which its
        workers have begun a lease.
        """
        for name in self.specs:
            named = self.specs.named(name)
            controls = {spec.control for spec in named if spec.steers}
            for control in controls:
                if len(controls) == 1 or self._begun(control, name, query):
                    self._heartbeats.steer(control, name, query)

    @staticmethod
    def _begun(control: Path, name: str, query: str) -> bool:
        holder = PlanStore(control, name, query).lease.holder()
        return holder is not None and holder.owner == this_process().owner and not holder.released

    def _going_round(self) -> bool:
        """Whether the loop's thread is well, and Spark answers it.

        A heartbeat without that would keep old plans alive, and vouch for a Spark that is gone.
        """
        return self._thread.is_alive() and time.monotonic() - self._was_well < STUCK_S

    def tally(self, gate: str, query: str, batch: int, tally: Tally) -> None:
        """A gate inside ``foreachBatch`` has counted a batch that Spark will report."""
        with self._lock:
            self._tallies[(gate, query, batch)] = tally

    def drain(self) -> None:
        """Return when every batch that the session's queries have reported is in the ledger."""
        with self._lock:
            self._work_off()
            self._catch_up()

    def _listener(self) -> Listener:
        def post(act: Callable[..., object]) -> Callable[..., None]:
            return lambda *told: self.post(partial(act, *told))

        return Listener(post(self.on_started), post(self.on_progress), post(self.on_terminated))

    # What the listener posts: run by the thread, under the lock.

    def post(self, step: Step) -> None:
        """Have the thread run this."""
        self._steps.put(step)

    def on_started(self, query: str) -> None:
        """Take up a query from before a restart where it stood, before its first batch."""
        if query not in self._queries:
            handle = self._spark.streams.get(query)
            if handle is None:
                return
            self._queries[query] = handle
        self._steer(query)
        for name in self.specs:  # one that cannot be opened is no other one's fault
            for spec in self.specs.named(name):  # the latest is the likeliest; a report will tell
                if PlanStore(spec.control, name, query).folder.is_dir():
                    self._do(f"opening {name!r}", partial(self._open, spec, query))
                    break

    def _open(self, spec: Spec, query: str) -> Run:
        key = (spec.name, query)
        if key not in self._runs:
            self._runs[key] = spec.open(query)
        elif self._runs[key].spec != spec:
            self._exchange(key, spec)
        return self._runs[key]

    def on_progress(self, text: str) -> None:
        """Let every gate of the query decide."""
        progress = json.loads(text)
        if "addBatch" not in progress["durationMs"]:
            return  # a trigger that ran nothing bears the number of the batch to come
        if progress["runId"] in self._over:
            return  # its last word was read when it ended
        query, batch = str(progress["id"]), int(progress["batchId"])
        is_new = batch > self._seen.get(query, -1)
        self._seen[query] = max(batch, self._seen.get(query, -1))
        reports = reports_of_all_kinds(progress) | self._tallied(query, batch, progress)
        if is_new:  # a report that is read again is not measured again
            self._measure(query, str(progress["runId"]), batch, reports)
            self._ask_passes(query, str(progress["runId"]), batch, reports)
        for (gate, of), run in self._runs.items():
            if of == query and gate not in reports:
                run.pass_over(batch)
        for gate, report in reports.items():
            spec = self.specs.of(gate, report.spec)
            if spec is not None:
                self._do(f"gate {gate!r}", partial(self._handle, spec, query, report, reports))

    def _measure(self, query: str, run: str, batch: int, reports: dict[str, Any]) -> None:
        """Reports of whoever wants to know, with the batch's task time and its trigger."""
        specs = {name: self.specs.of(name, report.spec) for name, report in reports.items()}
        wanted = [name for name, spec in specs.items() if spec is not None and spec.measures_work]
        asked = {name: reports[name] for name in wanted}
        if not asked:
            return
        work = self._times.of_batch(run, batch)
        interval = self._times.interval_s(run, self._queries.get(query))
        for name, report in asked.items():
            sample = replace(report.sample, work_s=work, interval_s=interval)
            reports[name] = replace(report, sample=sample)

    def _ask_passes(self, query: str, run: str, batch: int, reports: dict[str, Any]) -> None:
        """Reports of gates, with whether the batch was read to its end when it was read last."""
        for name, report in reports.items():
            witness = report.witness
            if witness is None:
                continue
            if witness.rereads:
                witness = replace(witness, whole=self._passes.whole(run, batch, witness.handed_out))
            if witness.limits:
                cut = self._passes.cut_short(run, self._queries.get(query), report.metric)
                witness = replace(witness, cut_short=cut)
            reports[name] = replace(report, witness=witness)

    def _tallied(self, query: str, batch: int, progress: dict[str, Any]) -> dict[str, Any]:
        """The reports of gates inside ``foreachBatch``; a replayed batch was tallied again."""
        found = {}
        for key in [k for k in self._tallies if k[1] == query and k[2] <= batch]:
            tally = self._tallies.pop(key)
            report = tally.report(progress) if key[2] == batch else None
            if report is not None:
                found[key[0]] = report
        return found

    def _handle(self, spec: Spec, query: str, report: Any, beside: Mapping[str, Any]) -> None:
        key = (spec.name, query)
        if self._heartbeats.lost(*key):
            return  # another process steers it now, and keeps its books
        try:
            self._open(spec, query).handle(spec.complete(report, beside))
        except Exception:
            self._failed[key] = self._failed.get(key, 0) + 1
            if self._failed[key] >= TOO_MANY_FAULTS:
                self._heartbeats.silence(*key)  # its workers fail open or closed from now on
            raise
        if query in self._queries:
            self._steer(query)  # its lease may have been away so long that it was forgotten
        if self._failed.pop(key, 0) >= TOO_MANY_FAULTS:
            self._heartbeats.silence(*key, silent=False)

    def on_terminated(self, query: str, run: str | None = None) -> None:
        """The last word of a query that ended."""
        handle = self._queries.get(query)
        if handle is not None and run is not None and str(handle.runId) != run:
            return  # the end of an earlier run, told late: this one goes on
        self._queries.pop(query, None)
        if handle is not None:
            self._read_recent(query, handle)
            with contextlib.suppress(Exception):  # the session may be gone
                if (said := said_by_worker(handle.exception())) is not None:
                    log.error("query %s ended: %s", query, said)
            self._over.append(str(handle.runId))
            self._times.forget(str(handle.runId))
            self._passes.forget(str(handle.runId))
        self._seen.pop(query, None)
        for key in [k for k in self._runs if k[1] == query]:
            self._forget(key)
        for tally in [k for k in self._tallies if k[1] == query]:
            del self._tallies[tally]
        self._heartbeats.end(query, None if handle is None else str(handle.runId))

    def _forget(self, key: tuple[str, str]) -> None:
        self._runs.pop(key).finish()
        self._failed.pop(key, None)

    # The thread.

    def _run(self) -> None:
        polled = 0.0
        while not self._ended.is_set():
            with contextlib.suppress(queue.Empty):
                self._do("a report", self._steps.get(timeout=self._poll_s / 2))
            now = time.monotonic()
            if now - polled >= self._poll_s:
                polled = now
                self._poll()

    def _do(self, what: str, step: Step) -> None:
        """A fault must not end the loop (the gates would fail open or closed); say each once."""
        try:
            with self._lock:
                step()
            self._faults.pop(what, None)
        except Exception as error:
            if self._ended.is_set() or "shutdown" in str(error):
                return  # the interpreter is on its way out
            text = f"{type(error).__name__}: {error}".splitlines()[0]
            if self._faults.get(what) != text:
                self._faults[what] = text
                log.warning("the control loop failed at %s and goes on: %s", what, text)
                log.debug("details", exc_info=True)

    def _poll(self) -> None:
        for (gate, _), run in list(self._runs.items()):
            self._do(f"the settings of {gate!r}", run.refresh)
        self._do("asking for progress", self._catch_up)

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
            self._steer(query)
        for query, handle in list(self._queries.items()):
            if query in active:
                self._read_recent(query, handle)
            else:
                self.on_terminated(query)
        # One that was over before it was looked at, and whose reports came by the listener all the same.
        for key in [key for key in self._runs if key[1] not in active]:
            self._forget(key)
            self._heartbeats.end(key[1])

    def _read_recent(self, query: str, handle: StreamingQuery) -> None:
        if last_batch(handle) > self._seen.get(query, -1):
            for report in recent_reports(handle):
                self.on_progress(report)

    def end(self) -> None:
        """Read the last reports, and no more: the process ends, or nobody needs the loop any longer."""
        atexit.unregister(self.end)
        self._ended.set()
        # The session may be gone already, and then there is nothing left to ask.
        self._do("the last reports", self.drain)
        self._heartbeats.stop()
