"""One request to a coordinator, with a deadline for all of it, and what its answer means.

The standard library gives each piece of an exchange the whole time: connecting, each address of a name,
each line of the headers. Here every step has what the steps before it have left.

Why no HTTP library: none of the usual ones has a deadline for a whole exchange. A server that sends a
byte every 0.1 s and never ends a line holds urllib3 2.8 (``Timeout(total=0.3)``) and httpx 0.28
(``timeout=0.3``) for as long as it likes, in the headers and in the body: both start their time limit
anew with every byte. ``tests/sites/wire/test_client.py`` has that server. httpcore, below httpx, would
take a socket layer with a deadline, but that is what most of this file is, and a site would need a
package that Spark does not bring.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import ipaddress
import json
import re
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from functools import partial
from typing import Any

from headgate.errors import CoordinatorGone, CoordinatorRefused

__all__ = ["ConnectionLost", "Deadline", "is_loopback", "send_request"]

#: A reply of 4,096 queries has some 0.6 MB.
_MAX_REPLY = 8 << 20


def is_loopback(host: str) -> bool:
    """Does the name stay on this machine?

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("::1"), is_loopback("10.0.0.1")
    (True, True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class ConnectionLost(Exception):
    """The connection broke between request and answer."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A coordinator never redirects, and whoever does would be sent the token."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Deadline:
    """When an exchange is to be over; a socket's own time limit is for each piece of it.

    A thread that closes the connection would do as well, but a site takes its leave while Python exits,
    and from Python 3.12 on no thread can be started then.
    """

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._until = time.monotonic() + timeout_s

    def left(self) -> float:
        """Seconds that are left; `TimeoutError` if there are none."""
        left = self._until - time.monotonic()
        if left <= 0.0:
            raise TimeoutError("timed out")
        return left

    def connect(self, address: tuple[str, int], *_given: object) -> socket.socket:
        """As `socket.create_connection`, which gives each address of a name the whole time."""
        failed = OSError("the name has no address")
        for *_, found in socket.getaddrinfo(*address, type=socket.SOCK_STREAM):
            line = None
            try:
                line = socket.create_connection((str(found[0]), int(found[1])), self.left())
                line.settimeout(self.left())  # for TLS, which begins before anything is asked
                return line
            except OSError as error:
                if line is not None:
                    line.close()
                failed = error
        raise failed


class _Pieces(io.RawIOBase):
    """What comes over a socket, none of it after the deadline."""

    def __init__(self, pieces: io.RawIOBase, line: socket.socket, deadline: Deadline) -> None:
        self._pieces, self._line, self._deadline = pieces, line, deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._line.settimeout(self._deadline.left())
        return self._pieces.readinto(buffer)

    def close(self) -> None:
        self._pieces.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    def __init__(self, line: socket.socket, *given: Any, deadline: Deadline, **more: Any) -> None:
        super().__init__(line, *given, **more)
        self.fp = io.BufferedReader(_Pieces(self.fp.detach(), line, deadline))


class _Connection(http.client.HTTPConnection):
    def __init__(self, host: str, *, deadline: Deadline, **more: Any) -> None:
        super().__init__(host, **more)
        self._deadline = deadline
        self._create_connection = deadline.connect
        self.response_class = partial(_Answer, deadline=deadline)  # type: ignore[assignment]

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        self.sock.settimeout(self._deadline.left())
        super().send(data)


class _SafeConnection(_Connection, http.client.HTTPSConnection):
    pass


class _Http(urllib.request.HTTPHandler):
    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._connection = partial(_Connection, deadline=deadline)

    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._connection, request)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._connection = partial(_SafeConnection, deadline=deadline)

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._connection, request)


def send_request(url: str, token: str | None, deadline: Deadline, data: bytes | None) -> bytes:
    """What is answered; `ConnectionLost`, `CoordinatorGone` or `CoordinatorRefused` where nothing is."""
    headers = {"Accept": "application/json"}
    if data is not None:
        headers["Content-Type"] = "application/json"
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    base = url.split("/v1/")[0]
    parts = urllib.parse.urlsplit(url)
    handlers: list[urllib.request.BaseHandler] = [_NoRedirect(), _Http(deadline), _Https(deadline)]
    if is_loopback(parts.hostname or ""):
        handlers.append(urllib.request.ProxyHandler({}))  # a proxy's loopback is another machine's
    request = urllib.request.Request(url, data, headers)
    too_late = _gone(base, f"timed out: there was no whole answer after {deadline.timeout_s:g} s")
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=deadline.left()) as answer:
            return _read(answer)
    except urllib.error.HTTPError as error:
        body = b""
        with error:
            try:
                body = _read(error)
            except TimeoutError:
                raise too_late from None
            except (OSError, http.client.HTTPException):
                pass
        raise _refusal(error.code, body, error.headers, base) from None
    except urllib.error.URLError as error:
        raise too_late if isinstance(error.reason, TimeoutError) else _gone(base, error.reason) from None
    except TimeoutError:
        raise too_late from None
    except (http.client.RemoteDisconnected, ConnectionError) as error:
        raise ConnectionLost(
            f"{base} broke the connection off ({error}): is it being restarted?"
        ) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _gone(base, error) from None


def _read(answer: Any) -> bytes:
    """The body, of bounded size."""
    found = bytearray()
    while piece := answer.read1(1 << 16):
        found += piece
        if len(found) > _MAX_REPLY:
            raise OSError(f"an answer of more than {_MAX_REPLY >> 20} MiB")
    return bytes(found)


def _gone(base: str, reason: object) -> CoordinatorGone:
    return CoordinatorGone(
        f"no coordinator answers at {base} ({reason}): start one with `headgate coordinator`, or check "
        "the address; until then a site goes on by itself"
    )


def _refusal(status: int, body: bytes, headers: Any, base: str) -> Exception:
    with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
        error = json.loads(body)["error"]
        if status not in (500, 502, 503, 504):
            wait = headers.get("Retry-After")
            return CoordinatorRefused(
                str(error["reason"])[:2000],
                status=status,
                code=str(error["code"])[:64],
                retry_after_s=float(wait) if wait and re.fullmatch("[0-9]{1,6}", wait) else None,
            )
        return CoordinatorGone(f"{base} answers {status}: {str(error['reason'])[:2000]}")
    return CoordinatorGone(f"{base} answers {status}, and not as a coordinator does: check the address")
