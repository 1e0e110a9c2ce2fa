"""What the coordinator answers over HTTP: who asks, how often, how much; then the registry decides.

======================  =========================  ====================================================
``POST /v1/report``     a site's token             a `Report` in, a `Reply` out
``POST /v1/leave``      a site's token             a `Leave` in
``GET /v1/queries``     a site's or reader's       what the registry knows, for people and pages
``GET /health``         none                       whether it serves
======================  =========================  ====================================================

Whoever is refused gets ``{"error": {"code", "reason"}}``. The token is looked at before the body is:
what a stranger sends is neither kept nor parsed. Sites are limited each by its own name, strangers by
their address, so a flood takes nothing from others but time. Messages are handled in worker threads,
because a journal waits for its disk; the registry takes them one at a time.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.coordinator.buckets import Buckets
from headgate.coordinator.refusals import RefusedQueries
from headgate.coordinator.registry import Registry
from headgate.errors import ControlFolderError, CoordinatorGone, CoordinatorRefused
from headgate.sites.wire.http import is_loopback
from headgate.sites.wire.protocol import VERSION, read_leave, read_report, reply_to_json
from headgate.sites.wire.tokens import READER, whose

__all__ = ["ServiceSettings", "coordinator_app"]

_log = logging.getLogger("headgate.coordinator")


@dataclass(frozen=True)
class ServiceSettings:
    """What a coordinator takes from whom."""

    #: Messages of one site: a second in the long run, and at once. A site sends one a second, and a few
    #: more when queries end; a person who looks at the page has the same limit.
    site_rate: float = 10.0
    site_burst: int = 20
    #: Requests without a right token, from one address: enough for health checks and for a wrong token
    #: to be noticed, too few to guess one.
    stranger_rate: float = 5.0
    stranger_burst: int = 20
    #: Names and addresses whose limit is remembered: who has not asked for longest has all of it again.
    max_limited: int = 1024
    #: Bytes of a message: 4,096 queries with 20 sources each have some 1.6 MB. And of its headers.
    max_body: int = 2 << 20
    max_headers: int = 16 << 10
    #: Seconds until a connection says something, and until a body is there; and for all of a request.
    body_s: float = 5.0
    request_s: float = 20.0
    #: Connections at once, in all and of one address: sites behind one gateway share theirs.
    max_connections: int = 512
    max_connections_of_a_peer: int = 128
    #: Seconds that requests have to end when the service does.
    stop_s: int = 5


def coordinator_app(
    registry: Registry,
    *,
    secret: bytes | None,
    settings: ServiceSettings | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Starlette:
    """The service as an ASGI application; without a secret it believes everybody."""
    service = _Service(registry, secret, settings or ServiceSettings(), clock)
    return Starlette(
        routes=[
            Route("/health", service.health, methods=["GET"]),
            Route("/v1/queries", service.queries, methods=["GET"]),
            Route("/v1/report", service.report, methods=["POST"]),
            Route("/v1/leave", service.leave, methods=["POST"]),
        ],
        exception_handlers={
            CoordinatorRefused: _refused,
            ControlFolderError: _cannot_write,
            CoordinatorGone: _broke_off,
            404: _no_such_page,
            405: _no_such_page,
            Exception: _broken,
        },
    )


class _Service:
    def __init__(
        self,
        registry: Registry,
        secret: bytes | None,
        settings: ServiceSettings,
        clock: Callable[[], float],
    ) -> None:
        self._registry, self._secret, self._settings = registry, secret, settings
        most = settings.max_limited
        self._sites = Buckets(settings.site_rate, settings.site_burst, most=most, clock=clock)
        self._strangers = Buckets(
            settings.stranger_rate, settings.stranger_burst, most=most, clock=clock
        )
        self._refused = RefusedQueries(_log, registry.settings.max_sites)

    async def health(self, request: Request) -> Response:
        self._stranger(f"health {_peer(request)}")
        return _json(200, {"v": VERSION, "status": "serving"})

    async def queries(self, request: Request) -> Response:
        self._may_ask(await self._who(request) or READER)
        return _json(200, await run_in_threadpool(self._registry.view))

    async def report(self, request: Request) -> Response:
        site, body = await self._message(request)

        def decide() -> dict[str, Any]:
            report = read_report(body, self._registry.settings.max_queries_of_a_site)
            self._speaks_for(site, report.site)
            reply = self._registry.report(report, _digest("report", body))
            self._refused.note(report.site, reply.refused)
            return reply_to_json(reply)

        return _json(200, await run_in_threadpool(decide))

    async def leave(self, request: Request) -> Response:
        site, body = await self._message(request)

        def decide() -> dict[str, Any]:
            leave = read_leave(body)
            self._speaks_for(site, leave.site)
            left = self._registry.leave(leave, _digest("leave", body))
            if leave.queries is None:
                self._refused.forget(leave.site)
            return {"v": VERSION, "left": list(left)}

        return _json(200, await run_in_threadpool(decide))

    async def _message(self, request: Request) -> tuple[str | None, bytes]:
        """Who sends a message, and its body; what can be refused before the body is read is."""
        site = await self._who(request)
        try:
            self._may_send(site, request.headers.get("content-type", ""))
        except CoordinatorRefused:
            await self._drain(request)
            raise
        return site, await self._body(request)

    def _may_send(self, site: str | None, content_type: str) -> None:
        if site is not None:
            self._may_ask(site)
        if site == READER:
            raise CoordinatorRefused(
                "a reader's token may look and not report: give the site its own, `headgate coordinator "
                "token SITE`",
                status=403,
                code="not-yours",
            )
        kind = content_type.split(";")[0].strip().lower()
        if kind != "application/json":  # also what keeps a web page in a browser from reporting
            raise CoordinatorRefused(
                f"content-type {kind[:80]!r}: send application/json", status=415, code="bad-report"
            )

    async def _who(self, request: Request) -> str | None:
        """The site that the token names; None where no tokens are asked for."""
        if self._secret is None:
            host = request.url.hostname or ""
            if not is_loopback(host):  # a page whose name was pointed at this machine
                raise CoordinatorRefused(
                    f"the request is for {host[:80]!r}: this coordinator is open to this machine "
                    "only; ask for 127.0.0.1",
                    status=403,
                    code="not-yours",
                )
            return None
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        name = whose(self._secret, token.strip()) if scheme.lower() == "bearer" else None
        if name is None:
            self._stranger(_peer(request))
            await self._drain(request)
            raise CoordinatorRefused(
                "the token is missing or was not made with this coordinator's secret: give the one that "
                "`headgate coordinator token SITE` prints there",
                status=401,
                code="bad-token",
            )
        return name

    def _may_ask(self, name: str) -> None:
        wait = self._sites.take(name)
        if wait:
            settings = self._settings
            raise CoordinatorRefused(
                f"{name!r} asks more than {settings.site_rate:g} times a second: once a second is "
                f"enough; ask again in {wait:.1f} s",
                status=429,
                code="too-often",
                retry_after_s=wait,
            )

    def _stranger(self, peer: str) -> None:
        wait = self._strangers.take(peer)
        if wait:
            raise CoordinatorRefused(
                f"too many requests without a right token from this address: ask again in {wait:.1f} s",
                status=429,
                code="too-often",
                retry_after_s=wait,
            )

    def _speaks_for(self, token_of: str | None, site: str) -> None:
        if self._secret is None:
            self._may_ask(site)
        elif token_of != site:
            raise CoordinatorRefused(
                f"the token is of site {token_of!r} and the message of site {site!r}: a site reports "
                f"for itself; print the other's with `headgate coordinator token {site}`",
                status=403,
                code="not-yours",
            )

    async def _body(self, request: Request) -> bytes:
        most = self._settings.max_body
        body = bytearray()
        try:
            async with asyncio.timeout(self._settings.body_s):
                async for piece in request.stream():
                    body += piece
                    if len(body) > most:
                        break
        except TimeoutError:
            raise CoordinatorRefused(
                f"the message was not here after {self._settings.body_s:g} s: is the line that slow?",
                status=408,
                code="too-slow",
            ) from None
        except ClientDisconnect:
            raise CoordinatorGone("the site broke off") from None
        if len(body) > most:
            await self._drain(request)
            raise CoordinatorRefused(
                f"the message has more than {most:,} bytes: report fewer queries, or run two sites",
                status=413,
                code="too-large",
            )
        return bytes(body)

    async def _drain(self, request: Request) -> None:
        """Read and drop what still comes, up to a limit: cut off, it would lose the reason."""
        try:
            async with asyncio.timeout(self._settings.body_s):
                passed = 0
                async for piece in request.stream():
                    passed += len(piece)
                    if passed > self._settings.max_body:
                        return
        except (TimeoutError, ClientDisconnect, RuntimeError):
            return


def _digest(kind: str, body: bytes) -> str:
    return hashlib.sha256(kind.encode() + b"\0" + body).hexdigest()


def _peer(request: Request) -> str:
    return request.client.host if request.client is not None else ""


def _json(status: int, value: Any, headers: dict[str, str] | None = None) -> Response:
    body = json.dumps(value, allow_nan=False, separators=(",", ":"))
    # One message a second is not worth a connection that is kept, and those could be held open.
    return Response(
        body, status, {"Connection": "close", **(headers or {})}, media_type="application/json"
    )


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, CoordinatorRefused)
    _log.info("%s %s: %s", request.method, error.status, error)
    wait = error.retry_after_s
    headers = {} if wait is None else {"Retry-After": str(max(1, math.ceil(wait)))}
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return _json(error.status, {"error": {"code": error.code, "reason": str(error)}}, headers)


async def _cannot_write(_: Request, error: Exception) -> Response:
    _log.error("%s", error)
    return _json(503, {"error": {"code": "no-journal", "reason": str(error)}})


async def _no_such_page(request: Request, _: Exception) -> Response:
    reason = (
        f"{request.method[:16]} {request.url.path[:80]!r}: there are POST /v1/report, POST /v1/leave, "
        "GET /v1/queries and GET /health"
    )
    return _json(404, {"error": {"code": "no-such-page", "reason": reason}})


async def _broke_off(_: Request, error: Exception) -> Response:
    return _json(400, {"error": {"code": "broke-off", "reason": str(error)}})  # nobody hears it


async def _broken(_: Request, error: Exception) -> Response:
    _log.error("a request failed", exc_info=error)
    return _json(500, {"error": {"code": "broken", "reason": "the coordinator failed: see its log"}})
