"""What a guard's tasks remember, read for people: the price of each queue, and the dearest keys."""

from __future__ import annotations

import base64
import contextlib
from typing import Any

from headgate.errors import HeadgateError
from headgate.sketches.cost_table import CostTable
from headgate.store.folder import names_in
from headgate.store.places.place import Place
from headgate.store.places.stores import store_of
from headgate.store.stored_json import parsed_json
from headgate.view.facts import GuardInsides

__all__ = ["GuardMemoryReader"]

#: Queues that are looked at, and keys that are shown.
_MOST_QUEUES, _MOST_KEYS = 16, 8


class GuardMemoryReader:
    """Of one guard in one query; the table of costs is decoded again only when it was written again."""

    def __init__(self, control: Place, guard: str, query: str) -> None:
        self._gate = control / "gates" / guard
        self._own = self._gate / "queries" / query
        self._decoded: tuple[float, tuple[tuple[int, float, float], ...]] = (0.0, ())

    def look(self) -> GuardInsides:
        """What is there now; what is missing or damaged is left out."""
        return GuardInsides(self._prices(), self._dearest())

    def _prices(self) -> tuple[float, ...]:
        queues = self._own / "queues"
        names = names_in(queues)[:_MOST_QUEUES]
        found = []
        for held in store_of(queues).get_all(queues / name for name in names):
            with contextlib.suppress(ValueError, KeyError, TypeError, IndexError):
                state: Any = None if held is None else parsed_json(held.data)["state"]
                found.append(float(state["price"][0]))
        return tuple(found)

    def _dearest(self) -> tuple[tuple[int, float, float], ...]:
        own, shared = (place / "costs.json" for place in (self._own, self._gate))
        store = store_of(own)
        held = store.get(own) or store.get(shared)
        if held is None or held.written_at == self._decoded[0]:
            return self._decoded[1]
        found: tuple[tuple[int, float, float], ...] = ()
        with contextlib.suppress(HeadgateError, ValueError, KeyError, TypeError):
            found = _dearest_in(CostTable.from_bytes(base64.b64decode(parsed_json(held.data)["costs"])))
        self._decoded = held.written_at, found
        return found


def _dearest_in(table: CostTable) -> tuple[tuple[int, float, float], ...]:
    """Those with the highest mean cost; a sketch of costs knows no keys, and has none to show."""
    seen = table.uses > 0.0
    rows = zip(table.keys[seen], table.means[seen], table.uses[seen], strict=True)
    ranked = sorted(((int(k), float(m), float(u)) for k, m, u in rows), key=lambda row: -row[1])
    return tuple(ranked[:_MOST_KEYS])
