"""Gates and queries of one application: its control loop, store, heartbeats and upkeep, without Spark.

A session that somebody plays posts the reports of batches; tasks in other processes pin their plans.
Batches come at the same pace however many gates they are spread over, so that what grows is what gates
cost besides: heartbeats, looks at settings, upkeep, and whoever asks for the status.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headgate.core.plan import Plan
from headgate.policies import Uniform
from headgate.run.gate_spec import GateSpec
from headgate.settings import GateSettings
from headgate.spark.loop.loop import ControlLoop
from headgate.store.places.place import Place
from headgate.store.plans import PlanStore
from headgate.store.settings_file import SettingsFile
from headgate_lab.bench.scale.clients import Clients, Pinned, percentile
from headgate_lab.bench.year.gauges import rss_mb
from headgate_lab.bench.year.load import MadeUpLoad
from headgate_lab.bench.year.session import PlayedSession

__all__ = ["Load", "run_application", "status_s"]


@dataclass(frozen=True)
class Load:
    """An application: its gates, the queries that they are in, and how many batches a second it has."""

    gates: int
    queries: int
    batches_s: float
    #: Seconds that are measured, after as many batches as there are gates.
    lasts_s: float


class _Application:
    """The driver, as far as it is Headgate's."""

    def __init__(self, control: Place, load: Load) -> None:
        self.control = control
        self.session = PlayedSession()
        session: Any = self.session
        self.loop = ControlLoop(session)
        settings = GateSettings(hold="30 seconds")
        self.names = [f"gate-{number}" for number in range(load.gates)]
        self.query_of = {name: f"query-{n % load.queries}" for n, name in enumerate(self.names)}
        for name in self.names:
            SettingsFile(control, name).declare(settings)
            self.loop.register(GateSpec(name, control, settings, Uniform()))
        for number in range(load.queries):
            self.session.start(f"query-{number}")
        self._loads = {name: MadeUpLoad(name) for name in self.names}
        self.last = dict.fromkeys(self.query_of.values(), -1)
        self._turn = 0

    def batch(self, clients: Clients, told: Callable[[str, Pinned], None]) -> None:
        """The next gate's query has a batch: a task pins its plan, and then Spark reports it."""
        name = self.names[self._turn % len(self.names)]
        self._turn += 1
        query = self.query_of[name]
        self.last[query] += 1
        number, handle = self.last[query], self.session.get(query)
        assert handle is not None

        def report(pinned: Pinned) -> None:
            told(name, pinned)
            progress = self._loads[name].progress(number, time.time(), Plan(pinned.default))
            self.session.report(query, progress)

        clients.pin(name, query, number, handle.runId, report)

    def end(self) -> None:
        for query in list(self.last):
            self.session.stop(query)
        self.loop.end()


class _Silence:
    """The longest time for which nothing new was heard of a gate's driver, as a worker would see it."""

    def __init__(self, control: Place, gates: list[tuple[str, str]]) -> None:
        self._leases = [PlanStore(control, *key).lease for key in gates]
        self._ended = threading.Event()
        self.longest_s = 0.0
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        seen: dict[int, tuple[int, float]] = {}
        while not self._ended.wait(0.5):
            for number, lease in enumerate(self._leases):
                holder = lease.holder()
                now, beat = time.monotonic(), -1 if holder is None else holder.beat
                before, since = seen.get(number, (-1, now))
                seen[number] = (beat, now) if beat != before else (before, since)
                self.longest_s = max(self.longest_s, now - since)

    def end(self) -> float:
        self._ended.set()
        self._thread.join()
        return self.longest_s


def run_application(
    control: Place, load: Load, clients: Clients, taken: Callable[[], dict[str, int]] | None
) -> dict[str, Any]:
    """The application at work; what pins took, what the driver took, and what the store was asked."""
    app = _Application(control, load)
    pins: list[Pinned] = []
    try:
        for _ in range(load.gates):  # every gate has a lease, a run and a record
            _paced(app, clients, 1.0 / max(load.batches_s, 20.0), lambda name, pinned: None)
        _settled(app)
        watched = [(name, app.query_of[name]) for name in app.names[:: max(1, load.gates // 3)]]
        silence = _Silence(control, watched)
        if taken is not None:
            taken()
        cpu, began = time.process_time(), time.monotonic()
        for _ in range(round(load.lasts_s * load.batches_s)):
            _paced(app, clients, 1.0 / load.batches_s, lambda name, pinned: pins.append(pinned))
        lasted_s = time.monotonic() - began
        cpu_s = time.process_time() - cpu
        counts = {} if taken is None else taken()
        behind_s = _settled(app)
        found = {
            "pin_ms": 1e3 * percentile([p.took_s for p in pins], 0.5),
            "pin_p99_ms": 1e3 * percentile([p.took_s for p in pins], 0.99),
            "failed_open": sum(p.origin.startswith("fail") for p in pins),
            "driver_cpu": cpu_s / lasted_s,
            "threads": threading.active_count(),
            "rss_mb": rss_mb(),
            "behind_s": behind_s,
            "silence_s": silence.end(),
            "status_s": status_s(control),
        }
        if taken is not None:
            found["requests_s"] = sum(counts.values()) / lasted_s
            found["requests_batch"] = sum(counts.values()) / max(1, len(pins))
        return found
    finally:
        app.end()


def _paced(
    app: _Application, clients: Clients, every_s: float, told: Callable[[str, Pinned], None]
) -> None:
    began = time.monotonic()
    app.batch(clients, told)
    time.sleep(max(0.0, every_s - (time.monotonic() - began)))


def _settled(app: _Application, at_most_s: float = 120.0) -> float:
    """Seconds until every batch that was begun is in the books."""
    began = time.monotonic()
    while time.monotonic() - began < at_most_s:
        app.loop.drain()
        if all(app.loop._seen.get(query, -1) >= batch for query, batch in app.last.items()):
            break
        time.sleep(0.05)
    app.loop.drain()
    return time.monotonic() - began


def status_s(control: Place) -> float:
    """What ``headgate status --json`` takes as a command, from its start to its end."""
    command = [sys.executable, "-m", "headgate", "status", str(control), "--json"]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, env=os.environ.copy(), timeout=600, check=True)
    took_s = time.monotonic() - began
    silent = [gate["gate"] for gate in json.loads(done.stdout)["gates"] if not gate["queries"]]
    if any(name.startswith("gate-") for name in silent):
        raise RuntimeError(f"headgate status says nothing of {len(silent)} gates: {silent[:3]} ...")
    return took_s
