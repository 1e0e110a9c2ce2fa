"""What is answered over HTTP, to whom; the metrics; and a store that hangs."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headgate.core.plan import Plan
from headgate.errors import BadArgument
from headgate.page.changes import read_change
from headgate.page.lookout import Lookout
from headgate.page.server import PageServer, refresh_s_of
from headgate.sites.wire.tokens import reader_token
from headgate.store.ledger.record import Evidence, Record
from headgate.store.ledger.records import Ledger
from headgate.store.places.place import ObjectPath
from headgate.store.settings_file import SettingsFile
from headgate.view.observer import Observer, View
from headgate.view.readings import METRICS
from tests.eventually import eventually
from tests.page.conftest import TOKEN
from tests.view.virtual_gate import CAPACITY, VirtualGate

Serve = Callable[..., PageServer]


def ask(
    url: str, path: str, *, body: Any = None, token: bytes | str | None = None, **headers: str
) -> tuple[int, str, dict[str, str]]:
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=20)
    if token is not None:
        headers["Authorization"] = f"Bearer {token.decode() if isinstance(token, bytes) else token}"
    data = None if body is None else json.dumps(body)
    if data is not None:
        headers.setdefault("Content-Type", "application/json")
    connection.request("GET" if body is None else "POST", path, data, headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text, {k.lower(): v for k, v in answer.getheaders()}


def reason(text: str) -> str:
    return str(json.loads(text)["error"]["reason"])


def test_the_page_is_whole_without_scripts_and_locked_down(serve: Serve, busy_store: Path) -> None:
    status, text, headers = ask(serve(busy_store).url, "/")
    assert status == 200
    assert "Shedding, and holding" in text
    assert "More comes than fits" in text
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "script-src 'self';" in policy
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"


def test_metrics_are_what_a_parser_reads_and_what_the_ledger_says(
    serve: Serve, busy_store: Path
) -> None:
    status, text, headers = ask(serve(busy_store).url, "/metrics")
    assert status == 200
    assert headers["content-type"].startswith("text/plain")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    names = {s.name for family in families.values() for s in family.samples}
    assert names <= METRICS.keys()
    missing = set(METRICS) - names
    assert missing <= {
        "headgate_backlog_rows",
        "headgate_size_error_ratio",
        "headgate_count_error_ratio",
    }
    for family in families.values():
        assert family.documentation
        assert (family.type == "counter") == any(s.name.endswith("_total") for s in family.samples)
    sums = {
        s.name: s.value
        for family in families.values()
        for s in family.samples
        if s.labels.get("gate") == "rides"
    }
    ledger = next(j for j in Observer(busy_store).look().jobs if j.name == "rides").books
    assert sums["headgate_rows_arrived_total"] == ledger.arrived
    assert sums["headgate_rows_shed_total"] == ledger.shed > 0
    assert sums["headgate_rows_arrived_total"] == (
        sums["headgate_rows_kept_total"] + sums["headgate_rows_shed_total"]
    )
    states = [s for s in families["headgate_state"].samples if s.labels["gate"] == "rides"]
    assert [s.labels["state"] for s in states if s.value == 1.0] == ["shedding"]


def test_counters_do_not_go_back_and_a_stopped_query_has_no_gauges(serve: Serve, control: Path) -> None:
    gate = VirtualGate(control)
    gate.batches(3, 1000)
    url = serve(control).url

    def sample(name: str) -> float | None:
        found = text_string_to_metric_families(ask(url, "/metrics")[1])
        return next((s.value for f in found for s in f.samples if s.name == name), None)

    assert sample("headgate_rows_arrived_total") == 3000
    gate.batches(2, 1000)
    eventually(lambda: sample("headgate_rows_arrived_total") == 5000, "five batches")
    assert sample("headgate_heartbeat_age_seconds") is not None
    gate.stop()
    eventually(lambda: sample("headgate_heartbeat_age_seconds") is None, "no gauges")
    assert sample("headgate_rows_arrived_total") == 5000


def test_a_page_without_a_token_changes_nothing(serve: Serve, control: Path) -> None:
    VirtualGate(control).batches(1, 1000)
    status, text, _ = ask(serve(control).url, "/v1/gates/rides", body={"mode": "off"}, token=TOKEN)
    assert (status, SettingsFile(control, "rides").overrides()) == (403, {})
    assert "read-only: start it with --token-file" in reason(text)


def test_changes_are_checked_before_they_hold(serve: Serve, control: Path) -> None:
    VirtualGate(control).batches(1, 1000)
    url = serve(control, secret=TOKEN).url
    for change, says in (
        ({"mode": "loud"}, "mode='loud' is not one of"),
        ({"hold": "soon"}, "soon"),
        ({"delay": "2 s"}, "made without arrival="),
        ({"min_keep": "much"}, "is no number"),
        ({"retention": "1 day"}, "cannot be changed on the page"),
        ({"mode": ""}, "nothing to change"),
        ([1], "send a JSON object"),
    ):
        status, text, _ = ask(url, "/v1/gates/rides", body=change, token=TOKEN)
        assert status == 400, change
        assert says in reason(text)
    assert ask(url, "/v1/gates/nobody", body={"mode": "off"}, token=TOKEN)[0] == 400
    assert ask(url, "/v1/gates/rides", body={"mode": "x" * 5000}, token=TOKEN)[0] == 413
    assert (
        ask(url, "/v1/gates/rides", body={"mode": "off"}, token=TOKEN, **{"Content-Type": "text/plain"})[
            0
        ]
        == 415
    )
    assert SettingsFile(control, "rides").overrides() == {}
    status, text, _ = ask(url, "/v1/gates/rides", body={"mode": "off"}, token=TOKEN)
    assert (status, json.loads(text)["settings"]["mode"]) == (200, "off")
    assert SettingsFile(control, "rides").overrides() == {"mode": "off"}


def test_wrong_tokens_are_refused_and_soon_limited(serve: Serve, control: Path) -> None:
    VirtualGate(control).batches(1, 1000)
    url = serve(control, secret=TOKEN).url
    for token in (None, b"wrong", reader_token(TOKEN)):
        status, _, headers = ask(url, "/v1/gates/rides", body={"mode": "off"}, token=token)
        assert status == (403 if token == reader_token(TOKEN) else 401)
    assert headers["connection"] == "close"
    codes = [ask(url, "/v1/gates/rides", body={"mode": "off"}, token=b"guess")[0] for _ in range(30)]
    assert 429 in codes
    assert SettingsFile(control, "rides").overrides() == {}


def test_a_name_that_was_pointed_at_this_machine_is_refused(serve: Serve, control: Path) -> None:
    VirtualGate(control).batches(1, 1000)
    status, text, _ = ask(serve(control).url, "/", Host="evil.example:80")
    assert status == 403
    assert "for its own machine only" in reason(text)


@pytest.mark.parametrize(
    "host", ["127.0.0.1@evil.example", "evil.example", "127.0.0.1.evil.example", "a b"]
)
def test_a_host_that_is_no_name_of_this_machine_is_refused_however_it_is_written(
    serve: Serve, control: Path, host: str
) -> None:
    url = serve(control).url
    assert ask(url, "/panels", Host=host)[0] == 403
    for own in ("localhost:80", "LOCALHOST", "[::1]:8471", "127.0.0.1"):
        assert ask(url, "/panels", Host=own)[0] == 200


def test_words_from_the_data_are_words_on_the_page(serve: Serve, control: Path) -> None:
    gate = VirtualGate(control)
    gate.batches(2, 1000)
    tag = '<img src=x onerror="alert(1)">'
    plan = Plan(0.5, {7: 0.1}, labels={7: tag})
    Ledger(control, gate.name, gate.query).append(
        Record(gate.name, gate.query, 2, 10, 5, 5, plan, state=tag, why=tag, origin=tag,
               started_at=time.time(), duration_s=1.0, evidence=Evidence(doubt=tag))
    )  # fmt: skip
    url = serve(control).url
    for path in ("/", "/panels"):
        status, text, _ = ask(url, path)
        shown = text if path == "/" else json.loads(text)["html"]
        assert (status, "<img" in shown) == (200, False)
        assert "&lt;img" in shown
    _, text, _ = ask(url, "/metrics")
    states = [s for f in text_string_to_metric_families(text) for s in f.samples if "state" in s.labels]
    assert tag in {s.labels["state"] for s in states}, "a label that a parser reads back"


def test_what_nobody_foresaw_is_answered_with_a_reason(
    serve: Serve, control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> dict[str, Any]:
        raise ZeroDivisionError

    VirtualGate(control).batches(2, 1000)
    monkeypatch.setattr("headgate.page.app.charts_of", broken)
    status, text, headers = ask(serve(control).url, "/panels")
    assert status == 500
    assert "ZeroDivisionError" in reason(text)
    assert "content-security-policy" in headers


def test_elsewhere_looking_needs_a_token_too(
    serve: Serve, control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    VirtualGate(control).batches(1, 1000)
    with pytest.raises(BadArgument, match=r"host='0.0.0.0' without a token"):
        PageServer(control, host="0.0.0.0", port=0)
    # Served on a loopback address by the rules for all others: no test opens a port to the network.
    monkeypatch.setattr("headgate.page.server.is_loopback", lambda host: False)
    url = serve(control, secret=TOKEN).url
    status, text, _ = ask(url, "/")
    assert status == 200
    assert "rides" not in text, "the frame has nothing of the store"
    for path in ("/panels", "/metrics"):
        assert ask(url, path)[0] == 401
        assert ask(url, path, token=reader_token(TOKEN))[0] == 200
        assert ask(url, path, token=TOKEN)[0] == 200


def test_files_and_nothing_else(serve: Serve, control: Path) -> None:
    url = serve(control).url
    status, text, headers = ask(url, "/static/plotly.min.js")
    assert (status, headers["content-type"].split(";")[0]) == (200, "text/javascript")
    assert "plotly.js v" in text[:400]
    again = ask(url, "/static/plotly.min.js", **{"If-None-Match": headers["etag"]})
    assert again[:2] == (304, "")
    for name in ("..%2fapp.py", "app.py", "page.html"):
        assert ask(url, f"/static/{name}")[0] == 404
    assert json.loads(ask(url, "/health")[1]) == {"status": "serving"}


class Hangs(Observer):
    """A store whose server is gone: nothing comes back until somebody lets it."""

    def __init__(self, control: Path) -> None:
        super().__init__(control)
        self.hang, self.entered = threading.Event(), threading.Event()
        self.hang.set()
        self.looks = 0

    def look(self) -> View:
        self.looks += 1
        self.entered.set()
        assert self.hang.wait(30)
        return super().look()


def test_a_store_that_hangs_holds_no_request(control: Path) -> None:
    VirtualGate(control).batches(3, CAPACITY)
    observer = Hangs(control)
    lookout = Lookout(observer, every_s=0.0, patience_s=0.05)
    while lookout.view().stale:
        pass
    observer.hang.clear()
    hung = [lookout.view() for _ in range(5)]
    assert all("it has not answered for" in view.stale for view in hung)
    assert all(view.verdict.level == "unknown" and len(view.jobs) == 1 for view in hung)
    looks = observer.looks
    lookout.view()
    assert observer.looks == looks, "one thread waits, and not one for each request"
    observer.hang.set()
    while lookout.view().stale:
        pass


def test_many_who_look_at_once_cost_one_look(control: Path) -> None:
    VirtualGate(control).batches(3, 1000)
    observer = Hangs(control)
    lookout = Lookout(observer, every_s=60.0)
    assert len({id(lookout.view()) for _ in range(20)}) == 1
    assert observer.looks == 1
    lookout.refresh()
    lookout.view()
    assert observer.looks == 2


def test_how_often_it_looks(control: Path) -> None:
    assert refresh_s_of(control, None) == 2.0
    assert refresh_s_of(ObjectPath("s3://bucket", "x"), None) == 10.0
    with pytest.raises(BadArgument, match=r"refresh=0.01: give 0.2 to 3600 seconds"):
        refresh_s_of(control, 0.01)


def test_a_change_is_names_and_values() -> None:
    assert read_change(b'{"rate": "0.5", "mode": ""}') == {"rate": 0.5}
    with pytest.raises(BadArgument, match="no JSON object"):
        read_change(b"mode=off")
    with pytest.raises(BadArgument, match="rate=True is no number"):
        read_change(b'{"rate": true}')
