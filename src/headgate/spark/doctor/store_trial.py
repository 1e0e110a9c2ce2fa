"""What a control store does for the driver: how quickly it answers, and whether it keeps its promise.

The promise is that of many who create one name one wins: two tasks that raced for a batch's plan and
both won would keep different rows. A store that looks first and writes then refuses a second creator
that comes later and lets two pass that come together, so here many come together.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from headgate.store.places.place import Place
from headgate.store.places.stores import store_of

__all__ = ["raced", "timed"]

#: Creators that come together, how often they do, and for how long: some stores take seconds for that.
_RACERS, _RACES, _LONGEST_S = 6, 12, 6.0
_TIMES = 9


def timed(place: Place, clock: Callable[[], float] = time.monotonic) -> dict[str, float]:
    """Medians of create, get, list and delete, in milliseconds."""
    store = store_of(place)
    times: dict[str, list[float]] = {}

    def one(operation: str, call: Callable[..., Any], *given: Any) -> None:
        at = clock()
        call(*given)
        times.setdefault(operation, []).append(clock() - at)

    for number in range(_TIMES):
        name = place / "timed" / str(number)
        one("create", store.create, name, b'"x"')
        one("get", store.get, name)
        one("list", store.entries, place / "timed")
        one("delete", store.delete, name)
    return {name: round(1000 * statistics.median(found), 2) for name, found in times.items()}


def raced(place: Place, clock: Callable[[], float] = time.monotonic) -> tuple[int, int]:
    """Races in which more or fewer than one creator won, and how many races there were."""
    store, wrong, races, began = store_of(place), 0, 0, clock()
    with ThreadPoolExecutor(_RACERS) as pool:
        while races < _RACES and (not races or clock() - began < _LONGEST_S):
            name, start = place / "raced" / str(races), threading.Barrier(_RACERS)

            def create(racer: int, name: Any = name, start: threading.Barrier = start) -> bool:
                mine = json.dumps(racer).encode()
                start.wait(30.0)
                return bool(store.create(name, mine) == mine)

            wrong += sum(pool.map(create, range(_RACERS))) != 1
            races += 1
    return wrong, races
