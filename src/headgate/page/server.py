"""The page on a port: bound before anything is served, in this thread or in one of its own."""

from __future__ import annotations

import threading
import time

from uvicorn import Config, Server

from headgate.coordinator.connections import guarded
from headgate.coordinator.port import bound_socket
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
#: A connection says something within so many seconds, and is over within so many.
_SILENT_S, _LONGEST_S = 5.0, 30.0
_CONNECTIONS, _OF_A_PEER = 256, 64


def refresh_s_of(control: Place, given: float | None) -> float:
    """How often a page looks at this store, where nobody says."""
    if given is None:
        return _OBJECTS_S if isinstance(control, ObjectPath) else _FOLDER_S
    if not _LEAST_S <= given <= 3600.0:
        raise BadArgument(f"refresh={given!r}: give {_LEAST_S:g} to 3600 seconds between two looks")
    return given


class PageServer:
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
        self._socket = bound_socket(host, port)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._socket.getsockname()[1]}"
        config = Config(
            page_app(lookout, control, Access(secret, local), every_s),
            http=guarded(silent_s=_SILENT_S, longest_s=_LONGEST_S, of_a_peer=_OF_A_PEER),
            loop="asyncio",
            ws="none",
            lifespan="off",
            proxy_headers=False,
            server_header=False,
            access_log=False,
            log_config=None,
            limit_concurrency=_CONNECTIONS,
            h11_max_incomplete_event_size=16 << 10,
            timeout_graceful_shutdown=2,
        )
        self._server = Server(config)
        self._thread = threading.Thread(target=self.run, name="headgate-page-server", daemon=True)

    def run(self) -> None:
        """Serve until a signal or `stop`."""
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()

    def stop(self) -> None:
        """Let `run` end once the requests in progress are answered."""
        self._server.should_exit = True

    def __enter__(self) -> PageServer:
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.005)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._thread.join(10)
