"""A site's side of the exchange with its coordinator; the standard library and nothing else.

Each exchange is one HTTP request with a deadline. Two things can go wrong, and a site does not do the
same in both: a coordinator that is *gone* (`CoordinatorGone`) is a reason to go on with the local view
and to try again, one that *refuses* (`CoordinatorRefused`) has a reason that someone must read.

Nothing that a message or a log shows holds the token.
"""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import json
import logging
import os
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headgate.errors import BadArgument, CoordinatorGone, CoordinatorRefused
from headgate.sites.incarnation import Incarnation
from headgate.sites.protocol import (
    Leave,
    QueryReport,
    Reply,
    Report,
    check_name,
    leave_to_json,
    read_reply,
    report_to_json,
)

__all__ = ["CoordinatorClient", "fetch_json", "is_loopback"]

#: A reply of 4,096 queries has some 0.6 MB.
_MAX_REPLY = 8 << 20
_log = logging.getLogger("headgate.sites")


class CoordinatorClient:
    """Reports of one site to one coordinator. Calls from several threads take turns.

    `folder` is where the site keeps who it is: with it a site that starts again goes on as the one it
    was; without it, it is a new incarnation, which the coordinator refuses until the old one's lease is
    over.
    """

    def __init__(
        self,
        url: str,
        site: str,
        token: str | None = None,
        *,
        folder: str | os.PathLike[str] | None = None,
        timeout_s: float = 2.0,
    ) -> None:
        self._url = _checked_url(url, token is not None)
        self.site = check_name("site", site)
        if isinstance(timeout_s, bool) or not (0 < timeout_s <= 60):
            raise BadArgument(f"timeout_s={timeout_s!r}: give seconds above 0, up to 60")
        self._token, self._timeout_s = _checked_token(token), timeout_s
        self._turn = threading.Lock()
        self._who = Incarnation(None if folder is None else Path(folder), site)

    @property
    def url(self) -> str:
        """The coordinator's address."""
        return self._url

    @property
    def incarnation(self) -> str:
        """What tells this incarnation of the site from an earlier one: 32 hexadecimal digits."""
        return self._who.name

    def exchange(self, queries: Mapping[str, QueryReport]) -> Reply:
        """Report the queries that this site hosts a part of, and hear how they all fare."""
        for name in queries:
            check_name("query", name)
        with self._turn:
            report = Report(self.site, self.incarnation, self._who.next(), queries)
            return read_reply(self._send("/v1/report", report_to_json(report)))

    def leave(self, queries: Iterable[str] | None = None) -> None:
        """Tell that these queries (or all, and with them the site) are no longer here."""
        names = None if queries is None else tuple(check_name("query", name) for name in queries)
        with self._turn:
            leave = Leave(self.site, self.incarnation, self._who.next(), names)
            self._send("/v1/leave", leave_to_json(leave))

    def close(self) -> None:
        """Let go of the folder; sends nothing."""
        self._who.close()

    def __repr__(self) -> str:
        return f"CoordinatorClient({self._url!r}, {self.site!r})"  # and never the token

    def _send(self, path: str, body: dict[str, Any]) -> bytes:
        data = json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
        try:
            return _request(self._url + path, self._token, self._timeout_s, data)
        except _Cut:
            # The connection broke after the request was sent. The coordinator answers the same report
            # with the same number again, without a second effect, so asking again is safe.
            try:
                return _request(self._url + path, self._token, self._timeout_s, data)
            except _Cut as error:
                raise CoordinatorGone(str(error)) from None


def fetch_json(url: str, path: str, token: str | None = None, *, timeout_s: float = 2.0) -> Any:
    """What a coordinator tells people at `path` (``/v1/queries``, ``/health``)."""
    base = _checked_url(url, token is not None)
    try:
        body = _request(base + path, _checked_token(token), timeout_s, None)
    except _Cut as error:
        raise CoordinatorGone(str(error)) from None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise CoordinatorGone(f"what answers at {base} is no coordinator: check the address") from None


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


class _Cut(Exception):
    """The connection broke between request and answer."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A coordinator never redirects, and whoever does would be sent the token."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _request(url: str, token: str | None, timeout_s: float, data: bytes | None) -> bytes:
    headers = {"Accept": "application/json"}
    if data is not None:
        headers["Content-Type"] = "application/json"
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    base = url.split("/v1/")[0]
    parts = urllib.parse.urlsplit(url)
    handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
    if is_loopback(parts.hostname or ""):
        handlers.append(urllib.request.ProxyHandler({}))  # a proxy's loopback is another machine's
    request = urllib.request.Request(url, data, headers)
    until = time.monotonic() + timeout_s
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=timeout_s) as answer:
            return _read(answer, until)
    except urllib.error.HTTPError as error:
        body = b""
        with error, contextlib.suppress(OSError, http.client.HTTPException):
            body = _read(error, until)
        raise _refusal(error.code, body, error.headers, base) from None
    except urllib.error.URLError as error:
        raise _gone(base, error.reason) from None
    except (http.client.RemoteDisconnected, ConnectionError) as error:
        raise _Cut(f"{base} broke the connection off ({error}): is it being restarted?") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _gone(base, error) from None


def _read(answer: Any, until: float) -> bytes:
    """The body, in bounded time and size: a socket's own time limit is for each piece of it."""
    found = bytearray()
    while piece := answer.read1(1 << 16):
        found += piece
        if len(found) > _MAX_REPLY:
            raise OSError(f"an answer of more than {_MAX_REPLY >> 20} MiB")
        if time.monotonic() > until:
            raise TimeoutError("the answer comes too slowly")
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
                retry_after_s=float(wait) if wait and wait.isdigit() else None,
            )
        return CoordinatorGone(f"{base} answers {status}: {str(error['reason'])[:2000]}")
    return CoordinatorGone(f"{base} answers {status}, and not as a coordinator does: check the address")


def _checked_url(url: str, has_token: bool) -> str:
    if not isinstance(url, str):
        raise BadArgument(f"coordinator={url!r}: give its address, as 'http://127.0.0.1:8470'")
    if "@" in url:
        raise BadArgument(
            "the coordinator's address holds a user or a password (it is not shown): leave them out "
            "(an address is logged), and give the site's token as token="
        )
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadArgument(f"coordinator={url!r} ({error}): write 'http://127.0.0.1:8470'") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadArgument(f"coordinator={url!r}: write it as 'http://127.0.0.1:8470'")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise BadArgument(f"coordinator={url!r}: give scheme, host and port, with no path behind them")
    if has_token and parts.scheme == "http" and not is_loopback(parts.hostname):
        _log.warning(
            "the coordinator at %s is asked without TLS: whoever is between can read this site's token; "
            "put a proxy with TLS in front of it and write https://",
            parts.hostname,
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" + ("" if port is None else f":{port}")


def _checked_token(token: str | None) -> str | None:
    if token is None:
        return None
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or " " in token:
        raise BadArgument(
            "what was given as token= is none (it is not shown): give what `headgate coordinator token "
            "SITE` prints"
        )
    return token
