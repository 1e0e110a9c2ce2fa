"""The service on a real port: who is let in, how often, how much; and what a killed one remembers."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from headgate.coordinator.buckets import Buckets
from headgate.coordinator.registry import Registry
from headgate.coordinator.service import CoordinatorServer, ServiceSettings
from headgate.errors import BadArgument, ControlFolderError, CoordinatorGone, CoordinatorRefused
from headgate.sites.wire.client import CoordinatorClient, fetch_json
from headgate.sites.wire.protocol import QueryReport
from headgate.sites.wire.tokens import read_secret, reader_token, site_token
from headgate.testing.clock import ManualClock
from tests.eventually import eventually

pytestmark = pytest.mark.slow

SECRET = b"a secret for tests, and long enough"
ROME, PARIS = site_token(SECRET, "rome"), site_token(SECRET, "paris")
#: For what should be answered, or happen: a slow machine may stall for seconds.
PATIENT_S = 60.0


class Service:
    """A coordinator in this process."""

    def __init__(self, secret: bytes | None = SECRET, **settings: Any) -> None:
        self.registry = Registry()
        self.server = CoordinatorServer(
            self.registry, secret=secret, port=0, settings=ServiceSettings(**settings)
        )
        self.url = self.server.url
        self.port = int(self.url.rpartition(":")[2])

    def client(self, site: str, token: str | None = None, **more: Any) -> CoordinatorClient:
        token = token or site_token(SECRET, site)
        return CoordinatorClient(self.url, site, token, **{"timeout_s": PATIENT_S, **more})

    def fetch(self, path: str, token: str | None = None) -> Any:
        return fetch_json(self.url, path, token, timeout_s=PATIENT_S)

    def line(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENT_S)

    def raw(
        self, method: str, path: str, body: bytes | str = b"", **headers: str
    ) -> tuple[int, dict[str, Any], Any]:
        line = HTTPConnection("127.0.0.1", self.port, timeout=PATIENT_S)
        sent = {"Content-Type": "application/json", "Authorization": f"Bearer {ROME}"}
        sent.update({name.replace("_", "-"): value for name, value in headers.items()})
        line.request(method, path, body or None, sent)
        answer = line.getresponse()
        found = json.loads(answer.read())
        line.close()
        return answer.status, found, answer.headers


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service(site_rate=1000.0, site_burst=1000)
    with made.server:
        yield made


def test_sic_goes_round_between_two_sites(service: Service) -> None:
    rome, paris = service.client("rome"), service.client("paris")
    rome.exchange({"avg": QueryReport(("r",), root=True, result_sic=0.25)})
    update = paris.exchange({"avg": QueryReport(("p",))}).queries["avg"]
    assert (update.sic, update.sources) == (0.25, 2)
    paris.leave()
    assert rome.exchange({"avg": QueryReport(("r",), root=True)}).queries["avg"].sources == 1


def test_anybody_may_ask_whether_it_serves(service: Service) -> None:
    assert service.fetch("/health") == {"v": 1, "status": "serving"}


@pytest.mark.parametrize("token", [None, "", "rome", "rome.00", ROME[:-1] + "x", "*.x", "é"])
def test_a_wrong_token_is_refused(service: Service, token: str | None) -> None:
    before = service.registry.view()
    headers = {"Authorization": f"Bearer {token}" if token is not None else ""}
    body = report("rome", 1)
    for method, path in (("POST", "/v1/report"), ("POST", "/v1/leave"), ("GET", "/v1/queries")):
        status, found, answered = service.raw(method, path, body, **headers)
        assert (status, found["error"]["code"]) == (401, "bad-token")
        assert answered["WWW-Authenticate"] == "Bearer"
    assert service.registry.view() == before


def test_a_site_cannot_speak_for_another(service: Service) -> None:
    service.client("paris").exchange({"avg": QueryReport(("p",))})
    before = service.registry.view()["queries"]
    thief = service.client("paris", token=ROME)
    for speak in (lambda: thief.exchange({"avg": QueryReport()}), thief.leave):
        with pytest.raises(
            CoordinatorRefused, match="token is of site 'rome' and the message of"
        ) as caught:
            speak()
        assert (caught.value.status, caught.value.code) == (403, "not-yours")
    assert service.registry.view()["queries"].keys() == before.keys()


def test_a_reader_may_look_and_not_report(service: Service) -> None:
    service.client("rome").exchange({"avg": QueryReport(("r",), root=True, result_sic=0.5)})
    found = service.fetch("/v1/queries", reader_token(SECRET))
    assert found["queries"]["avg"]["sic"] == 0.5
    assert found["jain"] == 1.0
    with pytest.raises(CoordinatorRefused, match="may look and not report"):
        service.client("rome", token=reader_token(SECRET)).exchange({})


def test_the_last_report_again_is_answered_again(service: Service) -> None:
    first = service.raw("POST", "/v1/report", report("rome", 3))
    assert service.raw("POST", "/v1/report", report("rome", 3))[:1] == first[:1] == (200,)
    status, found, _ = service.raw("POST", "/v1/report", report("rome", 2))
    assert (status, found["error"]["code"]) == (409, "replayed")
    status, found, _ = service.raw("POST", "/v1/leave", report("rome", 3, None))
    assert (status, found["error"]["code"]) == (409, "replayed")
    assert service.registry.view()["sites"]["rome"]["state"] == "here"


@pytest.mark.parametrize("number", [99, 10**400], ids=["large", "huge"])
def test_one_bad_query_does_not_sink_the_report(service: Service, number: int) -> None:
    for seq, bad in enumerate(({"root": True, "result_sic": number}, {"weight": -number}), 1):
        sent = report("rome", seq, {"bad": bad, "good": {}})
        status, found, _ = service.raw("POST", "/v1/report", sent)
        assert (status, list(found["queries"]), list(found["refused"])) == (200, ["good"], ["bad"])
    assert list(service.registry.view()["queries"]) == ["good"]


@pytest.mark.parametrize(
    ("sent", "headers", "status", "code"),
    [
        ("nonsense", {}, 400, "bad-report"),
        ('{"v": NaN}', {}, 400, "bad-report"),
        ('{"v": 2}', {}, 400, "other-version"),
        ("{}", {"Content_Type": "text/plain"}, 415, "bad-report"),
        ("x" * (2 << 20) + "x", {}, 413, "too-large"),
    ],
)
def test_bad_messages_are_refused(
    service: Service, sent: str, headers: dict[str, str], status: int, code: str
) -> None:
    found = service.raw("POST", "/v1/report", sent, **headers)
    assert (found[0], found[1]["error"]["code"]) == (status, code)
    assert service.registry.view()["sites"] == {}


def test_pages_that_are_none(service: Service) -> None:
    for method, path in (
        ("GET", "/"),
        ("GET", "/v1/report"),
        ("DELETE", "/v1/queries"),
        ("GET", "/docs"),
    ):
        status, found, _ = service.raw(method, path)
        assert (status, found["error"]["code"]) == (404, "no-such-page")


@pytest.mark.parametrize("token", ["rome.00", reader_token(SECRET)])
def test_a_large_report_that_is_refused_unread_hears_the_reason(service: Service, token: str) -> None:
    for _ in range(3):
        status, found, _ = service.raw(
            "POST", "/v1/report", b" " * 2_000_000, Authorization=f"Bearer {token}"
        )
        assert (status, found["error"]["code"]) in ((401, "bad-token"), (403, "not-yours"))


def test_a_flood_is_stopped_and_others_go_on() -> None:
    service = Service(site_rate=1.0, site_burst=10)
    over = threading.Event()
    refused: list[CoordinatorRefused] = []

    def flood() -> None:
        client = service.client("rome")
        while not over.is_set():
            try:
                client.exchange({"avg": QueryReport(("r",))})
            except CoordinatorRefused as error:
                refused.append(error)
            except CoordinatorGone:
                pass

    with service.server, ThreadPoolExecutor(1) as pool:
        flooding = pool.submit(flood)
        try:
            eventually(lambda: len(refused) >= 1, "a refusal", PATIENT_S)
            paris = service.client("paris")
            for _ in range(5):
                assert paris.exchange({"top": QueryReport(("p",))}).refused == {}
            eventually(lambda: len(refused) >= 11, "eleven refusals", PATIENT_S)
        finally:
            over.set()
        flooding.result()
    assert {(error.status, error.code) for error in refused} == {(429, "too-often")}
    assert all(error.retry_after_s == 1 for error in refused)


def test_strangers_are_stopped_and_sites_of_the_same_address_go_on() -> None:
    service = Service(stranger_rate=0.01, stranger_burst=3)
    with service.server:
        codes = [
            service.raw("POST", "/v1/report", b"{}", Authorization="Bearer no")[0] for _ in range(5)
        ]
        assert codes == [401, 401, 401, 429, 429]
        assert service.client("rome").exchange({}).refused == {}
        assert service.fetch("/health")["status"] == "serving"


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    service = Service(body_s=2.0)
    with service.server, service.line() as line:
        head = f"POST /v1/report HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ROME}\r\n"
        line.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{".encode())
        assert service.client("paris").exchange({}).refused == {}
        assert line.recv(100).startswith(b"HTTP/1.1 408")


def test_a_site_that_breaks_off_does_no_harm(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    for sent in (b"", b"{" * 50):
        with service.line() as line:
            head = f"POST /v1/report HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ROME}\r\n"
            line.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n".encode())
            line.sendall(sent)
    assert service.client("paris").exchange({}).refused == {}
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
    assert "rome" not in service.registry.view()["sites"]


def test_a_connection_that_says_nothing_is_ended() -> None:
    service = Service(body_s=3.0)  # a connection lives for four of these at most
    openings = (b"", b"POST /v1/rep", b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 100)
    with service.server, contextlib.ExitStack() as stack:
        lines = [stack.enter_context(service.line()) for _ in openings]
        for line, opening in zip(lines, openings, strict=True):
            line.sendall(opening)
        for line in lines:
            with contextlib.suppress(ConnectionResetError):
                assert line.recv(100) == b"", "not before the line's own timeout"


def test_one_address_cannot_have_all_connections() -> None:
    service = Service(max_connections_of_a_peer=3, body_s=PATIENT_S)
    with service.server, contextlib.ExitStack() as stack:
        lines = [stack.enter_context(service.line()) for _ in range(6)]
        for line in lines[3:]:
            with contextlib.suppress(ConnectionResetError):
                assert line.recv(1) == b""
        for line in lines[:3]:
            line.settimeout(0.2)
            with pytest.raises(TimeoutError):
                line.recv(1)


def test_headers_without_end_are_refused(service: Service) -> None:
    # Refused before all of it was read, it may break off at either step.
    with service.line() as line, contextlib.suppress(ConnectionResetError, BrokenPipeError):
        line.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"y" * (1 << 17) + b"\r\n\r\n")
        assert line.recv(100).startswith(b"HTTP/1.1 4")
    assert service.fetch("/health")["status"] == "serving"


def test_without_a_secret_it_serves_this_machine_only() -> None:
    with pytest.raises(BadArgument, match="without a secret"):
        CoordinatorServer(Registry(), secret=None, host="0.0.0.0", port=0)
    service = Service(secret=None, site_rate=0.01, site_burst=2)
    with service.server:
        client = CoordinatorClient(service.url, "rome", timeout_s=PATIENT_S)
        client.exchange({"avg": QueryReport(("r",))})
        client.exchange({})
        with pytest.raises(CoordinatorRefused, match=r"more than 0\.01 times a second"):
            client.exchange({})
        assert service.client("paris").exchange({}).refused == {}
        status, found, _ = service.raw("POST", "/v1/report", report("x", 1), Host="evil.example")
        assert (status, found["error"]["code"]) == (403, "not-yours")


def test_a_journal_that_fails_is_a_coordinator_that_is_gone(service: Service) -> None:
    class Full:
        def write(self, *_: Any) -> None:
            raise ControlFolderError("no room on the disk")

    service.registry._journal = Full()  # type: ignore[assignment]
    with pytest.raises(CoordinatorGone, match="503: no room on the disk"):
        service.client("rome").exchange({})
    service.registry._journal = None
    assert service.client("rome").exchange({}).refused == {}


def test_a_fault_of_ours_is_told_without_its_inside(service: Service) -> None:
    service.registry.view = lambda: 1 / 0  # type: ignore[assignment]
    status, found, _ = service.raw("GET", "/v1/queries")
    assert (status, found["error"]["reason"]) == (500, "the coordinator failed: see its log")


def test_buckets_forget_the_oldest() -> None:
    clock = ManualClock(0.0)
    buckets = Buckets(1.0, 1, most=2, clock=clock)
    assert [buckets.take(name) for name in ("a", "b", "a")] == [0.0, 0.0, 1.0]
    clock.sleep(0.75)
    assert buckets.take("a") == 0.25
    buckets.take("c")  # b, who has not asked for longest, is forgotten
    assert len(buckets._left) == 2
    clock.sleep(0.25)
    assert buckets.take("a") == 0.0
    for rate, burst in ((0.0, 1), (1.0, 0)):
        with pytest.raises(BadArgument):
            Buckets(rate, burst)


def report(site: str, seq: int, queries: Any = ...) -> bytes:
    body = {"v": 1, "site": site, "incarnation": "f" * 32, "seq": seq}
    return json.dumps({**body, "queries": {} if queries is ... else queries}).encode()


class Process:
    """`headgate coordinator` as people start it; none is left running."""

    def __init__(self, *options: object) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-c", "from headgate.cli import main; main()", "coordinator"]
            + [str(option) for option in options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

    def __enter__(self) -> Process:
        try:
            assert self.child.stdout is not None
            assert select.select([self.child.stdout], [], [], PATIENT_S)[0], (
                "it does not say where it is"
            )
            self.url = self.child.stdout.readline().strip()
            eventually(self._serves, "that it serves", PATIENT_S)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _serves(self) -> bool:
        assert self.child.poll() is None, "it ended"
        with contextlib.suppress(CoordinatorGone):
            return bool(fetch_json(self.url, "/health"))
        return False

    def end(self, number: int) -> tuple[int, str]:
        self.child.send_signal(number)
        _, errors = self.child.communicate(timeout=PATIENT_S)
        return self.child.returncode, errors

    def __exit__(self, *_: object) -> None:
        if self.child.poll() is None:
            self.child.kill()
        with self.child:  # closes its pipes, and waits
            pass


def test_a_killed_coordinator_forgets_nothing(tmp_path: Path) -> None:
    options = ("--port", 0, "--lease", "5m", "--state", tmp_path / "state")
    options += ("--secret-file", tmp_path / "secret")

    def client(site: str, **more: Any) -> CoordinatorClient:
        token = site_token(secret, site)
        return CoordinatorClient(process.url, site, token, timeout_s=PATIENT_S, **more)

    began = time.monotonic()
    with Process(*options) as process:
        secret = read_secret(tmp_path / "secret")
        assert secret is not None
        rome, paris = client("rome", folder=tmp_path / "rome"), client("paris")
        for _ in range(3):
            rome.exchange({"avg": QueryReport(("r",), ("r", "p", "b"), True, 0.31)})
        paris.exchange({"avg": QueryReport(("p",))})
        assert process.end(signal.SIGKILL)[0] == -signal.SIGKILL
        with pytest.raises(CoordinatorGone):
            rome.exchange({})
        rome.close()

    with Process(*options) as process:
        token = reader_token(secret)
        found = fetch_json(process.url, "/v1/queries", token, timeout_s=PATIENT_S)
        view = found["queries"]["avg"]
        assert (view["sic"], view["sources"], view["root"], view["missing"]) == (0.31, 3, "rome", ["b"])
        assert 0 < view["age_s"] < time.monotonic() - began + 5
        # A second site of the name, and a report from before the kill.
        with pytest.raises(CoordinatorRefused) as caught:
            client("rome").exchange({})
        assert caught.value.code == "site-taken"
        replayed = client("paris")
        replayed._who = paris._who
        replayed._who._next = 1
        with pytest.raises(CoordinatorRefused) as caught:
            replayed.exchange({"avg": QueryReport(("p", "b"))})
        assert caught.value.code == "replayed"
        # The site itself, started anew as well, goes on.
        rome = client("rome", folder=tmp_path / "rome")
        assert rome.exchange({"avg": QueryReport(("r",), root=True)}).queries["avg"].sic == 0.31
        rome.close()
        _, errors = process.end(signal.SIGTERM)
    assert secret.decode() not in errors
    assert "Traceback" not in errors


def test_the_page_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "coordinator.md").read_text()
    examples = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert examples
    service = Service(secret=None)
    monkeypatch.setenv("HEADGATE_TOKEN", ROME)
    with service.server:
        for example in examples:
            text = example.replace("http://127.0.0.1:8470", service.url)
            exec(text.replace("/var/lib/rome", str(tmp_path)), {})
    assert service.registry.view()["sites"]
