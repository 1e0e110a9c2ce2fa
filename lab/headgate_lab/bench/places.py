"""``headgate bench places``: what a gate's batch costs in the control store, by where that is.

Without Spark: a task pins the plan of a batch, and the run that hears of its end decides, publishes and
records. Once in a local folder, then on an S3 server on this machine (`headgate.testing.s3_server`), and
on the same with each request delayed, as it is on the way to a store elsewhere. The places take turns
batch by batch, so that what else the machine does is the same for all.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from headgate.core.load import LoadSample
from headgate.core.plan import KEEP_ALL
from headgate.policies import Uniform
from headgate.run.gate_report import BatchReport
from headgate.run.gate_run import GateRun
from headgate.run.gate_spec import GateSpec
from headgate.settings import GateSettings
from headgate.store.lease import Watch, this_process
from headgate.store.places.objects import Objects
from headgate.store.places.place import Place, control_place
from headgate.store.plans import PinnedPlan, PlanStore
from headgate.store.settings_file import SettingsFile
from headgate.testing.s3_server import S3Server
from headgate.testing.s3_toll import S3Toll

__all__ = ["run"]

_OPEN = PinnedPlan(KEEP_ALL, "fail-open")
_ME = replace(this_process(), run="11111111-2222-3333-4444-555555555555")
#: Seconds that are added to each request.
_DELAYS_S = (0.0, 0.02, 0.1)
#: Batches that are not counted: connections are opened, and the first look at a lease asks for more.
_WARM = 3


class _Gate:
    """One gate with its control store in one place."""

    def __init__(self, control: Place, toll: S3Toll | None) -> None:
        self._control, self._toll, self._watch = control, toll, Watch()
        settings = GateSettings(hold="1 second")
        SettingsFile(control, "g").declare(settings)
        self._run = GateRun(GateSpec("g", control, settings, Uniform()), "q")
        self.pin_s: list[float] = []
        self.loop_s: list[float] = []
        self.requests = 0

    def batch(self, number: int) -> None:
        """One batch, timed: the task's look at the store, and the loop's."""
        if self._toll is not None:
            self._toll.reset()
        began = time.perf_counter()
        store = PlanStore(self._control, "g", "q", watch=self._watch)
        plan = store.pin(number, _OPEN, "shape", _ME).plan
        pinned = time.perf_counter()
        kept = round(50_000 * plan.default)
        sample = LoadSample(number, 1e9 + number, 0.25 + 0.75e-4 * kept, 50_000, kept)
        self._run.handle(BatchReport(query="q", sample=sample, weight=plan.default_weight))
        ended = time.perf_counter()
        if number >= _WARM:
            self.pin_s.append(pinned - began)
            self.loop_s.append(ended - pinned)
            self.requests += 0 if self._toll is None else sum(self._toll.counts.values())


def run(*, quick: bool) -> dict[str, Any]:
    """60 batches in each place; 15 if it must be quick."""
    batches = _WARM + (15 if quick else 60)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headgate-places-")))
        server = stack.enter_context(S3Server.start(scratch / "server"))
        stack.enter_context(mock.patch.dict(os.environ, server.environment()))
        gates = {"folder": _Gate(scratch / "control", None)}
        for delay_s in _DELAYS_S:
            toll = stack.enter_context(S3Toll(server.endpoint, delay_s))
            # Each bucket is opened while its own toll is the endpoint, and keeps that.
            os.environ["AWS_ENDPOINT_URL"] = toll.endpoint
            place = control_place(f"{server.bucket(f'delay-{1000 * delay_s:.0f}')}/control")
            gates[f"S3, {1000 * delay_s:.0f} ms added"] = _Gate(place, toll)
        for number in range(batches):
            for gate in gates.values():
                gate.batch(number)
        Objects.forget()
    rows = [
        {
            "place": name,
            "pin_ms": 1e3 * statistics.median(gate.pin_s),
            "loop_ms": 1e3 * statistics.median(gate.loop_s),
            "requests": gate.requests / (batches - _WARM),
        }
        for name, gate in gates.items()
    ]
    ratios = {
        f"{what} of {row['place']} vs folder": float(row[f"{what}_ms"]) / float(rows[0][f"{what}_ms"])  # type: ignore[arg-type]
        for what in ("pin", "loop")
        for row in rows[1:]
    }
    load = f"load average of the machine at the end: {os.getloadavg()[0]:.1f}, cores: {os.cpu_count()}"
    tables = {f"a gate's batch in the store, medians of {batches - _WARM}": rows}
    return {"bench": "places", "ratios": ratios, "context": {"tables": tables, "remarks": [load]}}
