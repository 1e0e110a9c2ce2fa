"""A site's side of the exchange, in front of servers that behave and servers that do not."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import headgate.sites.wire.client as client_module
from headgate.errors import BadArgument, ControlFolderError, CoordinatorGone, CoordinatorRefused
from headgate.sites.wire.client import CoordinatorClient, fetch_json
from headgate.sites.wire.http import ConnectionLost, Deadline
from headgate.sites.wire.protocol import QueryReport

TOKEN = "rome.5ec12e7"
GOOD = json.dumps({"v": 1, "queries": {}, "refused": {}}).encode()
HUGE = b"1" + b"0" * 400
#: For what should be answered: a slow machine may stall for seconds.
PATIENT_S = 30.0


class Fake:
    """A server that does as a test says, and remembers what it was sent."""

    def __init__(self) -> None:
        self.answer: Callable[[BaseHTTPRequestHandler], None] = lambda h: reply(h, 200, GOOD)
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                fake.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                fake.headers.append({k.lower(): v for k, v in self.headers.items()})
                fake.answer(self)

            do_GET = lambda self: fake.answer(self)  # noqa: E731

            def log_message(self, *_: Any) -> None: ...

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                """Clients that go before the answer is whole are what some tests are about."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def client(self, **more: Any) -> CoordinatorClient:
        return CoordinatorClient(self.url, "rome", TOKEN, **{"timeout_s": PATIENT_S, **more})

    def sent(self) -> list[dict[str, Any]]:
        return [json.loads(body) for body in self.bodies]


def reply(handler: BaseHTTPRequestHandler, status: int, body: bytes, **headers: str) -> None:
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


@pytest.fixture
def fake() -> Iterator[Fake]:
    made = Fake()
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_a_report_as_it_goes_out(fake: Fake) -> None:
    client = fake.client()
    client.exchange({"avg": QueryReport(("rome-cpu",), root=True, result_sic=0.31)})
    client.leave(["avg"])
    client.leave()
    first, second, third = fake.sent()
    assert fake.headers[0]["authorization"] == f"Bearer {TOKEN}"
    assert (first["v"], first["site"], first["seq"]) == (1, "rome", 1)
    assert first["queries"]["avg"]["result_sic"] == 0.31
    assert (second["seq"], second["queries"], third["seq"], third["queries"]) == (2, ["avg"], 3, None)
    assert first["incarnation"] == second["incarnation"] == client.incarnation


def test_a_site_that_starts_again_with_its_folder_goes_on(fake: Fake, tmp_path: Path) -> None:
    for _ in range(2):
        client = fake.client(folder=tmp_path)
        client.exchange({})
        client.exchange({})
        client.close()
    sent = fake.sent()
    assert len({body["incarnation"] for body in sent}) == 1
    numbers = [body["seq"] for body in sent]
    assert numbers == sorted(set(numbers))
    fake.client().exchange({})
    assert fake.sent()[-1]["incarnation"] != sent[0]["incarnation"]


def test_numbers_are_on_disk_before_they_are_used(fake: Fake, tmp_path: Path) -> None:
    client = fake.client(folder=tmp_path)
    for _ in range(3):
        client.exchange({})
        kept = json.loads((tmp_path / "coordinator-rome.json").read_text())
        assert kept["next"] > fake.sent()[-1]["seq"]
    client.close()


def test_a_folder_is_one_process_s(fake: Fake, tmp_path: Path) -> None:
    first = fake.client(folder=tmp_path)
    with pytest.raises(ControlFolderError, match="'rome' is running already"):
        fake.client(folder=tmp_path)
    CoordinatorClient(fake.url, "paris", TOKEN, folder=tmp_path).close()
    first.close()
    fake.client(folder=tmp_path).close()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"incarnation": "x", "next": 1}', '{"next": 7}'])
def test_a_damaged_file_makes_a_new_incarnation(fake: Fake, tmp_path: Path, text: str) -> None:
    (tmp_path / "coordinator-rome.json").write_text(text)
    client = fake.client(folder=tmp_path)
    client.exchange({})
    assert len(client.incarnation) == 32
    client.close()


def test_a_folder_that_cannot_be_one(fake: Fake, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ControlFolderError, match="give a folder that this process can write"):
        fake.client(folder=tmp_path / "file")


