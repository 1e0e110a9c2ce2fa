"""``headgate bench scale``: how pins, driver and store fare with many gates, queries and readers.

Once in a local folder, then on an S3 server on this machine with 20 ms added to each request. Four
things grow, one at a time: the gates of a store, the queries of an application, the exceptions of a
plan, and the tasks that ask for one pin at one moment. Nothing of Headgate is left out but Spark: the
control loop with its threads, heartbeats, upkeep and ledger is the driver's own, and tasks pin in
processes of theirs. Real queries of one Spark session: ``headgate bench scale-queries``.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headgate.store.lease import this_process
from headgate.store.places.place import Place, control_place
from headgate_lab.bench.progress import bench_progress
from headgate_lab.bench.scale.clients import Clients, clients
from headgate_lab.bench.scale.loop import Load, run_application
from headgate_lab.bench.scale.pins import at_once, with_exceptions
from headgate_lab.bench.scale.places import DELAY_S, far_server

__all__ = ["Sizes", "run"]

Taken = Callable[[], dict[str, int]] | None


@dataclass(frozen=True)
class Sizes:
    """How far each thing grows, and how long it is looked at."""

    gates: tuple[int, ...] = (10, 100, 500)
    queries: tuple[int, ...] = (1, 10, 100)
    exceptions: tuple[int, ...] = (10, 100, 1000, 10_000)
    readers: tuple[int, ...] = (1, 10, 50, 200)
    #: Batches a second over all gates; of each query, in a folder and on the server.
    batches_s: float = 10.0
    of_each_query_s: tuple[float, float] = (1.0, 0.1)
    lasts_s: float = 15.0
    pins: int = 20


#: What ``--quick`` leaves of it.
QUICK = Sizes((10, 100), (1, 10), (10, 1000), (1, 20), lasts_s=6.0, pins=5)
_GROWS = ("pin_p99_ms", "driver_cpu", "status_s", "requests_s", "threads")


def run(*, quick: bool, sizes: Sizes | None = None) -> dict[str, Any]:
    """All four, in both places."""
    sizes = sizes or (QUICK if quick else Sizes())
    tables: dict[str, list[dict[str, Any]]] = {}
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headgate-scale-")))
        bar = stack.enter_context(bench_progress())
        steps = sum(map(len, (sizes.gates, sizes.queries, sizes.exceptions, sizes.readers)))
        folder = bar.add_task("a folder", total=steps)
        _series("folder", scratch / "folder", sizes, None, tables, lambda: bar.advance(folder))
        task = bar.add_task("S3", total=steps)
        address, toll = stack.enter_context(far_server(scratch))
        name = f"S3, {1000 * DELAY_S:.0f} ms added"
        place = control_place(f"{address}/control")
        _series(name, place, sizes, toll.taken, tables, lambda: bar.advance(task))
    load = f"load average of the machine at the end: {os.getloadavg()[0]:.1f}, cores: {os.cpu_count()}"
    return {
        "bench": "scale",
        "ratios": _ratios(tables),
        "context": {"tables": tables, "remarks": [load]},
    }


def _series(
    where: str,
    place: Place,
    sizes: Sizes,
    taken: Taken,
    tables: dict[str, Any],
    done: Callable[[], None],
) -> None:
    """One place; each size has a control store of its own."""

    def grow(
        what: str, by: tuple[int, ...], one: Callable[[Place, int, Clients], dict[str, Any]]
    ) -> None:
        rows = tables[f"{what}: {where}"] = []
        for count in by:
            control = place / f"{what}-{count}"
            with clients(str(control), this_process()) as found:
                rows.append({what: count, **one(control, count, found)})
            done()

    def gates(control: Place, count: int, found: Clients) -> dict[str, Any]:
        load = Load(count, min(count, 50), sizes.batches_s, sizes.lasts_s)
        return run_application(control, load, found, taken)

    def queries(control: Place, count: int, found: Clients) -> dict[str, Any]:
        pace = sizes.of_each_query_s[taken is not None]
        load = Load(
            count, count, count * pace, sizes.lasts_s if count * pace >= 1 else 2 * sizes.lasts_s
        )
        return run_application(control, load, found, taken)

    grow("gates", sizes.gates, gates)
    grow("queries", sizes.queries, queries)
    grow("exceptions", sizes.exceptions, lambda c, n, f: with_exceptions(c, n, f, sizes.pins))
    grow("readers", sizes.readers, lambda c, n, f: at_once(c, n, f, sizes.pins, taken))


def _ratios(tables: dict[str, list[dict[str, Any]]]) -> dict[str, float]:
    """The most of each thing against the least."""
    found: dict[str, float] = {}
    for title, rows in tables.items():
        what, _, where = title.partition(": ")
        for name in _GROWS:
            if name in rows[0] and rows[0][name]:
                key = f"{name} of {rows[-1][what]} vs {rows[0][what]} {what}, {where}"
                found[key] = float(rows[-1][name]) / float(rows[0][name])
    return found
