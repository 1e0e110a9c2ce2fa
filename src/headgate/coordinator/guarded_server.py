"""An application on a port, with limits for whoever connects: the coordinator, and the page."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Self

from starlette.types import ASGIApp
from uvicorn import Config, Server

from headgate.coordinator.connections import guarded
from headgate.coordinator.port import bound_socket

__all__ = ["ConnectionLimits", "GuardedServer"]


@dataclass(frozen=True)
class ConnectionLimits:
    """What a connection may take, and how many there may be."""

    #: A request begins within so many seconds, and all of it is over within so many.
    silent_s: float
    longest_s: float
    #: Connections at once, in all and of one address.
    connections: int
    of_a_peer: int
    #: Bytes of a request's headers.
    headers: int
    #: How long requests in progress may take when the server is to stop.
    stop_s: int


class GuardedServer:
    """Serves in this thread (`run`) or in one of its own (``with``).

    ``port=0`` takes a free one; `url` says which. The port is bound at once, and whether it is free is
    known before anything is served.
    """

    def __init__(
        self, app: ASGIApp, host: str, port: int, limits: ConnectionLimits, thread_name: str
    ) -> None:
        self._socket = bound_socket(host, port)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._socket.getsockname()[1]}"
        config = Config(
            app,
            http=guarded(
                silent_s=limits.silent_s, longest_s=limits.longest_s, of_a_peer=limits.of_a_peer
            ),
            loop="asyncio",
            ws="none",
            lifespan="off",
            # What a proxy says of a peer's address anybody could say, and the limits are by address.
            proxy_headers=False,
            server_header=False,
            access_log=False,
            log_config=None,
            limit_concurrency=limits.connections,
            h11_max_incomplete_event_size=limits.headers,
            timeout_graceful_shutdown=limits.stop_s,
        )
        self._server = Server(config)
        self._thread = threading.Thread(target=self.run, name=thread_name, daemon=True)

    def run(self) -> None:
        """Serve until a signal or `stop`."""
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()

    def stop(self) -> None:
        """Let `run` end once the requests in progress are answered."""
        self._server.should_exit = True

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.005)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._thread.join(10)