def test_a_refusal_brings_the_reason(fake: Fake) -> None:
    body = json.dumps({"error": {"code": "site-taken", "reason": "in use; wait 11 s"}}).encode()
    fake.answer = lambda h: reply(h, 409, body, Retry_After="11")
    with pytest.raises(CoordinatorRefused, match="in use; wait 11 s") as caught:
        fake.client().exchange({})
    error = caught.value
    assert (error.status, error.code, error.retry_after_s) == (409, "site-taken", 11.0)
    for wait in ("soon", "-1", "1" * 400):
        fake.answer = partial(reply, status=409, body=body, Retry_After=wait)
        with pytest.raises(CoordinatorRefused) as caught:
            fake.client().exchange({})
        assert caught.value.retry_after_s is None


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b'{"error": {"code": "broken", "reason": "x"}}'),
        (503, b"Service Unavailable"),
        (404, b"<html>nothing here</html>"),
        (409, b"[]"),
        (200, b""),
        (200, b"<html>"),
        (200, b'{"v": 2, "queries": {}, "refused": {}}'),
        (200, b'{"v": 1, "queries": {"q": {"sic": 7}}, "refused": {}}'),
        (200, b"[" * 100_000),
        (
            200,
            b'{"v": 1, "queries": {"q": {"sic": 0.5, "age_s": ' + HUGE + b', "sources": 1, "weight": 1, '
            b'"priority": 0}}, "refused": {}}',
        ),
    ],
)
def test_what_is_no_coordinator_is_gone(fake: Fake, status: int, body: bytes) -> None:
    fake.answer = lambda h: reply(h, status, body)
    with pytest.raises(CoordinatorGone):
        fake.client().exchange({})


def test_nobody_there_is_gone() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(CoordinatorGone, match="start one with `headgate coordinator`"):
            CoordinatorClient(url, "rome", TOKEN).exchange({})


def test_a_server_that_says_nothing_is_gone_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = CoordinatorClient(f"http://127.0.0.1:{server.getsockname()[1]}", "rome", timeout_s=0.2)
        began = time.monotonic()
        with pytest.raises(CoordinatorGone, match=r"timed out: .* after 0\.2 s"):
            client.exchange({})
        assert time.monotonic() - began < 15


@pytest.mark.parametrize(
    "opening",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nX: ",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 409 Conflict\r\n\r\n",
    ],
    ids=["status", "headers", "body", "chunks", "refusal"],
)
def test_an_answer_that_trickles_is_gone_in_time(fake: Fake, opening: bytes) -> None:
    def trickle(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(opening)
        for _ in range(300):  # 30 s in all, and never 0.3 s without a byte
            handler.wfile.write(b"1")
            time.sleep(0.1)

    fake.answer = trickle
    began = time.monotonic()
    with pytest.raises(CoordinatorGone, match="timed out"):
        fake.client(timeout_s=0.3).exchange({})
    assert time.monotonic() - began < 15


def test_an_answer_that_never_ends_is_gone(fake: Fake) -> None:
    fake.answer = lambda h: reply(h, 200, b" " * (9 << 20))
    with pytest.raises(CoordinatorGone, match="more than 8 MiB"):
        fake.client(timeout_s=60).exchange({})


def test_a_second_try_has_what_is_left_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    deadlines = []

    def cut(url: str, token: str | None, deadline: Any, data: bytes | None) -> bytes:
        deadlines.append(deadline)
        raise ConnectionLost("it broke off")

    monkeypatch.setattr(client_module, "send_request", cut)
    with pytest.raises(CoordinatorGone, match="it broke off"):
        CoordinatorClient("http://127.0.0.1:1", "rome").exchange({})
    first, second = deadlines
    assert isinstance(first, Deadline)
    assert first is second


def test_all_addresses_of_a_name_share_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []

    def silent(address: tuple[str, int], timeout: float) -> socket.socket:
        given.append(timeout)
        time.sleep(0.01)
        raise OSError(f"{address[0]} is far away")

    addresses = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"10.0.0.{i}", 80)) for i in range(3)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses)
    monkeypatch.setattr(socket, "create_connection", silent)
    with pytest.raises(OSError, match=r"10\.0\.0\.2 is far away"):
        Deadline(PATIENT_S).connect(("coordinator.example", 80))
    assert len(given) == 3
    assert PATIENT_S >= given[0] > given[1] > given[2]


def test_an_answer_that_is_lost_is_asked_for_again_with_the_same_report(fake: Fake) -> None:
    def cut(handler: BaseHTTPRequestHandler) -> None:
        if len(fake.bodies) == 1:
            handler.connection.shutdown(socket.SHUT_RDWR)
        else:
            reply(handler, 200, GOOD)

    fake.answer = cut
    fake.client().exchange({"avg": QueryReport()})
    assert len(fake.bodies) == 2
    assert fake.bodies[0] == fake.bodies[1]


def test_a_server_that_always_cuts_is_gone(fake: Fake) -> None:
    fake.answer = lambda h: h.connection.shutdown(socket.SHUT_RDWR)
    with pytest.raises(CoordinatorGone, match="broke the connection off"):
        fake.client().exchange({})
    assert len(fake.bodies) == 2


