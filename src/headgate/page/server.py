"""The page on a port, for this machine or for whoever has a token."""

from __future__ import annotations

from headgate.coordinator.guarded_server import ConnectionLimits, GuardedServer
from headgate.errors import BadArgument
from headgate.page.access import Access
from headgate.page.app import page_app
from headgate.page.lookout import Lookout, refresh_s_of
from headgate.sites.wire.http import is_loopback
from headgate.store.places.place import Place
from headgate.view.observer import Observer

__all__ = ["PORT", "PageServer", "refresh_s_of"]

PORT = 8471
_LIMITS = ConnectionLimits(
    silent_s=5.0, longest_s=30.0, connections=256, of_a_peer=64, headers=16 << 10, stop_s=2
)


class PageServer(GuardedServer):
    """The page of one control store; ``port=0`` takes a free one, and `url` says which.

    Without a secret nothing can be changed, and the page is for this machine alone.
    """

    def __init__(
        self,
        control: Place,
        *,
        secret: bytes | None = None,
        host: str = "127.0.0.1",
        port: int = PORT,
        refresh_s: float | None = None,
        observer: Observer | None = None,
    ) -> None:
        local = is_loopback(host)
        if secret is None and not local:
            raise BadArgument(
                f"host={host!r} without a token: whoever reaches the port could read group names and "
                "counts; give --token-file (made if it is not there), or --host 127.0.0.1"
            )
        every_s = refresh_s_of(control, refresh_s)
        lookout = Lookout(observer or Observer(control), every_s)
        app = page_app(lookout, control, Access(secret, local), every_s)
        super().__init__(app, host, port, _LIMITS, "headgate-page-server")
