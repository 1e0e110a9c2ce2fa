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
from headgate.page.lookout import Lookout, refresh_s_of
from headgate.sites.wire.http import is_loopback
from headgate.store.places.place import Place
from headgate.view.observer import Observer

__all__ = ["PORT", "PageServer", "refresh_s_of"]

PORT = 8471
#: A connection says something within so many seconds, and is over within so many.
_SILENT_S, _LONGEST_S = 5.0, 30.0
_CONNECTIONS, _OF_A_PEER = 256, 64


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
