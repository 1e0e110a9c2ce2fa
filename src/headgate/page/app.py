"""What the page answers over HTTP.

=========================  ===========================================================================
``GET /``                  the page
``GET /panels``            what changes on it, with the charts' values, as JSON for its own script
``GET /metrics``           the same facts for Prometheus
``GET /health``            whether it serves
``POST /v1/gates/{gate}``  a change of settings; needs the token
``GET /v1/what-if/{key}``  an hour of a query once more, in virtual time
``GET /static/{name}``     its style sheet, its script, and plotly.js from the installed package
=========================  ===========================================================================

Nothing is loaded from anywhere else, and the page's policy (CSP) lets no script run but these files.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import logging
import math
import re
from functools import cache
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.errors import HeadgateError
from headgate.page.access import Access, Refused
from headgate.page.asking import Asking
from headgate.page.changes import apply_change, read_change
from headgate.page.charts import charts_of
from headgate.page.lookout import Lookout
from headgate.page.metrics import CONTENT_TYPE, exposition
from headgate.page.render import render_page, render_panels
from headgate.store.places.place import Place

__all__ = ["page_app"]

log = logging.getLogger("headgate.page")

_MOST_BODY, _BODY_S = 4096, 5.0
#: plotly.js makes one empty style element, and fills it through the style sheet's own interface: the
#: second source is the digest of nothing.
_EMPTY = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
_HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; script-src 'self'; style-src 'self' {_EMPTY}; img-src 'self' data:; "
        "connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    # A look every two seconds is not worth a connection that is kept, and those could be held open.
    "Connection": "close",
}
_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def page_app(lookout: Lookout, control: Place, access: Access, refresh_s: float) -> Starlette:
    """The page as an ASGI application."""
    page = _Page(lookout, control, access, refresh_s)
    return Starlette(
        routes=[
            Route("/", page.page, methods=["GET"]),
            Route("/panels", page.panels, methods=["GET"]),
            Route("/metrics", page.metrics, methods=["GET"]),
            Route("/health", page.health, methods=["GET"]),
            Route("/static/{name}", page.static, methods=["GET"]),
            Route("/v1/gates/{gate}", page.change, methods=["POST"]),
            Route("/v1/what-if/{key}", page.what_if, methods=["GET"]),
        ],
        exception_handlers={
            Refused: _refused,
            HeadgateError: _illegal,
            OSError: _unusable,
            Exception: _unforeseen,
        },
    )


class _Page:
    def __init__(self, lookout: Lookout, control: Place, access: Access, refresh_s: float) -> None:
        self._lookout, self._control, self._access = lookout, control, access
        self._refresh_s, self._asking = refresh_s, Asking(control)

    async def page(self, request: Request) -> Response:
        try:
            self._access.check_look(request)
            view = await run_in_threadpool(self._lookout.view)
        except Refused as refused:
            if refused.status != 401:
                raise
            view = None  # the frame has nothing of the store; its script asks for a token
        read_only = self._access.secret is None
        styles = await run_in_threadpool(_map_styles)
        text = render_page(view, read_only=read_only, refresh_s=self._refresh_s, styles_left_out=styles)
        return _answer(request, text.encode(), "text/html; charset=utf-8")

    async def panels(self, request: Request) -> Response:
        self._access.check_look(request)
        view = await run_in_threadpool(self._lookout.view)
        html = render_panels(view, read_only=self._access.secret is None)
        charts = {name: chart for job in view.jobs for name, chart in charts_of(job).items()}
        value = {"html": html, "charts": charts}
        body = json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
        return _answer(request, body, "application/json")

    async def metrics(self, request: Request) -> Response:
        self._access.check_look(request)
        view = await run_in_threadpool(self._lookout.view)
        return _answer(request, exposition(view), CONTENT_TYPE)

    async def health(self, _: Request) -> Response:
        return _json(200, {"status": "serving"})

    async def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        found = await run_in_threadpool(_static, name)
        if found is None:
            raise Refused(404, "no-such-page", f"there is no {name[:80]!r} here")
        plain, packed, tag = found
        headers = {**_HEADERS, "Cache-Control": "no-cache", "ETag": tag, "Vary": "Accept-Encoding"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            plain, headers["Content-Encoding"] = packed, "gzip"
        return Response(plain, headers=headers, media_type=_TYPES[name.rpartition(".")[2]])

    async def change(self, request: Request) -> Response:
        self._access.check_change(request)
        kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
        if kind != "application/json":
            raise Refused(415, "bad-change", f"content-type {kind[:80]!r}: send application/json")
        change = read_change(await _body(request))
        who = request.client.host if request.client else "somebody"
        gate = request.path_params["gate"]
        after = await run_in_threadpool(apply_change, self._control, gate, change, who)
        self._lookout.refresh()
        return _json(200, {"gate": gate, "settings": after.to_json(), "changed": change})

    async def what_if(self, request: Request) -> Response:
        self._access.check_look(request)
        view = await run_in_threadpool(self._lookout.view)
        key, asked = request.path_params["key"], dict(request.query_params)
        return _json(200, await run_in_threadpool(self._asking.answer, view, key, asked))


#: What plotly.js asks for before it puts the styles of maps into the page.
_MAP_STYLES = re.compile(
    rb'getElementById\("([0-9a-f]{64})"\)\)\{var \w+=document\.createElement\("style"\)'
)


@cache
def _map_styles() -> str:
    """The id of those styles: where an element has it they are left out.

    The page draws no maps, and its policy allows no style but its own; the browser would complain of
    them at each load. Empty where the script of another version has none, or does it another way.
    """
    found = _static("plotly.min.js")
    match = None if found is None else _MAP_STYLES.search(found[0])
    return "" if match is None else match[1].decode()


@cache
def _static(name: str) -> tuple[bytes, bytes, str] | None:
    """A file's bytes, the same compressed, and what names them; read and compressed once."""
    if name == "plotly.min.js":
        place = files("plotly") / "package_data" / "plotly.min.js"
    elif name in ("page.css", "page.js", "icon.svg"):
        place = files("headgate.page") / "static" / name
    else:
        return None
    plain = place.read_bytes()
    return plain, gzip.compress(plain, 6, mtime=0), f'"{hashlib.sha256(plain).hexdigest()[:20]}"'


