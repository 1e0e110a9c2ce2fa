"""A site's side of the exchange with its coordinator; the standard library and nothing else.

Each exchange is one HTTP request with a deadline for all of it: connecting, asking (a second time too,
if the line broke) and the last byte of the answer. Only how long a name is looked up is the system's
affair. Two things can go wrong, and a site does not do the same in both: a coordinator that is *gone*
(`CoordinatorGone`) is a reason to go on with the local view and to try again, one that *refuses*
(`CoordinatorRefused`) has a reason that someone must read.

Nothing that a message or a log shows holds the token.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import urllib.parse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headgate.errors import BadArgument, CoordinatorGone, CoordinatorRefused
from headgate.sites.wire.http import ConnectionLost, Deadline, is_loopback, send_request
from headgate.sites.wire.incarnation import Incarnation
from headgate.sites.wire.protocol import (
    Leave,
    QueryReport,
    Reply,
    Report,
    check_name,
    leave_to_json,
    read_reply,
    report_to_json,
)
from headgate.store.places.place import ObjectPath, Place

__all__ = ["CoordinatorClient", "fetch_json"]

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
        folder: str | os.PathLike[str] | Place | None = None,
        timeout_s: float = 2.0,
    ) -> None:
        self._url = _checked_url(url, token is not None)
        self.site = check_name("site", site)
        if isinstance(timeout_s, bool) or not (0 < timeout_s <= 60):
            raise BadArgument(f"timeout_s={timeout_s!r}: give seconds above 0, up to 60")
        self._token, self._timeout_s = _checked_token(token), timeout_s
        self._turn = threading.Lock()
        place = folder if folder is None or isinstance(folder, ObjectPath) else Path(folder)
        self._who = Incarnation(place, site)

    @property
    def url(self) -> str:
        """The address of the coordinator, without a path."""
        return self._url

    @property
    def incarnation(self) -> str:
        """What tells this incarnation of the site from an earlier one: 32 hexadecimal digits."""
        return self._who.name

    def exchange(self, queries: Mapping[str, QueryReport]) -> Reply:
        """Report the queries that this site hosts a part of; the reply says how they all fare."""
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

    def skip(self) -> None:
        """Number later reports far above those so far: the coordinator has seen higher ones."""
        with self._turn:
            self._who.skip()

    def close(self) -> None:
        """Release the folder for another process; nothing is sent."""
        self._who.close()

    def __repr__(self) -> str:
        return f"CoordinatorClient({self._url!r}, {self.site!r})"  # and never the token

    def _send(self, path: str, body: dict[str, Any]) -> bytes:
        data = json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
        deadline = Deadline(self._timeout_s)
        try:
            return send_request(self._url + path, self._token, deadline, data)
        except ConnectionLost:
            # The connection broke after the request was sent. The coordinator answers the same report
            # with the same number again, without a second effect, so asking again is safe.
            try:
                return send_request(self._url + path, self._token, deadline, data)
            except ConnectionLost as error:
                raise CoordinatorGone(str(error)) from None
        except CoordinatorRefused as error:
            if error.status == 401 and self._token is None:
                raise CoordinatorRefused(
                    "it asks for a token, and none was given: pass what `headgate coordinator token "
                    f"{self.site}` prints as token=, or set HEADGATE_TOKEN",
                    status=401, code=error.code,
                ) from None  # fmt: skip
            raise


def fetch_json(url: str, path: str, token: str | None = None, *, timeout_s: float = 2.0) -> Any:
    """What a coordinator tells people at `path` (``/v1/queries``, ``/health``)."""
    base = _checked_url(url, token is not None)
    try:
        body = send_request(base + path, _checked_token(token), Deadline(timeout_s), None)
    except ConnectionLost as error:
        raise CoordinatorGone(str(error)) from None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise CoordinatorGone(f"what answers at {base} is no coordinator: check the address") from None


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
