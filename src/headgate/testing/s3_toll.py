"""`S3Toll`: in front of an S3 server, counts its requests, makes them slow, lets claims through singly.

The servers that run on one machine look whether a name is taken and then write it, in two steps, so
that two conditional puts at once may both succeed; S3 itself refuses one of them. Here they pass one
at a time, which makes such a server as good as S3 in this. A request may be delayed, as it is
on the way to a store that is not in this machine.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from headgate.testing.tied_server import EndsWithBlock

__all__ = ["S3Toll"]

_SKIPPED = {"connection", "transfer-encoding", "keep-alive", "date", "server"}


class _Server(ThreadingHTTPServer):
    """Lets many connect at one moment, as S3 does.

    Python's servers have five wait to be accepted. The kernel passes over who comes beyond that, and the
    client asks again after one, three and seven seconds: so 200 tasks that read one pin waited for ten.
    """

    request_queue_size = 1024
    daemon_threads = True


class S3Toll(EndsWithBlock):
    """A proxy on a free port of 127.0.0.1; `counts` has how many requests of each kind passed."""

    def __init__(self, endpoint: str, delay_s: float = 0.0) -> None:
        self.delay_s = delay_s
        self._counts: Counter[str] = Counter()
        self._lock, self._claims = threading.Lock(), threading.Lock()
        host = urlsplit(endpoint).netloc
        handler = type("Handler", (_Handler,), {"toll": self, "upstream": host})
        self._server = _Server(("127.0.0.1", 0), handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def counts(self) -> dict[str, int]:
        """Requests since the last `reset`: get, put, claim (a conditional put), list, delete."""
        with self._lock:
            return dict(self._counts)

    def reset(self) -> None:
        """Forget what passed so far."""
        with self._lock:
            self._counts.clear()

    def note(self, kind: str) -> None:
        """One of this kind passed."""
        with self._lock:
            self._counts[kind] += 1

    def stop(self) -> None:
        """Take no more requests."""
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """Passes a request on over a connection of its thread's own."""

    toll: ClassVar[S3Toll]
    upstream: ClassVar[str]
    protocol_version = "HTTP/1.1"
    #: Without this each answer waits for the other side's acknowledgement.
    disable_nagle_algorithm = True
    _connection: http.client.HTTPConnection | None = None

    def _pass_on(self) -> None:
        kind = self._kind()
        self.toll.note(kind)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.toll.delay_s:
            time.sleep(self.toll.delay_s)
        if kind == "claim":
            with self.toll._claims:
                answer, data = self._asked(body)
        else:
            answer, data = self._asked(body)
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in (*_SKIPPED, "content-length"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(data))
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        self.wfile.write(data)

    def _asked(self, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
        headers = {k: v for k, v in self.headers.items() if k.lower() not in _SKIPPED}
        for attempt in range(2):
            fresh = self._connection is None
            if self._connection is None:
                self._connection = http.client.HTTPConnection(self.upstream, timeout=30.0)
            try:
                self._connection.request(self.command, self.path, body, headers)
                answer = self._connection.getresponse()
                return answer, answer.read()
            except (http.client.HTTPException, OSError):
                self._connection = None  # the server had closed it meanwhile
                if fresh or attempt:
                    raise
        raise AssertionError("not reached")

    def _kind(self) -> str:
        query = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        if self.command == "PUT":
            return "claim" if self.headers.get("If-None-Match") else "put"
        if self.command == "GET":
            return "list" if "list-type" in query else "get"
        return "delete" if self.command in ("DELETE", "POST") else self.command.lower()

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on

    def log_message(self, *_: Any) -> None:
        """Say nothing on the console."""
