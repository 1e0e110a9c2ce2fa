"""Messages to a coordinator that were spoilt: refused in words, and the registry goes on.

What a single message may hold is in `tests/sites/wire/test_protocol.py`; here they come one after
another, good ones among them, and what is kept of them must be told, written and read again.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.coordinator.journal import Journal
from headgate.coordinator.registry import Registry
from headgate.errors import CoordinatorRefused
from headgate.sites.wire.protocol import read_leave, read_report, reply_to_json
from headgate.testing.clock import ManualClock
from tests.hostile import mangled, texts

_REPORT: dict[str, Any] = {
    "v": 1, "site": "rome", "incarnation": "0" * 32, "seq": 1,
    "queries": {
        "avg": {"sources": ["r", "s"], "of": 3, "root": True, "result_sic": 0.5, "accepted_sic": 0.4,
                "weight": 2.0, "priority": 1},
        "top": {},
    },
}  # fmt: skip
_LEAVE: dict[str, Any] = {"v": 1, "site": "rome", "incarnation": "0" * 32, "seq": 1, "queries": ["avg"]}


def _messages() -> st.SearchStrategy[list[tuple[str, Any]]]:
    report = st.tuples(st.just("report"), st.just(_REPORT) | mangled(_REPORT))
    leave = st.tuples(st.just("leave"), st.just(_LEAVE) | mangled(_LEAVE))
    return st.lists(report | leave, min_size=1, max_size=5)


def _say(registry: Registry, kind: str, message: Any) -> None:
    body = json.dumps(message).encode()
    if kind == "report":
        json.dumps(reply_to_json(registry.report(read_report(body), body.hex()[:64])), allow_nan=False)
    else:
        registry.leave(read_leave(body), body.hex()[:64])


@settings(max_examples=120)
@given(_messages())
def test_whatever_was_said_before_a_good_report_is_answered(messages: list[tuple[str, Any]]) -> None:
    clock = ManualClock(1000.0)
    registry = Registry(clock=clock)
    for number, (kind, message) in enumerate(messages, 1):
        if isinstance(message, dict) and message.get("seq") == 1:
            message = {**message, "seq": number}
        try:
            _say(registry, kind, message)
        except CoordinatorRefused as refused:
            str(refused).encode("utf-8", "backslashreplace")
        clock.sleep(0.5)
        json.dumps(registry.view(), allow_nan=False)
    good = {**_REPORT, "site": "paris", "incarnation": "1" * 32}
    _say(registry, "report", good)
    assert "paris" in registry.view()["sites"]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_messages(), texts())
def test_what_is_remembered_is_read_again(
    tmp_path_factory: Any, messages: list[tuple[str, Any]], name: str
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    journal = Journal(folder)
    registry = Registry(journal=journal)
    named = {**_REPORT, "site": "paris", "incarnation": "1" * 32, "queries": {name: {"sources": [name]}}}
    for number, (kind, message) in enumerate([*messages, ("report", named), ("report", _REPORT)], 1):
        if isinstance(message, dict) and message.get("seq") == 1:
            message = {**message, "seq": number}
        with contextlib.suppress(CoordinatorRefused):
            _say(registry, kind, message)
    known = registry.view()
    journal.close()
    again = Journal(folder)
    found = Registry(journal=again).view()
    again.close()
    assert set(found["sites"]) == set(known["sites"])
    assert set(found["queries"]) == set(known["queries"])
