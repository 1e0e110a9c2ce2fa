"""Plans: legal ranges, exact ends, a stable name, and JSON that loses nothing."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.plan import KEEP_ALL, SCALE, Plan, threshold
from headgate.core.plan_parts import DrawLevel, WorkLimit
from headgate.errors import BadArgument, SnapshotError

RATES = st.floats(min_value=0.0, max_value=1.0)
KEYS = st.integers(min_value=-(1 << 63), max_value=(1 << 63) - 1)
PLANS = st.builds(
    Plan,
    RATES,
    st.dictionaries(KEYS, RATES, max_size=8),
    st.dictionaries(KEYS, st.sampled_from(["", "x", "ü | null"])),
)


@given(PLANS)
def test_json_gives_an_equal_plan_back(plan: Plan) -> None:
    again = Plan.from_json(json.loads(json.dumps(plan.to_json())))
    assert again == plan
    assert again.digest == plan.digest
    assert again.labels == {k: v for k, v in plan.labels.items() if k in plan.exceptions}


@given(PLANS, PLANS)
def test_the_digest_names_what_is_kept_and_nothing_else(one: Plan, other: Plan) -> None:
    relabelled = Plan(one.default, dict(reversed(list(one.exceptions.items()))), {1: "x"})
    assert relabelled.digest == one.digest
    assert (one.thresholds() == other.thresholds()) == (one.digest == other.digest)


@given(RATES, RATES)
def test_a_higher_rate_never_has_a_lower_threshold(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert 0 <= threshold(low) <= threshold(high) <= SCALE
    assert abs(threshold(one) / SCALE - one) <= 2.0**-52


def test_both_ends_are_exact() -> None:
    assert threshold(0.0) == 0
    assert threshold(1.0) == SCALE == 1 << 62
    assert KEEP_ALL.keeps_everything
    assert not Plan(1.0, {3: 0.999}).keeps_everything
    assert not Plan(0.999).keeps_everything


@pytest.mark.parametrize("rate", [-0.1, 1.0000001, float("nan"), float("inf"), True, "0.5", None])
def test_a_rate_outside_the_unit_interval_is_refused(rate: float) -> None:
    with pytest.raises(BadArgument, match=r"outside \[0, 1\]"):
        Plan(rate)
    with pytest.raises(BadArgument, match=r"of group 7 is outside \[0, 1\]"):
        Plan(0.5, {7: rate})


@pytest.mark.parametrize("key", [1 << 63, -(1 << 63) - 1])
def test_a_key_that_does_not_fit_a_long_is_refused(key: int) -> None:
    with pytest.raises(BadArgument, match="64 bits"):
        Plan(0.5, {key: 0.5})


def test_a_plan_of_another_version_is_refused() -> None:
    with pytest.raises(SnapshotError, match="version 2"):
        Plan.from_json({**KEEP_ALL.to_json(), "v": 2})


@pytest.mark.parametrize("junk", [3, [], {}, {"v": 1}, {"v": 1, "default": 1, "exceptions": [[1]]}])
def test_what_is_no_plan_is_refused_as_a_snapshot(junk: object) -> None:
    with pytest.raises(SnapshotError, match="new control folder"):
        Plan.from_json(junk)  # type: ignore[arg-type]


@given(PLANS, KEYS)
def test_a_group_has_its_exception_or_the_default(plan: Plan, key: int) -> None:
    default, exceptions = plan.thresholds()
    assert threshold(plan.rate_of(key)) == exceptions.get(key, default)


@pytest.mark.parametrize(
    ("plan", "written", "digest"),
    [
        (Plan(0.5, {7: 1.0}), {"default": 0.5, "exceptions": [[7, 1.0]]}, "7d0d7b9a1243"),
        (
            Plan(0.25, draw=DrawLevel(3.5, 2.0, "congress", 9, "eJw=")),
            {
                "default": 0.25,
                "level": 3.5,
                "reference": 2.0,
                "rule": "congress",
                "span_us": 9,
                "present": "eJw=",
            },
            "b921b6a4f994",
        ),
        (
            Plan(0.5, draw=DrawLevel(present="eJw=")),
            {"default": 0.5, "present": "eJw="},
            "60be086ffb08",
        ),
        (
            Plan(1.0, work=WorkLimit(1000.0, 2.5)),
            {"default": 1.0, "work": 1000.0, "result_units": 2.5},
            "3c492c5f4be6",
        ),
        (Plan(0.5, sic=0.125), {"default": 0.5, "sic": 0.125}, "0e31b0f51679"),
    ],
)
def test_plans_are_written_and_named_as_0_1_0_did(
    plan: Plan, written: dict[str, object], digest: str
) -> None:
    value = {"v": 1, "exceptions": [], **written}
    assert plan.to_json() == value
    assert Plan.from_json(value) == plan
    assert plan.digest == digest


@pytest.mark.parametrize("level", [0.0, -1.0, float("inf"), float("nan")])
def test_a_level_that_is_no_positive_number_is_refused(level: float) -> None:
    with pytest.raises(BadArgument, match="not a positive number"):
        DrawLevel(level)


@pytest.mark.parametrize("units", [-1.0, float("inf"), float("nan")])
def test_work_that_is_no_number_of_units_is_refused(units: float) -> None:
    with pytest.raises(BadArgument, match="not a number of units"):
        WorkLimit(units)
