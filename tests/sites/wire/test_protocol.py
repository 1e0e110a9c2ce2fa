"""Messages come through the wire as they were, and nothing else comes through."""

from __future__ import annotations

import contextlib
import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.errors import BadArgument, CoordinatorGone, CoordinatorRefused
from headgate.sites.wire import protocol
from headgate.sites.wire.protocol import (
    MAX_SIC,
    Leave,
    QueryReport,
    QueryUpdate,
    Reply,
    Report,
    leave_to_json,
    read_leave,
    read_reply,
    read_report,
    reply_to_json,
    report_to_json,
)

INCARNATION = "0123456789abcdef" * 2
HUGE = 10**400  # a number in JSON, and more than a float holds
#: A machine that stalls is no fault of a message.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", fullmatch=True)
sics = st.none() | st.floats(0, MAX_SIC)


@st.composite
def queries(draw: st.DrawFn) -> QueryReport:
    sources = draw(st.lists(names, unique=True, max_size=4))
    more = draw(st.none() | st.lists(names, max_size=3))
    root = draw(st.booleans())
    return QueryReport(
        tuple(sources),
        None if more is None else tuple(dict.fromkeys(sources + more)),
        root,
        draw(sics) if root else None,
        draw(sics),
        draw(st.floats(1e-3, 1e3)),
        draw(st.integers(-100, 100)),
    )


reports = st.builds(
    Report,
    names,
    st.just(INCARNATION),
    st.integers(1, 2**53),
    st.dictionaries(names, queries(), max_size=4),
)


def body(**changes: Any) -> bytes:
    base = {"v": 1, "site": "rome", "incarnation": INCARNATION, "seq": 1, "queries": {}}
    return json.dumps({k: v for k, v in {**base, **changes}.items() if v is not ...}).encode()


@unhurried
@given(reports)
def test_a_report_comes_through_as_it_was(report: Report) -> None:
    assert read_report(json.dumps(report_to_json(report)).encode()) == report


leaves = st.builds(
    Leave, names, st.just(INCARNATION), st.integers(1, 99), st.none() | st.just(("a", "b"))
)


@unhurried
@given(leaves)
def test_a_goodbye_comes_through_as_it_was(leave: Leave) -> None:
    assert read_leave(json.dumps(leave_to_json(leave)).encode()) == leave


@unhurried
@given(
    st.dictionaries(
        names,
        st.builds(
            QueryUpdate,
            st.floats(0, MAX_SIC),
            st.floats(0, 1e6),
            st.integers(0, 99),
            st.floats(0.1, 9),
            st.just(1),
        )
        | st.builds(QueryUpdate, st.none(), st.none(), st.just(3), st.just(1.0), st.just(0)),
    ),
    st.dictionaries(names, st.text()),
)
def test_a_reply_comes_through_as_it_was(updates: dict[str, QueryUpdate], why: dict[str, str]) -> None:
    reply = Reply(updates, why)
    assert read_reply(json.dumps(reply_to_json(reply)).encode()) == reply


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"result_sic": 4.5, "root": True}, "SIC is from 0 to 4"),
        ({"result_sic": -0.1, "root": True}, "SIC is from 0 to 4"),
        ({"result_sic": 1e999, "root": True}, "SIC is from 0 to 4"),
        ({"result_sic": "0.3", "root": True}, "SIC is from 0 to 4"),
        ({"result_sic": True, "root": True}, "SIC is from 0 to 4"),
        ({"accepted_sic": [0.3]}, "SIC is from 0 to 4"),
        ({"result_sic": HUGE, "root": True}, "SIC is from 0 to 4"),
        ({"accepted_sic": -HUGE}, "SIC is from 0 to 4"),
        ({"result_sic": 0.3}, "not the query's root"),
        ({"root": 1}, "give True or False"),
        ({"weight": 0}, "above 0"),
        ({"weight": True}, "above 0"),
        ({"weight": 1e300}, "above 0"),
        ({"weight": HUGE}, "above 0"),
        ({"priority": 0.5}, "whole number"),
        ({"priority": 10**9}, "whole number"),
        ({"priority": HUGE}, "whole number"),
        ({"sources": "rome-cpu"}, "list of names"),
        ({"sources": {"rome": 1}}, "list of names"),
        ({"sources": ["a", "a"]}, "stands twice"),
        ({"sources": ["a" * 65]}, "1 to 64"),
        ({"sources": ["a\n"]}, "1 to 64"),
        ({"sources": [7]}, "1 to 64"),
        ({"sources": [f"s{i}" for i in range(5000)]}, "at most 4,096"),
        ({"sources": ["a"], "of": ["b", "c"]}, "'a' is unknown: the query's sources are 'b', 'c'"),
        ({"result_sicc": 0.3}, "unknown field 'result_sicc'"),
        ([], "fields of a query"),
        (None, "fields of a query"),
    ],
)
def test_one_query_that_is_wrong_does_not_sink_the_others(entry: Any, says: str) -> None:
    text = body(queries={"bad": entry, "good": {"sources": ["x"]}}).replace(b"Infinity", b"1e999")
    found = read_report(text)
    assert found.queries == {"good": QueryReport(("x",))}
    assert list(found.refused) == ["bad"]
    assert says in found.refused["bad"]


