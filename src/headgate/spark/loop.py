"""The control loop of a session: hears of finished batches, and lets each gate decide.

Two ways of hearing. The listener is prompt, but Spark drops events when a listener is slow, so it
only puts them on a queue. A thread takes them off, and when it finds that batches are missing, or
nothing came for a while, it asks the queries themselves for their recent progress.
"""

from __future__ import annotations

import contextlib
import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from headgate.runtime import GateRun, GateSpec
from headgate.spark.meter import reports_in
from headgate.store.plans import HEARTBEAT_S, PlanStore

__all__ = ["ControlLoop"]

log = logging.getLogger("headgate")


class _Listener(StreamingQueryListener):
    """Hands progress on, and does nothing else."""

    def __init__(self, events: queue.SimpleQueue[str]) -> None:
        self._events = events

    def onQueryStarted(self, event: Any) -> None:
        """Nothing to do: a query is known by its first progress."""

    def onQueryProgress(self, event: Any) -> None:
        """Queue the progress."""
        self._events.put(event.progress.json)

    def onQueryIdle(self, event: Any) -> None:
        """Nothing to do."""

    def onQueryTerminated(self, event: Any) -> None:
        """Nothing to do."""


class ControlLoop:
    """One for each Spark session; made by the first gate in it, and ended with the process."""

    _of_session: ClassVar[dict[int, tuple[SparkSession, ControlLoop]]] = {}
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, spark: SparkSession, poll_s: float = 1.0) -> None:
        self._spark = spark
        self._poll_s = poll_s
        self._events: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._specs: dict[str, GateSpec] = {}
        self._runs: dict[tuple[str, str], GateRun] = {}
        self._seen: dict[str, int] = {}
        self._guard = threading.RLock()
        spark.streams.addListener(_Listener(self._events))
        self._thread = threading.Thread(target=self._run, name="headgate-loop", daemon=True)
        self._thread.start()

    @classmethod
    def of(cls, spark: SparkSession) -> ControlLoop:
        """The session's loop."""
        with cls._lock:
            held = cls._of_session.get(id(spark))
            if held is None or held[0] is not spark:
                held = (spark, cls(spark))
                cls._of_session[id(spark)] = held
            return held[1]

    def register(self, spec: GateSpec) -> None:
        """A gate was built: from now on its queries are steered."""
        with self._guard:
            self._specs[spec.name] = spec
            for key in [k for k in self._runs if k[0] == spec.name]:
                del self._runs[key]
            self._beat([spec])

    def drain(self, timeout_s: float = 5.0) -> None:
        """Wait until every batch that Spark has reported is in the ledger."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            with self._guard:
                self._catch_up()
                if self._events.empty():
                    return
            time.sleep(0.02)

    def _run(self) -> None:
        beaten = polled = 0.0
        while True:
            with contextlib.suppress(queue.Empty):
                text = self._events.get(timeout=self._poll_s / 2)
                self._guarded(partial(self._handle_text, text))
            now = time.monotonic()
            if now - beaten >= HEARTBEAT_S:
                beaten = now
                self._guarded(lambda: self._beat(self._specs.values()))
            if now - polled >= self._poll_s:
                polled = now
                self._guarded(self._poll)

    def _guarded(self, step: Callable[[], None]) -> None:
        """A fault in one step must not end the loop: the gates would fail open or closed."""
        try:
            with self._guard:
                step()
        except Exception:
            log.warning("headgate's control loop met an error and goes on", exc_info=True)

    def _beat(self, specs: Iterable[GateSpec]) -> None:
        for spec in specs:
            try:
                PlanStore(spec.control, spec.name, "-").beat()
            except OSError as error:
                log.warning("gate %r: no heartbeat can be written (%s)", spec.name, error)

    def _poll(self) -> None:
        for run in self._runs.values():
            run.refresh()
        self._catch_up()

    def _catch_up(self) -> None:
        """Handle what the queries report and the listener did not bring."""
        if not self._specs:
            return
        for query in self._spark.streams.active:
            last = query.lastProgress
            if last is not None and last.batchId > self._seen.get(str(query.id), -1):
                for progress in query.recentProgress:
                    self._handle(json.loads(progress.json))

    def _handle_text(self, text: str) -> None:
        self._handle(json.loads(text))

    def _handle(self, progress: dict[str, Any]) -> None:
        query, batch = str(progress["id"]), int(progress["batchId"])
        self._seen[query] = max(batch, self._seen.get(query, -1))
        for gate, report in reports_in(progress).items():
            spec = self._specs.get(gate)
            if spec is None:
                continue
            run = self._runs.get((gate, query))
            if run is None:
                run = self._runs[(gate, query)] = GateRun(spec, query)
            run.handle(report)
