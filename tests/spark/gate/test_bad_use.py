"""Bad use is told at the call: the value, what is legal, the next step."""

from __future__ import annotations

import copy
import inspect
import pickle
from functools import partial
from pathlib import Path

import pytest

import headgate as hg
from headgate.core.plan import Plan
from headgate.policies.policy import OF_THE_GATE


@pytest.fixture
def stream(spark):
    return spark.readStream.format("rate").load()


@pytest.fixture
def batch(spark):
    return spark.range(10).selectExpr("id", "cast(id as string) name", "map('a', 1) extra")


@pytest.mark.parametrize("rate", [0, -0.1, 1.5, "half", True, float("nan")])
def test_a_rate_outside_its_range(rate: object) -> None:
    with pytest.raises(hg.BadArgument, match=r"rate=.*\(0, 1\]"):
        hg.gate("g", rate=rate)  # type: ignore[arg-type]


@pytest.mark.parametrize("hold", [0, -1, "-2 seconds", "soon", "2 parsecs", "", float("inf")])
def test_a_target_that_is_no_duration(hold: object, control: Path) -> None:
    with pytest.raises(hg.BadArgument, match="positive duration"):
        hg.gate("g", hold=hold, control=control)  # type: ignore[arg-type]


@pytest.mark.parametrize("identity", [[], (), "", ["id", None], [1], 5])
def test_an_identity_that_tells_no_rows_apart(identity: object) -> None:
    with pytest.raises(hg.BadArgument, match=r"identity=.*give a column's name"):
        hg.gate("g", rate=0.5, identity=identity)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [1.5, True, "abc", 1 << 63, -(1 << 63) - 1])
def test_a_seed_that_no_plan_can_hold(seed: object) -> None:
    with pytest.raises(hg.BadArgument, match=r"seed=.*whole number from"):
        hg.gate("g", rate=0.5, seed=seed)  # type: ignore[arg-type]
    hg.gate("g", rate=0.5, seed=-(1 << 63))


def test_two_targets_or_none(control: Path) -> None:
    with pytest.raises(hg.BadArgument, match="hold and rate"):
        hg.gate("g", hold="1 s", rate=0.5, control=control)
    with pytest.raises(hg.BadArgument, match="none of them"):
        hg.gate("g", control=control)


def test_a_target_without_a_control_folder() -> None:
    with pytest.raises(hg.BadArgument, match="control="):
        hg.gate("g", hold="1 second")


def test_a_delay_without_an_arrival_column(control: Path) -> None:
    with pytest.raises(hg.BadArgument, match="arrival="):
        hg.gate("g", delay="1 second", control=control)


def test_unknown_columns(stream, control: Path) -> None:
    with pytest.raises(hg.UnknownColumn, match=r"identity='nope'.*timestamp, value"):
        stream.transform(hg.gate("g", rate=0.5, identity="nope"))
    with pytest.raises(hg.UnknownColumn, match="arrival='nope'"):
        stream.transform(hg.gate("g", rate=0.5, arrival="nope", control=control))
    with pytest.raises(hg.UnknownColumn, match="by='nope'"):
        stream.transform(hg.gate("g", rate=0.5, policy=hg.GroupRates("nope", {1: 0.5}), control=control))


def test_an_arrival_column_that_is_no_timestamp(stream, control: Path) -> None:
    with pytest.raises(hg.BadArgument, match=r"bigint, not a timestamp.*cast"):
        stream.transform(hg.gate("g", rate=0.5, arrival="value", control=control))


def test_a_target_on_a_batch(batch, control: Path) -> None:
    with pytest.raises(hg.WrongKindOfFrame, match="give rate="):
        batch.transform(hg.gate("g", hold="1 second", control=control))


def test_two_gates_of_one_name(batch) -> None:
    gated = batch.transform(hg.gate("g", rate=0.5))
    with pytest.raises(hg.BadArgument, match="already in this query"):
        gated.transform(hg.gate("g", rate=0.5))


def test_a_weight_column_of_ones_own(batch) -> None:
    with pytest.raises(hg.BadArgument, match="rename it"):
        batch.selectExpr("*", "1.0 _weight").transform(hg.gate("g", rate=0.5))


@pytest.mark.parametrize("name", ["", "a/b", "a b", "-x", "x" * 65, None])
def test_a_name_that_cannot_be_a_folder(name: object) -> None:
    with pytest.raises(hg.BadArgument, match="gate name"):
        hg.gate(name, rate=0.5)  # type: ignore[arg-type]


def test_a_control_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(hg.ControlFolderError, match="cannot be written"):
        hg.gate("g", hold="1 second", control=tmp_path / "file" / "control")
    with pytest.raises(hg.ControlFolderError, match="begins with one of s3://"):
        hg.gate("g", hold="1 second", control="hdfs://namenode/headgate")


def test_a_predicate_that_is_none(batch) -> None:
    with pytest.raises(hg.BadArgument, match="not true or false"):
        batch.transform(hg.gate("g", rate=0.5, keep="id + 1"))
    with pytest.raises(hg.BadArgument, match="not a predicate"):
        batch.transform(hg.gate("g", rate=0.5, keep="prio = 'high'"))
    with pytest.raises(hg.BadArgument, match="not a predicate"):
        batch.transform(hg.gate("g", rate=0.5, keep="id = = 1"))
    with pytest.raises(hg.BadArgument, match="not both"):
        hg.gate("g", rate=0.5, keep="id = 1", policy=hg.Uniform())
    with pytest.raises(hg.BadArgument, match=r"policy='unifrm': give hg.Uniform"):
        hg.gate("g", rate=0.5, policy="unifrm")


