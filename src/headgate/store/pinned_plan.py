"""`PinnedPlan`: what one batch meets, and why; written at its start, and met again by a replay.

Read by Spark's Python workers once a batch, so this module imports little.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from headgate.core.batch_size import RowsExpected
from headgate.core.plan import Plan
from headgate.errors import SnapshotError

__all__ = ["PinnedPlan"]


@dataclass(frozen=True)
class PinnedPlan:
    """A plan, and why it is this batch's: ``plan``, ``start``, ``fail-open``, ``fail-closed``.

    ``lost-plan``: the batch had run before, and what it met then cannot be known any more. ``rescued``:
    it was begun before and did not end, and keeps fewer rows now (`headgate.core.rescue`).
    """

    plan: Plan
    origin: str
    #: The digest of the `GateShape` that the batch met when it first ran.
    shape: str = ""
    #: What cannot be known of the batch, for the ledger.
    note: str = ""
    #: The run that pinned it, and the number of the gate's call in it (`GateCall`).
    run: str = ""
    call: int = 0
    #: How large the batch was said to be when it was pinned; None where nobody could tell.
    expected: RowsExpected | None = None
    #: Of a batch that may be rescued: which attempt at it this is, and the latest of the runs that began
    #: it before `run` and did not end it (`headgate.store.attempts`).
    attempt: int = 1
    earlier: tuple[str, ...] = ()
    #: Once it keeps fewer rows: how often its plan was tightened, and the first plan that it had.
    cuts: int = 0
    whole: Plan | None = None

    @property
    def said(self) -> str:
        """What people should know of it, for the ledger."""
        rescued = ""
        if self.whole is not None:
            rescued = (
                f"rescued at attempt {self.attempt}: the runs before did not end the batch, and it "
                f"keeps {self.plan.default:.3g} of the rows instead of {self.whole.default:.3g}"
            )
        return "; ".join(filter(None, (rescued, self.note)))

    @property
    def sized(self) -> bool:
        """Whether the plan is for the batch's own size."""
        return self.expected is not None and self.expected.rows is not None

    def to_json(self) -> dict[str, Any]:
        """As the pin's file has it."""
        value = {"plan": self.plan.to_json(), "origin": self.origin, "shape": self.shape}
        optional: dict[str, Any] = {"note": self.note, "run": self.run, "call": self.call}
        optional["expected"] = None if self.expected is None else self.expected.to_json()
        optional["attempt"] = self.attempt if self.attempt > 1 else 0
        optional |= {"earlier": list(self.earlier), "cuts": self.cuts}
        optional["whole"] = None if self.whole is None else self.whole.to_json()
        return value | {name: said for name, said in optional.items() if said}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> PinnedPlan:
        """The pin that `to_json` wrote, in this version or an earlier one."""
        if not (isinstance(value, dict) and {"plan", "origin"} <= value.keys()):
            raise SnapshotError(f"{value!r} is no pinned plan: start with a new control folder")
        expected = value.get("expected")
        with contextlib.suppress(SnapshotError):  # it decides nothing, and must not cost the plan
            expected = None if expected is None else RowsExpected.from_json(expected)
        whole, earlier, call = value.get("whole"), value.get("earlier"), value.get("call", 0)
        return cls(
            Plan.from_json(value["plan"]),
            str(value["origin"]),
            str(value.get("shape", "")),
            str(value.get("note", "")),
            str(value.get("run", "")),
            call if type(call) is int else 0,
            expected if isinstance(expected, RowsExpected) else None,
            max(1, _count(value, "attempt")),
            tuple(map(str, earlier)) if isinstance(earlier, list) else (),
            _count(value, "cuts"),
            None if whole is None else Plan.from_json(whole),
        )


def _count(value: dict[str, Any], name: str) -> int:
    found = value.get(name, 0)
    if type(found) is not int or found < 0:
        raise SnapshotError(f"{name}={found!r} of a pinned plan is no count: remove the batch's pin")
    return found
