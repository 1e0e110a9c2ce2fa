"""What guards have learned, in the control folder: merged costs, lessons to merge, each queue's state.

Workers come and go, and a partition moves between them; so nothing is kept in a worker. A task reads
the merged costs and the lessons that are not merged yet, and leaves its own lesson behind. The driver
merges lessons into the costs as batches end. Whatever is missing or damaged is learned again: memory
makes a guard better, and is never needed for it to be right.

A query that is started again, or deployed anew under another checkpoint, goes on from the costs of its
name. While one runs, these are its own: another guard of the name that runs beside it in one driver,
with another function or other settings, has a file of its own.

::

    <control>/gates/<guard>/
      costs.json                               merged costs, up to which batch of which query; whose
      queries/<query>/costs.json                those of a namesake that ran beside it
      lessons/<query>/<batch>-<partition>.json  what one task learned
      queries/<query>/queues/<partition>.json   a queue's own state: its average, its price
      queries/<query>/warm.json                 the run whose first batches are over
      queries/<query>/pins/<batch>.json         the batch has begun
"""

from __future__ import annotations

import base64
import contextlib
import logging
import re
from collections.abc import Iterable
from typing import Any

from headgate.core.plan import KEEP_ALL
from headgate.errors import BadArgument, SnapshotError
from headgate.guards.inline import Lesson
from headgate.guards.inline_policy import InlinePolicy
from headgate.sketches.aged_sketch import AgedSketch
from headgate.sketches.cost_sketch import CostSketch
from headgate.sketches.cost_table import CostTable
from headgate.store.folder import is_used, names_in, read_json, unclaim, write_json
from headgate.store.gate_files.gate_call import UNKNOWN_CALL, GateCall
from headgate.store.lease import Holder
from headgate.store.places.place import Place
from headgate.store.plans import PinnedPlan, PlanStore

__all__ = ["GuardMemory"]

log = logging.getLogger("headgate")

_VERSION = 1
#: Runs of one key that a task can have made: more were never run.
_MOST_RUNS = 1 << 40
#: And seconds that one took.
_MOST_SECONDS = 1e9
_LESSON = re.compile(r"([0-9]+)-[0-9]+\.json")
#: Lessons of one query that lie unmerged at most, if the driver's loop is gone: a bound, no tuning.
_MOST_LESSONS = 64


