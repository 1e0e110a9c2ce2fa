"""One pin: of a plan with many exceptions, and asked for by many tasks at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from headgate.core.plan import Plan
from headgate.store.folder import read_text
from headgate.store.lease import this_process
from headgate.store.places.place import Place
from headgate.store.plans import PlanStore
from headgate_lab.bench.scale.clients import Clients, Pinned, percentile

__all__ = ["at_once", "with_exceptions"]

_QUERY, _RUN = "query", "11111111-2222-3333-4444-555555555555"


def with_exceptions(control: Place, exceptions: int, clients: Clients, pins: int) -> dict[str, Any]:
    """Pins of a plan with so many exceptions, one after another, each of another batch."""
    store = _published(control, f"exceptions-{exceptions}", exceptions)
    found: list[Pinned] = []
    for batch in range(pins):
        found += clients.pin_at_once(f"exceptions-{exceptions}", _QUERY, batch, _RUN, 1)
    return {
        **_times(found),
        "thresholds_ms": 1e3 * percentile([p.thresholds_s for p in found], 0.5),
        "plan_kb": len(read_text(store.folder / "plan.json") or "") / 1024,
    }


def at_once(
    control: Place, readers: int, clients: Clients, pins: int, taken: Callable[[], dict[str, int]] | None
) -> dict[str, Any]:
    """A batch's pin, asked for by so many tasks at one moment; so many batches."""
    _published(control, f"readers-{readers}", 10)
    found: list[Pinned] = []
    if taken is not None:
        taken()
    for batch in range(pins):
        some = clients.pin_at_once(f"readers-{readers}", _QUERY, batch, _RUN, readers)
        if len({p.default for p in some}) != 1:
            raise RuntimeError(
                f"tasks of one batch met several plans: {sorted({p.default for p in some})}"
            )
        found += some
    requests = {} if taken is None else {"requests_batch": sum(taken().values()) / pins}
    return {**_times(found), **requests}


def _published(control: Place, gate: str, exceptions: int) -> PlanStore:
    """A gate whose driver lives, with a plan to pin."""
    store = PlanStore(control, gate, _QUERY)
    store.lease.claim(replace(this_process(), run=_RUN), f"gate {gate!r}")
    store.publish(Plan(0.5, dict.fromkeys(range(1, exceptions + 1), 0.25)))
    return store


def _times(found: list[Pinned]) -> dict[str, float]:
    return {
        "pin_ms": 1e3 * percentile([p.took_s for p in found], 0.5),
        "pin_p99_ms": 1e3 * percentile([p.took_s for p in found], 0.99),
    }