def test_a_redirect_is_not_followed_with_the_token(fake: Fake) -> None:
    thief = Fake()
    for status in (301, 302, 307, 308):
        fake.answer = partial(reply, status=status, body=b"", Location=f"{thief.url}/v1/report")
        with pytest.raises(CoordinatorGone):
            fake.client().exchange({})
        with pytest.raises(CoordinatorGone):
            fetch_json(fake.url, "/v1/queries", TOKEN, timeout_s=PATIENT_S)
    assert thief.bodies == []
    thief.server.shutdown()
    thief.server.server_close()


def test_a_proxy_is_not_asked_for_this_machine(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert fake.client().exchange({}).queries == {}


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("127.0.0.1:8470", "write it as 'http://127.0.0.1:8470'"),
        ("ftp://x", "write it as"),
        ("http://", "write it as"),
        ("http://x:99999", "write 'http://127.0.0.1:8470'"),
        ("http://[::1", "write 'http://127.0.0.1:8470'"),
        ("http://x/path", "no path"),
        ("http://x?token=y", "no path"),
        ("http://rome:hunter2@x:8470", "leave them out"),
        (None, "give its address"),
        ("file:///etc/passwd", "write it as"),
    ],
)
def test_addresses_that_are_none(url: Any, says: str) -> None:
    with pytest.raises(BadArgument, match=says) as caught:
        CoordinatorClient(url, "rome", TOKEN)
    assert "hunter2" not in str(caught.value)


def test_addresses_that_are_one() -> None:
    assert CoordinatorClient("http://[::1]:8470/", "rome").url == "http://[::1]:8470"
    assert CoordinatorClient("https://coordinator.example", "rome").url == "https://coordinator.example"


def test_bad_arguments_are_told() -> None:
    with pytest.raises(BadArgument, match="site name 'ro me'"):
        CoordinatorClient("http://127.0.0.1:1", "ro me")
    for timeout_s in (0, -1, 61, True, float("nan")):
        with pytest.raises(BadArgument, match="timeout_s"):
            CoordinatorClient("http://127.0.0.1:1", "rome", timeout_s=timeout_s)
    for token in ("sec ret", "sec\nret", "sécret"):
        with pytest.raises(BadArgument, match="headgate coordinator token") as caught:
            CoordinatorClient("http://127.0.0.1:1", "rome", token)
        assert token not in str(caught.value)
    with pytest.raises(BadArgument, match="query name 'no name!'"):
        CoordinatorClient("http://127.0.0.1:1", "rome").exchange({"no name!": QueryReport()})


def test_a_token_in_the_clear_is_warned_of_and_never_shown(
    caplog: pytest.LogCaptureFixture, fake: Fake
) -> None:
    with caplog.at_level(logging.DEBUG):
        client = CoordinatorClient("http://coordinator.example:8470", "rome", TOKEN)
        assert "without TLS" in caplog.text
        assert "https://" in caplog.text
        caplog.clear()
        CoordinatorClient("https://coordinator.example:8470", "rome", TOKEN)
        local = fake.client()
        local.exchange({})
        assert caplog.text == ""
        fake.answer = lambda h: reply(h, 401, b'{"error": {"code": "bad-token", "reason": "no"}}')
        with pytest.raises(CoordinatorRefused) as caught:
            local.exchange({})
    shown = caplog.text + str(caught.value) + repr(client) + repr(local)
    assert TOKEN not in shown


def test_a_token_that_was_not_given_is_asked_for_by_name(fake: Fake) -> None:
    fake.answer = lambda h: reply(h, 401, b'{"error": {"code": "bad-token", "reason": "no"}}')
    with pytest.raises(CoordinatorRefused, match=r"coordinator token rome. prints as token=.*HEADGATE_"):
        CoordinatorClient(fake.url, "rome").exchange({})
    with pytest.raises(CoordinatorRefused, match=r"^no$"):
        CoordinatorClient(fake.url, "rome", TOKEN).exchange({})


def test_threads_take_turns(fake: Fake) -> None:
    client = fake.client()
    with ThreadPoolExecutor(4) as pool:
        turns = [pool.submit(lambda: [client.exchange({}) for _ in range(5)]) for _ in range(4)]
        for turn in turns:
            turn.result()
    assert [body["seq"] for body in fake.sent()] == list(range(1, 21))


def test_numbers_that_are_left_out(fake: Fake, tmp_path: Path) -> None:
    client = fake.client(folder=tmp_path)
    client.exchange({})
    client.skip()
    client.exchange({})
    client.close()
    first, second = (body["seq"] for body in fake.sent())
    assert second > first + 1000, "above a block that an old copy of the file may lack"