class GuardMemory:
    """The memory of one guard."""

    def __init__(
        self, control: Place, guard: str, policy: InlinePolicy, number: int = 0, owner: str = ""
    ) -> None:
        #: `number` is that of the `guard` call in its driver process, which is `owner`; 0: of no one.
        self._control, self._guard, self._number, self._owner = control, guard, number, owner
        self._folder = control / "gates" / guard
        self._policy = policy

    # A task.

    def costs(self, query: str, batch: int) -> CostTable | AgedSketch:
        """All that is known of costs before this batch."""
        costs, through = self._merged(self._costs_path(query, self._number))
        for number, path in self._lessons(query):
            if through.get(query, -1) < number < batch:
                self._learn(costs, path)
        return costs

    def warm_run(self, query: str) -> str | None:
        """The query's run whose first batches are over, as the driver last noted."""
        value = self._read(self._folder / "queries" / query / "warm.json")
        return value.get("run") if value else None

    def mark_begun(
        self, query: str, batch: int, driver: Holder | None = None, call: GateCall = UNKNOWN_CALL
    ) -> None:
        """Leave word that the batch began, for an audit that finds no record of it.

        Raises `OwnedElsewhere` where another driver that lives has the guard in this query, and
        `NamedTwice` where another guard of the name is in it.
        """
        store = PlanStore(self._control, self._guard, query)
        if driver is not None:
            store.lease.claim(driver, f"guard {self._guard!r} of query {query}")
        begun = store.signed(PinnedPlan(KEEP_ALL, "guard"), driver, call)
        store.refuse_namesake(store.pin_to(batch, begun), driver, call, "guard")

    def leave_lesson(self, query: str, batch: int, partition: int, lessons: Iterable[Lesson]) -> None:
        """What a task has learned; a task that runs again replaces it."""
        rows = [[str(key), runs, mean] for key, runs, mean in lessons]
        if rows:
            path = self._folder / "lessons" / query / f"{batch:012d}-{partition}.json"
            write_json(path, {"v": _VERSION, "lessons": rows}, lasting=False)
        mine = [p for _, p in self._lessons(query) if p.stem.endswith(f"-{partition}")]
        for old in mine[:-_MOST_LESSONS]:
            unclaim(old)

    def queue(self, query: str, partition: int) -> dict[str, Any] | None:
        """The state that a queue's last task left; None if there is none for this policy."""
        value = self._read(self._queue_path(query, partition))
        if value is None or value.get("v") != _VERSION or value.get("policy") != self._policy.identity:
            return None  # another target or policy: what it remembers means something else
        state = value.get("state")
        return state if isinstance(state, dict) else None

    def keep_queue(self, query: str, partition: int, state: dict[str, Any]) -> None:
        """Leave the queue's state for its next task."""
        value = {"v": _VERSION, "policy": self._policy.identity, "state": state}
        write_json(self._queue_path(query, partition), value, lasting=False)

    # The driver.

    def merge(self, query: str, through: int | None = None, call: int = 0) -> int:
        """Merge the lessons of a query, up to a batch or all there are; how many there were.

        `call` is the number of the `guard` call that is in the query.
        """
        lessons = [(n, p) for n, p in self._lessons(query) if through is None or n <= through]
        if lessons:
            target = self._costs_path(query, call)
            costs, merged = self._merged(target)
            for number, path in lessons:
                if number > merged.get(query, -1):
                    self._learn(costs, path)
            merged[query] = max(merged.get(query, -1), lessons[-1][0])
            self._write(target, costs, merged, query, call)
            for _, path in lessons:
                unclaim(path)
        return len(lessons)

    def merge_what_is_left(self) -> int:
        """Merge the lessons of jobs and of queries that have ended; how many there were."""
        return sum(self.merge(query) for query in self._queries() if not self._running(query))

    def note_warm(self, query: str, run: str) -> None:
        """The first batches of this run are over."""
        write_json(self._folder / "queries" / query / "warm.json", {"run": run})

    # Files.

    def _knows(self, query: str) -> bool:
        """Whether anything of the query is there: one that ended long ago is forgotten here, too."""
        folders = (self._folder / "queries" / query, self._folder / "lessons" / query)
        return any(is_used(folder) for folder in folders)

    def _queue_path(self, query: str, partition: int) -> Place:
        return self._folder / "queries" / query / "queues" / f"{partition}.json"

    def _queries(self) -> list[str]:
        return names_in(self._folder / "lessons")

    def _lessons(self, query: str) -> list[tuple[int, Place]]:
        folder = self._folder / "lessons" / query
        names = (_LESSON.fullmatch(name) for name in names_in(folder))
        return [(int(found[1]), folder / found[0]) for found in names if found is not None]

    @staticmethod
    def _read(path: Place) -> dict[str, Any] | None:
        with contextlib.suppress(OSError, ValueError):
            value = read_json(path)
            return value if isinstance(value, dict) else None
        return None

    def _learn(self, costs: CostTable | AgedSketch, path: Place) -> None:
        value = self._read(path)
        if value is None or value.get("v") != _VERSION:
            return
        with contextlib.suppress(KeyError, TypeError, ValueError, OverflowError):
            for key, runs, mean in value["lessons"]:
                number, times, seconds = int(key), int(runs), float(mean)
                # What is no duration would be learned for good: no later one takes it out of a mean.
                if 0 <= number < 1 << 64 and 0 < times <= _MOST_RUNS and 0.0 <= seconds <= _MOST_SECONDS:
                    costs.learn(number, seconds, times)

    def _costs_path(self, query: str, call: int) -> Place:
        """The costs of the guard of this call in a query: those of the name, or its own.

        Its own only where another call of the same driver has those of the name, in a query that runs.
        Numbers say nothing of another process: guards of one name in two drivers learn together.
        """
        shared, own = self._folder / "costs.json", self._folder / "queries" / query / "costs.json"
        if self._read(own) is not None:
            return own
        value = self._read(shared) or {}
        theirs = value.get("call", 0)
        another = call and theirs and theirs != call and value.get("owner") == self._owner
        other = value.get("query")
        if another and isinstance(other, str) and other != query and self._running(other):
            return own
        return shared

    def _running(self, query: str) -> bool:
        """Whether a query of this driver is at work."""
        holder = PlanStore(self._control, self._guard, query).lease.holder()
        return holder is not None and holder.owner == self._owner and not holder.released

    def _merged(self, path: Place) -> tuple[CostTable | AgedSketch, dict[str, int]]:
        costs = self._policy.costs()
        value = self._read(path) or {}
        if value.get("v") != _VERSION:
            return costs, {}
        try:
            data = base64.b64decode(value["costs"])
            if isinstance(costs, AgedSketch):
                costs.merge(CostSketch.from_bytes(data))
                costs.learnt = int(value["learnt"])
            else:
                costs = CostTable.from_bytes(data)
            through = {query: int(batch) for query, batch in value["through"].items()}
        except (SnapshotError, BadArgument, ValueError, KeyError, AttributeError, TypeError) as error:
            log.warning("what a guard had learned cannot be used, and is learned again: %s", error)
            return self._policy.costs(), {}
        return costs, through

    def _write(
        self, path: Place, costs: CostTable | AgedSketch, through: dict[str, int], query: str, call: int
    ) -> None:
        value = {
            "v": _VERSION,
            "costs": base64.b64encode(costs.to_bytes()).decode(),
            "learnt": costs.learnt if isinstance(costs, AgedSketch) else 0,
            "through": {q: b for q, b in through.items() if self._knows(q)},
        }
        before = self._read(path) or {}
        whose = {"query": query, "call": call, "owner": self._owner}
        if not call:  # a job's, or those of a query that has ended: they stay whose they are
            whose = {name: before[name] for name in whose if name in before}
        write_json(path, {**value, **whose})