def test_a_query_with_a_name_that_is_none_is_refused_alone() -> None:
    found = read_report(body(queries={"no name!": {}, "x" * 999: {}, "good": {}}))
    assert list(found.queries) == ["good"]
    assert all(len(name) <= 64 for name in found.refused)


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (b"", "no JSON"),
        (b"\xff\xfe{}", "no JSON"),
        (b'{"v": 1, "seq": NaN}', "NaN is not a number"),
        (body(queries={"q": {"root": True, "result_sic": math.nan}}), "NaN is not a number"),
        (body(queries={"q": {"root": True, "result_sic": -math.inf}}), "-Infinity is not a number"),
        (b"[" * 100_000, "no JSON"),
        (b'{"v": 1' + b"1" * 10_000 + b"}", "no JSON"),
        (body()[:-1] + b', "seq": 2}', "stands twice"),
        (b"[]", "JSON object"),
        (body(v=2), "protocol 2"),
        (body(v=True), "protocol True"),
        (body(v=...), "protocol None"),
        (body(site=...), "site name None"),
        (body(site="../etc"), "site name '../etc'"),
        (body(incarnation="xyz"), "32 hexadecimal"),
        (body(incarnation=INCARNATION.upper()), "32 hexadecimal"),
        (body(seq=0), "seq 0"),
        (body(seq=1.5), "seq 1.5"),
        (body(seq=True), "seq True"),
        (body(seq=2**60), "seq"),
        (body(queries=...), "'queries' is missing"),
        (body(queries=[]), "object with a field"),
        (body(clock=12.5), "unknown field 'clock'"),
    ],
)
def test_a_report_that_is_wrong_as_a_whole_is_refused(sent: bytes, says: str) -> None:
    with pytest.raises(CoordinatorRefused) as caught:
        read_report(sent)
    assert says in str(caught.value)
    assert caught.value.status == 400
    assert len(str(caught.value)) < 500


def test_too_many_queries_are_too_many() -> None:
    with pytest.raises(CoordinatorRefused) as caught:
        read_report(body(queries={f"q{i}": {} for i in range(11)}), max_queries=10)
    assert caught.value.status == 413


anything = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.just(HUGE) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@unhurried
@given(
    st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(("v", "site", "incarnation", "seq", "queries", "refused"), anything),
    )
    | anything
)
def test_whatever_comes_nothing_but_a_refusal_comes_of_it(value: Any) -> None:
    sent = json.dumps(value).encode()
    for read in (read_report, read_leave):
        with contextlib.suppress(CoordinatorRefused):
            read(sent)  # type: ignore[operator]
    try:
        reply = read_reply(sent)
    except CoordinatorGone:
        return
    assert all(u.sic is None or 0 <= u.sic <= MAX_SIC for u in reply.queries.values())


@unhurried
@given(st.binary(max_size=40))
def test_bytes_that_are_no_message(sent: bytes) -> None:
    with pytest.raises(CoordinatorRefused):
        read_report(sent)
    with pytest.raises(CoordinatorGone):
        read_reply(sent)


@unhurried
@given(anything)
def test_an_entry_is_read_or_refused_and_never_breaks(value: Any) -> None:
    for name in ("sources", "of", "root", "result_sic", "accepted_sic", "weight", "priority"):
        sent = body(queries={"q": {name: value}}).replace(b"NaN", b"0").replace(b"Infinity", b"1")
        found = read_report(sent)
        assert ("q" in found.queries) != ("q" in found.refused)


@pytest.mark.parametrize(
    "change",
    [
        {"sic": 9.0},
        {"sic": None},
        {"sic": "0.3"},
        {"sic": HUGE},
        {"accepted": HUGE},
        {"age_s": -1.0},
        {"age_s": HUGE},
        {"age_s": None},
        {"sources": -1},
        {"sources": 1.5},
        {"sources": True},
        {"sources": HUGE},
        {"weight": 0.0},
        {"weight": "1"},
        {"weight": HUGE},
        {"priority": 0.5},
        {"priority": HUGE},
    ],
)
def test_a_reply_out_of_range_is_no_reply(change: dict[str, Any]) -> None:
    update = {"sic": 0.5, "age_s": 1.0, "sources": 2, "weight": 1.0, "priority": 0}
    good = {"v": 1, "queries": {"q": update}, "refused": {}}
    assert read_reply(json.dumps(good).encode()).queries["q"].sic == 0.5
    bad = {**good, "queries": {"q": {**update, **change}}}
    with pytest.raises(CoordinatorGone, match="no coordinator of protocol 1"):
        read_reply(json.dumps(bad).encode())


def test_bad_reports_are_told_where_they_are_made() -> None:
    with pytest.raises(BadArgument, match=r"result_sic=nan: SIC is from 0 to 4"):
        QueryReport(root=True, result_sic=math.nan)
    with pytest.raises(BadArgument, match="report it there, with root=True"):
        QueryReport(result_sic=0.5)
    for more in ({"weight": 10**5000}, {"priority": 10**5000}, {"accepted_sic": 10**5000}):
        with pytest.raises(BadArgument, match="a whole number of 16,610 bits"):
            QueryReport(**more)


def test_the_bound_of_sic_is_above_the_bursts_it_is_said_to_be() -> None:
    """A rate that rises k times at once: the sum of n / trailing count over a window, at its highest."""

    def highest(k: float, slides: int = 2000) -> float:
        counts = [1.0] * slides + [k] * slides
        worth = []
        for i in range(slides, 2 * slides):
            worth.append(counts[i] / sum(counts[i - slides + 1 : i + 1]) * 1.0)
        return sum(worth)

    assert highest(10, 400) == pytest.approx(10 / 9 * math.log(10), rel=0.01)
    assert 50 / 49 * math.log(50) < protocol.MAX_SIC < 51 / 50 * math.log(51)
