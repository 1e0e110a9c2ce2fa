"""An S3 server in this process whose answers get lost, come late or say that it is busy.

It keeps objects in memory and refuses to create one twice, as S3 does. `next` says what becomes of
requests to come: each word there is used up by one request of its kind.
"""

from __future__ import annotations

import hashlib
import socket
import struct
import threading
import time
from collections import defaultdict, deque
from datetime import UTC, datetime
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from headgate.testing.tied_server import EndsWithBlock

__all__ = ["FaultyS3"]

_STATUS = {"busy": (503, "SlowDown"), "conflict": (409, "ConditionalRequestConflict")}


class FaultyS3(EndsWithBlock):
    """A server on a free port of 127.0.0.1, with one bucket of any name.

    A fault is ``busy`` (503), ``conflict`` (409, of two conditional puts at once), ``lost`` (it is done,
    and the connection ends before the answer), ``cut`` (the connection ends before anything is
    done), or ``hang`` (no answer until the server stops). Kinds are get, put, claim, list, delete.
    """

    def __init__(self) -> None:
        #: What each name holds, and since when.
        self.objects: dict[str, tuple[bytes, float]] = {}
        self.next: defaultdict[str, deque[str]] = defaultdict(deque)
        #: What every request of a kind meets, until it is taken away.
        self.always: dict[str, str] = {}
        self.seen: list[str] = []
        self.lock, self.stopped = threading.Lock(), threading.Event()
        handler = type("Handler", (_Handler,), {"s3": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def environment(self) -> dict[str, str]:
        """What `obstore` needs to find it."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._server.server_address[1]}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "word",
            "AWS_REGION": "us-east-1",
        }

    def fault(self, kind: str) -> str:
        """What becomes of this request; empty for nothing."""
        with self.lock:
            self.seen.append(kind)
            return self.next[kind].popleft() if self.next[kind] else self.always.get(kind, "")

    def stop(self) -> None:
        """Serve no longer."""
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    s3: ClassVar[FaultyS3]
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    #: Of the object that is answered with; None: now.
    _written_at: float | None = None

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        query = parse_qs(parts.query, keep_blank_values=True)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kind, self._written_at = self._kind(query), None
        fault = self.s3.fault(kind)
        if fault == "hang":
            self.s3.stopped.wait()
        if fault in ("cut", "hang"):
            return self._hang_up()
        if fault in _STATUS:
            status, code = _STATUS[fault]
            return self._answer(status, f"<Error><Code>{code}</Code></Error>".encode())
        with self.s3.lock:
            status, data = self._done(kind, unquote(parts.path).split("/", 2)[2:], query, body)
        if fault == "lost":
            return self._hang_up()
        return self._answer(status, data)

    def _kind(self, query: dict[str, list[str]]) -> str:
        if self.command == "PUT":
            return "claim" if self.headers.get("If-None-Match") else "put"
        if self.command == "GET":
            return "list" if "list-type" in query else "get"
        return "delete"

    def _done(
        self, kind: str, key: list[str], query: dict[str, list[str]], body: bytes
    ) -> tuple[int, bytes]:
        objects, name = self.s3.objects, key[0] if key else ""
        if kind == "claim" and name in objects:
            return 412, b"<Error><Code>PreconditionFailed</Code></Error>"
        if kind in ("put", "claim"):
            objects[name] = body, time.time()
            return 200, b""
        if kind == "get":
            if name not in objects:
                return 404, b"<Error><Code>NoSuchKey</Code></Error>"
            data, self._written_at = objects[name]
            return 200, data
        if kind == "list":
            return 200, _listed(objects, query.get("prefix", [""])[0], query.get("delimiter", [""])[0])
        if self.command == "DELETE":
            objects.pop(name, None)
            return 204, b""
        named = [e.text or "" for e in ElementTree.fromstring(body).iter() if e.tag.endswith("Key")]
        for one in named:
            objects.pop(one, None)
        done = "".join(f"<Deleted><Key>{escape(one)}</Key></Deleted>" for one in named)
        return 200, f"<DeleteResult>{done}</DeleteResult>".encode()

    def _answer(self, status: int, data: bytes) -> None:
        self.send_response_only(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()[:32]}"')
        self.send_header("Last-Modified", formatdate(self._written_at, usegmt=True))
        self.end_headers()
        self.wfile.write(data)

    def _hang_up(self) -> None:
        """End the connection at once, without a word."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    do_GET = do_PUT = do_POST = do_DELETE = _serve

    def log_message(self, *_: Any) -> None:
        """Say nothing on the console."""


def _listed(objects: dict[str, tuple[bytes, float]], prefix: str, delimiter: str) -> bytes:
    rows, folders = [], set()
    for name in sorted(objects):
        if not name.startswith(prefix):
            continue
        first, found, _ = name[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
        if found:
            folders.add(prefix + first + delimiter)
            continue
        data, written_at = objects[name]
        when = datetime.fromtimestamp(written_at, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        rows.append(
            f"<Contents><Key>{escape(name)}</Key><Size>{len(data)}</Size>"
            f"<LastModified>{when}</LastModified><ETag>x</ETag></Contents>"
        )
    rows += [f"<CommonPrefixes><Prefix>{escape(f)}</Prefix></CommonPrefixes>" for f in sorted(folders)]
    text = f"<ListBucketResult><IsTruncated>false</IsTruncated>{''.join(rows)}</ListBucketResult>"
    return text.encode()