POLICIES = [
    hg.Uniform(),
    hg.ConceptDriven("route"),
    hg.GroupRates("route", {"a": 0.5}),
    hg.ValueClasses(("vip",)),
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_a_policy_in_the_place_of_a_gate(batch, policy: hg.Policy) -> None:
    kind = type(policy).__name__
    with pytest.raises(
        hg.BadArgument, match=rf"^{kind}\(\.\.\.\) is a policy: .*hg\.gate\('name', rate=0\.1"
    ):
        batch.transform(policy)
    with pytest.raises(
        hg.BadArgument, match=rf"policy=<class .*{kind}'>: give .*hg\.ConceptDriven\(\.\.\.\)"
    ):
        hg.gate("g", rate=0.5, policy=type(policy))  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_arguments_that_a_policy_does_not_have(policy: hg.Policy) -> None:
    make = type(policy)
    of_the_gate = (
        rf"^{make.__name__}\(rate=0\.1\): .*hg\.gate\('name', rate=0\.1, policy={make.__name__}"
    )
    with pytest.raises(hg.BadArgument, match=of_the_gate):
        make(rate=0.1)
    with pytest.raises(hg.BadArgument, match=r"hg\.gate\('name', keep='vip'\)$"):
        make(keep="vip")
    with pytest.raises(
        hg.BadArgument, match=r"\(colour='red'\): there is no argument 'colour', it takes"
    ):
        make(colour="red")


def test_a_misspelt_argument_is_guessed() -> None:
    with pytest.raises(hg.BadArgument, match=r"it takes by, window, .*; did you mean window=\?$"):
        hg.ConceptDriven("route", windows="30 minutes")  # type: ignore[call-arg]
    with pytest.raises(hg.BadArgument, match=r"it takes none$"):
        hg.Uniform(by="route")  # type: ignore[call-arg]


def test_the_gates_arguments_are_known_to_policies() -> None:
    assert {*inspect.signature(hg.gate).parameters} - {"name", "policy"} == {*OF_THE_GATE}


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_policies_are_copied_and_pickled_as_before(policy: hg.Policy) -> None:
    assert pickle.loads(pickle.dumps(policy)) == copy.deepcopy(policy) == copy.copy(policy) == policy


def test_a_policy_of_ones_own_takes_what_it_says() -> None:
    class Bare(hg.Policy):
        def plan(self, budget: hg.Budget, groups: hg.GroupStats) -> Plan:
            return Plan(budget.keep)

    class Open(Bare):
        def __init__(self, first: int, **others: object) -> None:
            self.seen = (first, others)

    assert Open(1, rate=0.5).seen == (1, {"rate": 0.5})
    assert Bare().grouping.trivial
    with pytest.raises(hg.BadArgument, match="takes no arguments"):
        Bare(1)
    with pytest.raises(hg.BadArgument, match="it takes none"):
        Bare(colour="red")


def test_groups_by_a_map(batch) -> None:
    with pytest.raises(hg.BadArgument, match="maps"):
        batch.transform(hg.gate("g", rate=0.5, policy=hg.GroupRates("extra", {"x": 0.5})))


def test_named_groups_of_another_type(batch) -> None:
    with pytest.raises(hg.BadArgument, match="does not fit"):
        batch.transform(hg.gate("g", rate=0.5, policy=hg.GroupRates("id", {"x": 0.5})))


def test_modes_and_failure_choices_are_named(control: Path) -> None:
    with pytest.raises(hg.BadArgument, match="'off', 'monitor', 'shed'"):
        hg.gate("g", rate=0.5, mode="on")
    with pytest.raises(hg.BadArgument, match="'open', 'closed'"):
        hg.gate("g", rate=0.5, on_failure="panic")
    with pytest.raises(hg.BadArgument, match="min_keep="):
        hg.gate("g", hold="1 s", min_keep=0, control=control)
    with pytest.raises(hg.BadArgument, match="start="):
        hg.gate("g", hold="1 s", start=2, control=control)


def test_a_control_folder_that_workers_do_not_see(stream, control: Path) -> None:
    gate = hg.gate("g", rate=0.5, control=control)
    control.rmdir()
    control.write_text("not a folder")
    with pytest.raises((hg.WorkerError, OSError), match="control"):
        stream.transform(gate)


def test_a_backfill_from_a_folder_that_no_gate_has_used(spark, control: Path, tmp_path: Path) -> None:
    for read_again in (hg.backfill, partial(hg.recount, checkpoint=tmp_path)):
        with pytest.raises(hg.ControlFolderError, match="there is no folder"):
            read_again(spark, "g", control, lambda offsets: spark.range(0))
        with pytest.raises(hg.ControlFolderError, match="no gate has used"):
            read_again(spark, "g", f"file:{tmp_path}", lambda offsets: spark.range(0))
        with pytest.raises(hg.ControlFolderError, match="begins with one of s3://"):
            read_again(spark, "g", "hdfs://namenode/control", lambda offsets: spark.range(0))
