"""One call of a gate, as the workers behind it know it.

A name may be called twice in a session, with two policies, before either query starts. What belongs to a
call travels with its plan source, so that no query meets what was meant for another one's frame. Guards,
joins and meters of results are called so, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.core.offer import Offer, Offered
from headgate.core.plan import KEEP_ALL, Plan
from headgate.errors import SnapshotError

__all__ = ["UNKNOWN_CALL", "GateCall", "new_call"]

_CALLS = itertools.count(1)


@dataclass(frozen=True)
class GateCall:
    """Which gate of its name it made, and the plan of a query's first batch behind it."""

    #: Of its own, in the driver process; 0 for one that no metric and no pin tells from others.
    number: int = 0
    #: The number of its `Spec` in the driver process; 0 where nobody knows.
    spec: int = 0
    opening: Plan = KEEP_ALL
    #: What that plan was made of, for a first batch whose size is known.
    offer: Offered | None = None

    def may_meet(self, published: Mapping[str, Any], owner: str | None) -> bool:
        """Whether a published plan is this gate's, and not a namesake's of the same driver (`owner`).

        Numbers say nothing of another process: the plan of a run before this one goes on until the
        loop has published its own.

        >>> GateCall(spec=2).may_meet({"spec": 1, "owner": "me"}, "me")
        False
        >>> GateCall(spec=2).may_meet({"spec": 1, "owner": "before"}, "me")
        True
        """
        theirs = published.get("spec", 0)
        return not (self.spec and theirs) or theirs == self.spec or published.get("owner") != owner

    def to_json(self) -> dict[str, Any]:
        """As a JSON object, for the pin's file."""
        offer = None if self.offer is None else self.offer.to_json()
        opening = self.opening.to_json()
        return {"number": self.number, "spec": self.spec, "opening": opening, "offer": offer}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> GateCall:
        """The call that `to_json` wrote."""
        try:
            given = value.get("offer")
            offer = None if given is None else Offer.from_json(given)
            return cls(int(value["number"]), int(value["spec"]), Plan.from_json(value["opening"]), offer)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise SnapshotError(f"{value!r} is no call of a gate ({error!r})") from error


UNKNOWN_CALL = GateCall()


def new_call(spec: int = 0, opening: Plan = KEEP_ALL, offer: Offered | None = None) -> GateCall:
    """A call with a number that no other one in this process has."""
    return GateCall(next(_CALLS), spec, opening, offer)
