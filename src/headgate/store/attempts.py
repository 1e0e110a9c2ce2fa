"""How often a batch was begun: what a gate that may rescue it counts, and what the next attempt keeps.

An attempt is a run of the query: Spark's own retries of a task are in one run, and meet one plan.
Whoever first asks for the plan in a new run of a batch that has a pin claims the next attempt, by a name
that can be created once, so that all tasks of the run agree; then the pin is written anew. So the pin is
always the plan of the latest attempt whose rows may have been judged: a recount, a backfill and a replay
go by it, and know nothing of attempts.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from headgate.core.rescue import Rescue, within
from headgate.store.folder import claim_json, names_in, read_json
from headgate.store.gate_files.gate_call import GateCall
from headgate.store.lease import Holder
from headgate.store.pinned_plan import PinnedPlan
from headgate.store.places.place import Place
from headgate.store.places.stores import store_of
from headgate.store.plans import PlanStore

__all__ = ["Attempts", "Bounds"]

#: Claims that are kept of a batch, and runs that a pin remembers: enough to know those that a task may
#: come late from. A batch may be begun a thousand times.
_KEPT, _REMEMBERED = 2, 8
_ATTEMPT = re.compile(r"(\d+)-(\d+)\.json")


@dataclass(frozen=True)
class Bounds:
    """What a rescue may do to a plan: by its terms, down to which rate, and over how many classes."""

    rescue: Rescue
    least: float
    classes: int = 0

    def tightened(self, pin: PinnedPlan) -> PinnedPlan:
        """The pin with fewer rows of the same; the pin itself where nothing is left to shed."""
        whole, cuts = pin.whole or pin.plan, pin.cuts + 1
        plan = within(self.rescue.tightened(whole, cuts, self.least, self.classes), pin.plan)
        if plan.digest == pin.plan.digest:
            return pin
        return replace(pin, plan=plan, origin="rescued", cuts=cuts, whole=whole)


class Attempts:
    """The attempts at the batches of one gate in one query."""

    def __init__(self, store: PlanStore) -> None:
        self._store = store
        self._folder = store.folder / "attempts"

    def of_run(
        self,
        batch: int,
        found: PinnedPlan,
        me: Holder,
        call: GateCall,
        bounds: Callable[[], Bounds | None],
    ) -> PinnedPlan:
        """The batch's pin in this run: the one found, or that of one more attempt at it.

        A batch that has ended meets what it met: it runs again since somebody rolled a checkpoint back.
        So does one whose runs are not known. `bounds` is asked only where a batch was begun before;
        None: nothing may be shed for it now, and the attempt is counted all the same, so that all of
        its tasks agree on that.
        """
        if not found.run or me.run in (found.run, *found.earlier):
            return found
        latest = found
        while (later := self._read(batch, latest.attempt + 1)) is not None:
            latest = later  # its writer was killed before it could write the pin
        if me.run not in (latest.run, *latest.earlier):
            if self._store.finished(batch):
                return found
            allowed = bounds()
            while me.run not in (latest.run, *latest.earlier):
                latest = self._claim(batch, self._next(latest, me, call, allowed))
        if latest != found:
            self._write(batch, latest)
        return latest

    @staticmethod
    def _next(before: PinnedPlan, me: Holder, call: GateCall, allowed: Bounds | None) -> PinnedPlan:
        """The pin of the attempt behind this one: whole, or with fewer rows of the same."""
        earlier = (*before.earlier, before.run)[-_REMEMBERED:]
        pin = replace(before, attempt=before.attempt + 1, earlier=earlier, run=me.run, call=call.number)
        if allowed is None or pin.attempt <= allowed.rescue.whole:
            return pin
        return allowed.tightened(pin)

    def forget(self, batch: int, attempts: int) -> None:
        """The batch is in the ledger: its pin says all there is to know."""
        self._drop(batch, range(attempts - _KEPT, attempts + 1))

    def sweep(self) -> None:
        """Drop what is left of batches that have no pin any more: their driver was killed before."""
        names = [(name, _ATTEMPT.fullmatch(name)) for name in names_in(self._folder)]
        if names:
            pinned = set(self._store.pinned_batches())
            gone = [name for name, match in names if match and int(match[1]) not in pinned]
            store_of(self._folder).delete_many([self._folder / name for name in gone])

    def _drop(self, batch: int, numbers: Iterable[int]) -> None:
        gone = [self._path(batch, number) for number in numbers if number > 1]
        store_of(self._folder).delete_many(gone)

    def _path(self, batch: int, attempt: int) -> Place:
        return self._folder / f"{batch:012d}-{attempt:04d}.json"

    def _read(self, batch: int, attempt: int) -> PinnedPlan | None:
        value = None
        with contextlib.suppress(ValueError):  # cut off by a crash: nobody has met it
            value = read_json(self._path(batch, attempt))
        return None if value is None else PinnedPlan.from_json(value)

    def _write(self, batch: int, pin: PinnedPlan) -> None:
        """Let the batch's pin be this attempt's, or that of a later one that was claimed meanwhile.

        Each claims before it writes, and looks again behind it: whoever writes last writes the latest.
        """
        later: PinnedPlan | None = pin
        while later is not None:
            self._store.repin(batch, later)
            later = self._read(batch, later.attempt + 1)
        # A task of this run has seen the pin of the attempt before, or a later one.
        self._drop(batch, [pin.attempt - _KEPT])

    def _claim(self, batch: int, pin: PinnedPlan) -> PinnedPlan:
        return PinnedPlan.from_json(claim_json(self._path(batch, pin.attempt), pin.to_json()))
