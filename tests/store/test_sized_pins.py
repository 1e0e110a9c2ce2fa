"""A pin holds the plan for the batch's own size, where that is known; and says how it was known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headgate.core.batch_size import OFFSETS, BatchSize, RowsExpected, Sizing
from headgate.core.groups import GroupStats, Strata
from headgate.core.load import Budget
from headgate.core.offer import Offer
from headgate.core.plan import KEEP_ALL, Plan
from headgate.core.row_budget import RowBudget
from headgate.errors import SnapshotError
from headgate.store.gate_files.gate_call import GateCall
from headgate.store.plans import PinnedPlan, PlanStore, Resolved

FITS = RowBudget(aim_s=1.0, per_kept_s=0.001, whole=1200)
OFFER = Offer(Budget(0.5, "shedding", fits=FITS), GroupStats())
EXPECTED = RowsExpected(4000.0, OFFSETS, (BatchSize(4000.0, OFFSETS),))
FALLBACK = PinnedPlan(KEEP_ALL, "fail-open")


def _resolve(published: Mapping[str, Any], batch: int) -> Resolved:
    offer = Offer.from_json(published["offer"])
    return Resolved(Plan(offer.at(4000.0).keep), EXPECTED)


@pytest.fixture
def store(tmp_path: Path) -> PlanStore:
    store = PlanStore(tmp_path, "g", "q")
    store.beat()
    return store


def test_a_batch_meets_a_plan_for_its_own_size_and_meets_it_again(store: PlanStore) -> None:
    store.publish(Plan(0.9), after=3, offer=OFFER)
    pin = store.pin(4, FALLBACK, resolve=_resolve)
    assert (pin.plan.default, pin.origin, pin.expected) == (0.25, "plan", EXPECTED)
    store.publish(Plan(0.1), after=4)
    assert store.pin(4, FALLBACK, resolve=_resolve) == pin == store.pinned(4)


def test_a_size_that_nobody_knows_leaves_the_published_plan(store: PlanStore) -> None:
    store.publish(Plan(0.9), after=3, offer=OFFER)
    pin = store.pin(4, FALLBACK, resolve=lambda published, batch: Resolved(note="no checkpoint"))
    assert (pin.plan.default, pin.expected, pin.note) == (0.9, None, "no checkpoint")


def test_a_policy_that_fails_in_a_worker_leaves_the_published_plan_and_says_so(store: PlanStore) -> None:
    def fails(published: Mapping[str, Any], batch: int) -> Resolved:
        raise ZeroDivisionError("a person's policy")

    store.publish(Plan(0.9), after=3, offer=OFFER)
    pin = store.pin(4, FALLBACK, resolve=fails)
    assert pin.plan == Plan(0.9)
    assert "ZeroDivisionError" in pin.note


def test_the_first_batch_is_resolved_from_the_call(store: PlanStore) -> None:
    call = GateCall(opening=KEEP_ALL, offer=OFFER)
    call = GateCall.from_json(json.loads(json.dumps(call.to_json())))
    pin = store.pin(0, FALLBACK, call=call, resolve=_resolve)
    assert (pin.plan.default, pin.origin) == (0.25, "start")


def test_a_failed_plan_is_not_resolved(store: PlanStore) -> None:
    store.publish(KEEP_ALL, after=3, origin="fail-open", offer=OFFER)
    assert store.pin(4, FALLBACK, resolve=_resolve).plan == KEEP_ALL


def test_a_size_that_cannot_be_read_does_not_cost_the_pin(store: PlanStore) -> None:
    store.publish(Plan(0.9), after=3, offer=OFFER)
    pin = store.pin(4, FALLBACK, resolve=_resolve)
    path = store._pin_path(4)
    path.write_text(json.dumps({**pin.to_json(), "expected": {"of": "a later version"}}))
    again = store.pin(4, FALLBACK, resolve=_resolve)
    assert (again.plan, again.expected) == (pin.plan, None)


def test_an_offer_comes_back_from_json() -> None:
    sizing = Sizing()
    sizing.add((BatchSize(9.0, "bytes"),), 3)
    groups = GroupStats({7: 3}, 10, {"a": 7}, Strata(2, (1.0, 2.0), 0.5), 9, "eJw=")
    offer = Offer(Budget(0.5, "shedding", "why", sic=0.25, fits=FITS), groups, sizing, 0.3, "p", False)
    again = Offer.from_json(json.loads(json.dumps(offer.to_json())))
    assert (again.budget, again.groups, again.wanted) == (offer.budget, groups, 0.3)
    assert (again.policy, again.cuts) == ("p", False)
    assert again.sizing.to_json() == sizing.to_json()


@pytest.mark.parametrize("junk", [{}, {"budget": {}, "groups": {}, "sizing": []}])
def test_what_is_no_offer_is_refused(junk: dict[str, object]) -> None:
    with pytest.raises(SnapshotError):
        Offer.from_json(junk)


def test_a_budget_is_for_the_rows_that_the_policy_wants() -> None:
    assert Offer(OFFER.budget, GroupStats(), wanted=0.1).at(4000.0).keep == 1.0
