"""The page on a port, for this machine or for whoever has a token."""

from __future__ import annotations

from headgate.coordinator.guarded_server import ConnectionLimits, GuardedServer
from headgate.errors import BadArgument
from headgate.page.access import Access
from headgate.page.app import page_app
from headgate.page.lookout import Lookout
from headgate.sites.wire.http import is_loopback
from headgate.store.places.place import ObjectPath, Place
from headgate.view.observer import Observer

__all__ = ["PORT", "PageServer", "refresh_s_of"]

PORT = 8471
#: Seconds between two looks: at a folder, and at an object store, where each look is some requests.
_FOLDER_S, _OBJECTS_S = 2.0, 10.0
_LEAST_S = 0.2
_LIMITS = ConnectionLimits(
    silent_s=5.0, longest_s=30.0, connections=256, of_a_peer=64, headers=16 << 10, stop_s=2
)


def refresh_s_of(control: Place, given: float | None) -> float:
    """How often a page looks at this store, where nobody says."""
    if given is None:
        return _OBJECTS_S if isinstance(control, ObjectPath) else _FOLDER_S
    if not _LEAST_S <= given <= 3600.0:
        raise BadArgument(f"refresh={given!r}: give {_LEAST_S:g} to 3600 seconds between two looks")
    return given


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
