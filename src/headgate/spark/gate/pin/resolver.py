"""The plan of a batch whose size is known, made by whoever pins it."""

from __future__ import annotations

import base64
import pickle
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark import cloudpickle

from headgate.core.batch_size import RowsExpected
from headgate.core.offer import Offer
from headgate.errors import BadArgument, SnapshotError
from headgate.policies import Policy
from headgate.spark.checkpoint import checkpoint_place, query_in
from headgate.spark.gate.pin.batch_size import seconds_of_batch, sizes_of_batch
from headgate.store.folder import folders_in
from headgate.store.places.place import Place
from headgate.store.plans import Resolved
from headgate.store.query_facts import checkpoint_of as checkpoint_told

__all__ = ["Resolver", "SizedBatches"]

#: How long a query's first batch waits for the driver's word of where its checkpoint is.
_TOLD_WITHIN_S, _STEP_S = 0.3, 0.01
#: What this worker process has found in sessions' default places, and when it looked; and how long until
#: it looks again.
_IN_DEFAULT: dict[tuple[str, str], tuple[Place | None, float]] = {}
_AGAIN_S = 60.0


@dataclass(frozen=True)
class SizedBatches(ABC):
    """What makes the plan of a batch whose size is known, and where the query's checkpoint may be."""

    #: As people gave it; None where they did not.
    checkpoint: str | None = field(default=None, kw_only=True)
    #: The session's default: queries have folders of their own in it.
    checkpoints: str | None = field(default=None, kw_only=True)
    #: The Delta table that the stream reads, where it reads one.
    delta: str | None = field(default=None, kw_only=True)

    @abstractmethod
    def resolve(self, published: Mapping[str, Any], control: Place, query: str, batch: int) -> Resolved:
        """The plan for this batch from what was published, if it offers one and the size is known."""

    def _unsendable(self, error: Exception) -> BadArgument:
        return BadArgument(f"{self!r} cannot be sent to Spark's workers ({error})")

    def to_text(self) -> str:
        """As an option of the plan source; what travels is this driver's own."""
        try:
            packed = cloudpickle.dumps(self)  # type: ignore[no-untyped-call]
        except Exception as error:  # whatever a person's policy holds
            raise self._unsendable(error) from error
        return base64.b64encode(packed).decode()

    @staticmethod
    def from_text(text: str) -> SizedBatches:
        """The resolver that `to_text` wrote into the plan source's options."""
        found = pickle.loads(base64.b64decode(text))
        if not isinstance(found, SizedBatches):
            raise SnapshotError(f"a {type(found).__name__} came where a gate's resolver was sent")
        return found

    def checkpoint_of(self, control: Place, query: str, wait: bool) -> tuple[Place | None, str]:
        """The query's checkpoint, if this process can open it; what is wrong with the one given.

        A query's first batch may be sooner than the driver's word of where its checkpoint is.
        """
        until = time.monotonic() + _TOLD_WITHIN_S  # a look into an object store takes its own time
        found, note = self._look(control, query)
        while found is None and wait and time.monotonic() < until:
            time.sleep(_STEP_S)
            found, note = self._look(control, query)
        return found, note

    def _look(self, control: Place, query: str) -> tuple[Place | None, str]:
        note = ""
        given = None if self.checkpoint is None else checkpoint_place(self.checkpoint)
        if given is not None:
            there = query_in(given)
            if there == query:
                return given, ""
            if there is not None:
                note = f"checkpoint={self.checkpoint!r} is of another query ({there}), and is not used"
        told = checkpoint_told(control, query)
        folder = None if told is None else checkpoint_place(told)
        if folder is not None and query_in(folder) == query:
            return folder, note
        return (None if told is not None else self._in_default(query)), note

    def _in_default(self, query: str) -> Place | None:
        """Looked for once in a while: the session's place may have a folder for every start."""
        root = None if self.checkpoints is None else checkpoint_place(self.checkpoints)
        if root is None:
            return None
        found, looked_at = _IN_DEFAULT.get((str(root), query), (None, -_AGAIN_S))
        if found is None and time.monotonic() - looked_at >= _AGAIN_S:
            below = (root / name for name in folders_in(root))
            found = next((folder for folder in below if query_in(folder) == query), None)
            _IN_DEFAULT[str(root), query] = found, time.monotonic()
        return found if found is not None and query_in(found) == query else None


@dataclass(frozen=True)
class Resolver(SizedBatches):
    """What a worker needs for it: the gate's policy."""

    policy: Policy
    #: The policy as the driver writes it: a plain object's text has an address, which differs here.
    described: str = ""

    def _unsendable(self, error: Exception) -> BadArgument:
        return BadArgument(
            f"policy={self.policy!r} cannot be sent to Spark's workers ({error}): keep locks, files "
            "and connections, which cannot be pickled, out of it"
        )

    def resolve(self, published: Mapping[str, Any], control: Place, query: str, batch: int) -> Resolved:
        """The plan for this batch from what was published, if it offers one and the size is known."""
        given = published.get("offer")
        if given is None:
            return Resolved()
        checkpoint, note = self.checkpoint_of(control, query, wait=bool(published.get("opening")))
        sizes = None if checkpoint is None else sizes_of_batch(checkpoint, batch, self.delta)
        if sizes is None:
            return Resolved(note=note)
        offer = Offer.from_json(given)
        rows = offer.sizing.rows(sizes)
        if rows is None:
            # The batch will show what they mean.
            return Resolved(expected=RowsExpected(None, "", sizes), note=note)
        expected = RowsExpected(rows, offer.sizing.unit(sizes), sizes)
        if not offer.cuts or offer.policy != self.described:
            return Resolved(expected=expected, note=note)
        assert checkpoint is not None  # or there were no sizes
        covers_s = seconds_of_batch(checkpoint, batch) if offer.by_time else None
        budget = offer.at(rows, covers_s)
        plan = self.policy.plan(budget, offer.groups)
        if budget.sic is not None:
            plan = replace(plan, sic=budget.sic)
        if published.get("opening") and budget.keep < 1.0:
            note = "; ".join(filter(None, (note, f"{rows:.0f} rows come, and {budget.why}")))
        return Resolved(plan, expected, note)
