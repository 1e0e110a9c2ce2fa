"""What a doctor runs in a Python worker of each executor; it is sent there whole.

A worker may have no Headgate, or another one, so nothing here is imported from it but inside a `try`,
and this module imports the standard library alone (`headgate.spark.doctor.executors` sends its source
along). Whatever goes wrong is part of the answer.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import socket
import statistics
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["PACKAGES", "probe", "versions"]

#: What Headgate imports where it is asked for: by gates, joins and object stores.
PACKAGES = ("pyspark", "pyarrow", "pandas", "numpy", "numba", "protobuf", "obstore")
#: A task lasts at least so long, so that each executor gets its share of them.
_LEAST_S = 0.5
#: How often each operation is timed.
_TIMES = 5


def versions() -> dict[str, Any]:
    """Python and the packages that are installed here; None for one that is not."""
    found: dict[str, Any] = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    if found["pyspark"] is None:  # it came with Spark, and not with pip
        found["pyspark"] = getattr(importlib.import_module("pyspark"), "__version__", None)
    return found


def probe(control: str, trial: str, races: list[str], task: int) -> str:
    """What this worker has and can do, as JSON.

    `trial` is a name in the control store below which the driver has left ``driver``; all tasks try to
    create each of `races` there.
    """
    began = time.monotonic()
    answer: dict[str, Any] = {
        "host": socket.gethostname(),
        "folder": str(Path.cwd()),
        "process": os.getppid(),
        "executable": sys.executable,
        "versions": versions(),
        **_headgate(),
        "store": None,
    }
    if answer["headgate_error"] is None:
        answer["store"] = _store(control, trial, races, task)
    time.sleep(max(0.0, _LEAST_S - (time.monotonic() - began)))
    answer["clock"] = time.time()
    return json.dumps(answer)


def _headgate() -> dict[str, Any]:
    module: Any = None
    error: str | None = None
    try:
        module = importlib.import_module("headgate")
        importlib.import_module("headgate.spark.gate.pin.plan_source")  # what a batch's task imports
    except Exception as failed:  # whatever it is, it is what a gate would meet
        module, error = sys.modules.get("headgate"), f"{type(failed).__name__}: {failed}"
    return {
        "headgate": getattr(module, "__version__", None),
        "headgate_from": getattr(module, "__file__", None),
        "headgate_error": error,
    }


def _store(control: str, trial: str, races: list[str], task: int) -> dict[str, Any]:
    """Get what the driver wrote, then create, get, list and delete an object of this task's own."""
    answer: dict[str, Any] = {"sees_driver": False, "error": None, "won": [], "ms": {}}
    try:
        place_from = importlib.import_module("headgate.store.places.place").place_from
        store_of = importlib.import_module("headgate.store.places.stores").store_of
        place = place_from(control) / trial
        store = store_of(place)
        if store.get(place / "driver") is None:
            return answer  # and nothing is written to a place that is not the driver's
        answer["sees_driver"] = True
        mine = json.dumps(f"{socket.gethostname()} {os.getpid()} {task}").encode()
        answer["won"] = [name for name in races if store.create(place / name, mine) == mine]
        own = place / f"task-{task}"
        times: dict[str, list[float]] = {}
        call: Any
        for number in range(_TIMES):
            name = own / str(number)
            for operation, call in (
                ("create", lambda name=name: store.create(name, mine)),
                ("get", lambda name=name: store.get(name)),
                ("list", lambda: store.entries(own)),
                ("delete", lambda name=name: store.delete(name)),
            ):
                at = time.monotonic()
                call()
                times.setdefault(operation, []).append(time.monotonic() - at)
        answer["ms"] = {name: round(1000 * statistics.median(t), 2) for name, t in times.items()}
    except Exception as failed:
        answer["error"] = f"{type(failed).__name__}: {failed}"
    return answer