async def _body(request: Request) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_S):
            async for piece in request.stream():
                body += piece
                if len(body) > _MOST_BODY:
                    raise Refused(413, "too-large", f"a change has at most {_MOST_BODY:,} bytes")
    except (TimeoutError, ClientDisconnect):
        raise Refused(408, "too-slow", "the change was not here in time: send it again") from None
    return bytes(body)


def _answer(request: Request, body: bytes, media_type: str) -> Response:
    headers = dict(_HEADERS)
    if "gzip" in request.headers.get("accept-encoding", "") and len(body) > 1000:
        body, headers["Content-Encoding"] = gzip.compress(body, 1), "gzip"
    return Response(body, headers=headers, media_type=media_type)


def _json(status: int, value: Any, headers: dict[str, str] | None = None) -> Response:
    body = json.dumps(value, separators=(",", ":"))
    return Response(body, status, {**_HEADERS, **(headers or {})}, media_type="application/json")


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    log.info("%s %s: %s", request.method, error.status, error)
    wait = error.retry_after_s
    headers = {} if wait is None else {"Retry-After": str(max(1, math.ceil(wait)))}
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return _json(error.status, {"error": {"code": error.code, "reason": str(error)}}, headers)


async def _illegal(_: Request, error: Exception) -> Response:
    return _json(400, {"error": {"code": "illegal", "reason": " ".join(str(error).split())}})


async def _unusable(_: Request, error: Exception) -> Response:
    reason = f"the control store cannot be used ({getattr(error, 'strerror', None) or error})"
    return _json(503, {"error": {"code": "no-store", "reason": reason}})


async def _unforeseen(_: Request, error: Exception) -> Response:
    """The server's log has the rest: the script shows a reason, whatever it is."""
    reason = f"this page could not be made ({type(error).__name__}): the log of headgate serve says why"
    return _json(500, {"error": {"code": "fault", "reason": reason}})
