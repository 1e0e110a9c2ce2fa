"""Mistakes at a call: what is wrong, and how the call is written. No Spark runs here."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import headgate as hg
from headgate.spark.calls import ForTransform, explained
from headgate.spark.sites.site import Site

#: What is asked of a DataFrame before anything else is.
FRAME: Any = SimpleNamespace(isStreaming=True)
NO_SITE: Any = object()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: hg.gate(FRAME, "rides"), "name was given a DataFrame, and takes none"),
        (lambda: hg.gate(FRAME), "name was given a DataFrame, and takes none"),
        (lambda: hg.gate(FRAME, hold="2 seconds"), "name was given a DataFrame, and takes none"),
        (lambda: hg.gate(), "name is missing"),
        (lambda: hg.gate("rides", "2 seconds"), "'2 seconds' has no name in front: only name may stand"),
        (lambda: hg.gate("rides", FRAME), "a SimpleNamespace has no name in front"),
        (
            lambda: hg.gate("rides", hodl="2 seconds"),
            "hodl= is not known here: did you mean hold=? Write",
        ),
        (lambda: hg.gate("rides", zzz=1), "zzz= is not known here. Write"),
        (lambda: hg.gate("rides", name="rides"), "name is given twice"),
        (lambda: hg.gate("rides", rate=FRAME), "rate was given a DataFrame, and takes none"),
    ],
)
def test_a_gate_says_what_is_wrong_and_how_it_is_written(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(hg.BadArgument) as caught:
        call()
    assert said in str(caught.value)
    assert str(caught.value).endswith(
        'Write frame.transform(hg.gate("rides", hold="2 seconds", control="/shared/headgate"))'
    )


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: hg.guard("rides", len), "frame= is 'rides', a str, not a DataFrame"),
        (lambda: hg.guard(len, FRAME), "function was given a DataFrame, and takes none"),
        (lambda: hg.guard(FRAME), "function, schema, key and target are missing"),
        (lambda: hg.guard(FRAME, len, "x int"), "'x int' has no name in front: only frame and function"),
        (lambda: hg.join(FRAME, "rides"), "right= is 'rides', a str, not a DataFrame"),
        (lambda: hg.join(FRAME, FRAME, "user"), "'user' has no name in front: only left and right may"),
        (lambda: hg.join(FRAME, FRAME), "on, within and time are missing"),
        (lambda: hg.gate_join(FRAME, FRAME, on="user"), "name was given a DataFrame, and takes none"),
        (lambda: hg.gate_join("pairs", FRAME, FRAME), "on is missing"),
        (lambda: hg.backfill("rides", "/c"), "control and rows are missing"),
        (lambda: hg.backfill(NO_SITE, FRAME, "/c", len), "gate was given a DataFrame, and takes none"),
        (lambda: hg.backfill(NO_SITE, "rides", "/c", FRAME), "rows was given a DataFrame"),
        (lambda: hg.recount(NO_SITE, "rides", "/c", len), "checkpoint is missing"),
        (lambda: hg.repay("rides", "/c"), "control and to are missing"),
        (lambda: hg.repay(NO_SITE, "rides", "/c", FRAME), "to was given a DataFrame, and takes none"),
        (
            lambda: hg.repay(NO_SITE, "rides", "/c", "/l", "q"),
            "'q' has no name in front: only spark, gate",
        ),
        (lambda: hg.dropped(NO_SITE, "/d"), "name is missing"),
        (lambda: hg.Site(NO_SITE, "rome"), "control is missing"),
        (lambda: Site.gate(NO_SITE, FRAME, query="q"), "name was given a DataFrame, and takes none"),
        (lambda: Site.gate(NO_SITE, "rides"), "query is missing"),
        (lambda: Site.gate(NO_SITE, "rides", "q"), "'q' has no name in front: only name may stand so"),
        (lambda: Site.gate(NO_SITE, "rides", query="q", sources="s"), "did you mean source=?"),
        (lambda: Site.result(NO_SITE, FRAME), "query was given a DataFrame, and takes none"),
    ],
)
def test_so_do_the_others(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(hg.BadArgument) as caught:
        call()
    assert said in str(caught.value)
    assert ". Write " in str(caught.value) or "? Write " in str(caught.value)


def test_a_gate_that_is_used_as_a_frame_says_that_it_is_none() -> None:
    gate: Any = hg.gate("rides", rate=0.5)
    assert repr(gate) == "<hg.gate('rides', ...), for DataFrame.transform>"
    with pytest.raises(
        AttributeError, match=r"that is no DataFrame yet.*frame.transform\(...\).groupBy"
    ):
        gate.groupBy("route")
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = gate.nonsense
    with pytest.raises(hg.BadArgument, match=r"hg.gate\('rides', ...\) is for a DataFrame; got 'rides'"):
        gate("rides")


def test_what_is_right_goes_through_with_its_signature() -> None:
    assert list(inspect.signature(hg.gate).parameters)[:3] == ["name", "hold", "delay"]

    @explained("twice(2)")
    def twice(number: int, **more: int) -> int:
        """Twice as much."""
        return 2 * number + sum(more.values())

    assert (twice(2), twice(number=2, plus=1), twice.__doc__) == (4, 5, "Twice as much.")
    with pytest.raises(TypeError, match="unsupported operand"):  # a fault inside stays what it is
        twice(None)  # type: ignore[arg-type]


def test_it_can_be_sent_elsewhere() -> None:
    sent: Any = pickle.loads(pickle.dumps(ForTransform(len, "a length")))  # type: ignore[arg-type]
    assert repr(sent) == "<a length, for DataFrame.transform>"
