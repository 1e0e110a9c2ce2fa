"""The plan of a batch whose size is known, made by whoever pins it."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from headgate.core.batch_size import RowsExpected
from headgate.core.offer import Offer
from headgate.errors import BadArgument
from headgate.policies import Policy
from headgate.spark.checkpoint import local_path, query_in
from headgate.spark.gate.batch_size import sizes_of_batch
from headgate.store.plans import Resolved
from headgate.store.query_facts import checkpoint_of

__all__ = ["Resolver"]

#: Checkpoints that this worker process has found, by control folder and query, and what to say of them.
_FOUND: dict[tuple[str, str], tuple[Path, str]] = {}


@dataclass(frozen=True)
class Resolver:
    """What a worker needs for it: the gate's policy, and where the query's checkpoint may be."""

    policy: Policy
    #: As people gave it; None where they did not.
    checkpoint: str | None = None
    #: The session's default: queries have folders of their own in it.
    checkpoints: str | None = None

    def to_text(self) -> str:
        """As an option of the plan source; what travels is this driver's own."""
        try:
            packed = cloudpickle.dumps(self)  # type: ignore[no-untyped-call]
        except Exception as error:  # whatever a person's policy holds
            raise BadArgument(
                f"policy={self.policy!r} cannot be sent to Spark's workers ({error}): keep locks, files "
                "and connections, which cannot be pickled, out of it"
            ) from error
        return base64.b64encode(packed).decode()

    @staticmethod
    def from_text(text: str) -> Resolver:
        """What `to_text` wrote."""
        found = pickle.loads(base64.b64decode(text))
        assert isinstance(found, Resolver)
        return found

    def resolve(self, published: Mapping[str, Any], control: Path, query: str, batch: int) -> Resolved:
        """The plan for this batch from what was published, if it offers one and the size is known."""
        given = published.get("offer")
        if given is None:
            return Resolved()
        checkpoint, note = self._checkpoint(control, query)
        sizes = None if checkpoint is None else sizes_of_batch(checkpoint, batch)
        if sizes is None:
            return Resolved(note=note)
        offer = Offer.from_json(given)
        rows = offer.sizing.rows(sizes)
        if rows is None:
            # The batch will show what they mean.
            return Resolved(expected=RowsExpected(None, "", sizes), note=note)
        budget = offer.at(rows)
        plan = self.policy.plan(budget, offer.groups)
        if budget.sic is not None:
            plan = replace(plan, sic=budget.sic)
        return Resolved(plan, RowsExpected(rows, offer.sizing.unit(sizes), sizes), note)

    def _checkpoint(self, control: Path, query: str) -> tuple[Path | None, str]:
        """The query's checkpoint, if this process can open it; what is wrong with the one given."""
        key = (str(control), query)
        if key not in _FOUND:
            found, note = self._look(control, query)
            if found is None:
                return None, note  # the driver may not have told yet
            _FOUND[key] = found, note
        return _FOUND[key]

    def _look(self, control: Path, query: str) -> tuple[Path | None, str]:
        note = ""
        given = None if self.checkpoint is None else local_path(self.checkpoint)
        if given is not None:
            there = query_in(given)
            if there == query:
                return given, ""
            if there is not None:
                note = f"checkpoint={self.checkpoint!r} is of another query ({there}), and is not used"
        told = checkpoint_of(control, query)
        folder = None if told is None else local_path(told)
        if folder is not None and query_in(folder) == query:
            return folder, note
        return self._in_default(query), note

    def _in_default(self, query: str) -> Path | None:
        root = None if self.checkpoints is None else local_path(self.checkpoints)
        if root is None or not root.is_dir():
            return None
        return next((f for f in root.iterdir() if f.is_dir() and query_in(f) == query), None)
