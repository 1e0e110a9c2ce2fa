"""What a task of a guard starts from, and what it leaves behind.

With a control folder that is `GuardMemory`, which all tasks share. Without one a worker process
remembers for itself: the same partitions come to it batch after batch, most of the time.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headgate.core.cold_start import COLD_BATCHES
from headgate.errors import HeadgateError, NamedTwice, OwnedElsewhere
from headgate.guards.inline import InlineShedder
from headgate.sketches.aged_sketch import AgedSketch
from headgate.sketches.cost_table import CostTable
from headgate.sketches.hashing import mix64
from headgate.spark.gate.pin.task_plan import run_of_task
from headgate.spark.guard.terms import GuardTerms, TaskId
from headgate.store.gate_files.gate_call import GateCall

__all__ = ["Learned"]

log = logging.getLogger("headgate")

#: In a worker without a control folder: what the process remembers, by guard, query and partition.
_REMEMBERED: dict[tuple[str, str, int], dict[str, Any]] = {}
#: How many of these it remembers; beyond that it begins again. It bounds memory and is no tuning.
_MOST_REMEMBERED = 256


class Learned:
    """A task's shedder, built from what earlier tasks learned, and whether the run is still cold."""

    def __init__(self, terms: GuardTerms, task: TaskId) -> None:
        self._terms, self._task = terms, task
        self._memory = terms.memory()
        self._costs: CostTable | AgedSketch = terms.policy.costs()
        own, warm_run = self._recalled()
        self.cold = terms.streaming and (task.run is None or warm_run != task.run)
        self.shedder = self._build(own)

    def _recalled(self) -> tuple[Mapping[str, Any] | None, str | None]:
        """What this queue remembers, and the run whose first batches are over; costs are taken up."""
        terms, task = self._terms, self._task
        own: Mapping[str, Any] | None = None
        warm_run: str | None = None
        if self._memory is None:
            state = _REMEMBERED.get(self._key)
            if state is not None and state["policy"] == terms.policy:
                self._costs, own = state["costs"], state["queue"]
                warm_run = state["run"] if state["batches"] >= COLD_BATCHES else None
            return own, warm_run
        try:
            self._costs = self._memory.costs(task.query, task.batch)
            own = self._memory.queue(task.query, task.partition)
            warm_run = self._memory.warm_run(task.query)
            if terms.streaming:
                driver = None if terms.driver is None else replace(terms.driver, run=run_of_task())
                self._memory.mark_begun(task.query, task.batch, driver, GateCall(terms.number))
        except (OwnedElsewhere, NamedTwice):
            raise
        except Exception as error:  # whatever is wrong with the folder, the query goes on
            log.debug("guard %r: its memory cannot be used: %s", terms.name, error)
        return own, warm_run

    def _build(self, own: Mapping[str, Any] | None) -> InlineShedder:
        terms, task, costs = self._terms, self._task, self._costs
        luck = mix64(terms.seed + mix64((task.batch << 20) + task.partition))
        try:
            return terms.policy.build(costs, costs.mean, luck, own)
        except (HeadgateError, KeyError, TypeError, ValueError):
            return terms.policy.build(costs, costs.mean, luck, None)  # damaged: begin again

    @property
    def _key(self) -> tuple[str, str, int]:
        query = self._task.query if self._terms.streaming else "batch"
        return self._terms.name, query, self._task.partition

    def leave(self) -> None:
        """Hand on what the task learned."""
        task = self._task
        lessons = list(self.shedder.lessons())
        if self._memory is not None:
            with contextlib.suppress(OSError):  # the folder is gone: the query goes on
                self._memory.leave_lesson(task.query, task.batch, task.partition, lessons)
                self._memory.keep_queue(task.query, task.partition, self.shedder.state())
            return
        for key, runs, mean in lessons:
            self._costs.learn(key, mean, runs)
        before = _REMEMBERED.pop(self._key, None)
        again = before is not None and before["run"] == task.run
        if len(_REMEMBERED) >= _MOST_REMEMBERED:
            _REMEMBERED.clear()
        _REMEMBERED[self._key] = {
            "policy": self._terms.policy,
            "run": task.run,
            "batches": before["batches"] + 1 if before is not None and again else 1,
            "costs": self._costs,
            "queue": self.shedder.state(),
        }
