"""Who may look, and who may change a setting.

On a loopback address whoever is on this machine may look. Elsewhere looking needs a token, too: group
names on the page are values of the job's own columns. A change needs the token in any case. It travels
in a header that no other site's page can send, so a browser cannot be tricked into a change.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field

from starlette.requests import Request

from headgate.coordinator.buckets import Buckets
from headgate.errors import HeadgateError
from headgate.sites.wire.http import is_loopback
from headgate.sites.wire.tokens import READER, whose

__all__ = ["Access", "Refused"]


class Refused(HeadgateError):
    """A request that is not answered, with the status and the reason."""

    def __init__(self, status: int, code: str, reason: str, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.status, self.code, self.retry_after_s = status, code, retry_after_s


def _strangers() -> Buckets:
    """As a coordinator's: enough for a wrong token to be noticed, too few to guess one."""
    return Buckets(5.0, 20)


@dataclass(frozen=True)
class Access:
    """The rules of one page: `secret` is the token for changes, None where nothing can be changed."""

    secret: bytes | None
    #: Whether the page is served to this machine alone.
    local: bool
    _limit: Buckets = field(default_factory=_strangers)

    def check_look(self, request: Request) -> None:
        """Raises `Refused` where this request may not look."""
        if not self.local:
            self._check_token(request, "look at this page", reader_will_do=True)
            return
        host = _host_asked_for(request)
        if host and not is_loopback(host):  # a name that somebody pointed at this machine
            raise Refused(
                403,
                "not-here",
                f"the request is for {host[:80]!r}, and this page is for its own machine only: ask for "
                "127.0.0.1, or start it with --host and --token-file",
            )

    def check_change(self, request: Request) -> None:
        """Raises `Refused` where this request may not change a setting."""
        if self.secret is None:
            raise Refused(
                403,
                "read-only",
                "this page is read-only: start it with --token-file FILE to change settings here, or "
                "use `headgate set`",
            )
        if self.local:
            self.check_look(request)
        self._check_token(request, "change settings", reader_will_do=False)

    def _check_token(self, request: Request, to_do: str, *, reader_will_do: bool) -> None:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        token, secret = given.strip(), self.secret or b""
        right = hmac.compare_digest(token.encode(errors="replace"), secret)
        reader = whose(secret, token) == READER
        if scheme.lower() == "bearer" and secret and (right or (reader and reader_will_do)):
            return
        wait = self._limit.take(request.client.host if request.client else "")
        if wait:
            raise Refused(
                429, "too-often", f"too many wrong tokens: ask again in {wait:.1f} s", retry_after_s=wait
            )
        if reader:
            raise Refused(403, "reader", "a reader's token may look and not change anything")
        reason = "the token is wrong" if token else "a token is needed"
        raise Refused(401, "bad-token", f"{reason} to {to_do}: give what is in the page's --token-file")


def _host_asked_for(request: Request) -> str:
    """As the header has it: a framework's address of a request falls back to the server's own."""
    given = request.headers.get("host", "").lower()
    return given[1:].partition("]")[0] if given.startswith("[") else given.partition(":")[0]
