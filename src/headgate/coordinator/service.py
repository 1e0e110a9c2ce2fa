"""The coordinator on a port: bound before anything is served, and with limits for whoever connects."""

from __future__ import annotations

import threading
import time

from uvicorn import Config, Server

from headgate.coordinator.app import ServiceSettings, coordinator_app
from headgate.coordinator.connections import guarded
from headgate.coordinator.port import bound_socket
from headgate.coordinator.registry import Registry
from headgate.errors import BadArgument
from headgate.sites.wire.http import is_loopback

__all__ = ["CoordinatorServer", "ServiceSettings"]


class CoordinatorServer:
    """The service on a port, in this thread (`run`) or in one of its own (``with``).

    ``port=0`` takes a free one; `url` says which. The port is bound at once, and whether it is free is
    known before anything is served.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        secret: bytes | None,
        host: str = "127.0.0.1",
        port: int = 8470,
        settings: ServiceSettings | None = None,
    ) -> None:
        if secret is None and not is_loopback(host):
            raise BadArgument(
                f"host={host!r} without a secret: whoever reaches the port could speak for any site; "
                "give --secret-file, or --open with --host 127.0.0.1"
            )
        settings = settings or ServiceSettings()
        self._socket = bound_socket(host, port)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._socket.getsockname()[1]}"
        config = Config(
            coordinator_app(registry, secret=secret, settings=settings),
            http=guarded(
                silent_s=settings.body_s,
                longest_s=settings.request_s,
                of_a_peer=settings.max_connections_of_a_peer,
            ),
            loop="asyncio",
            ws="none",
            lifespan="off",
            # What a proxy says of a peer's address anybody could say, and the limits are by address.
            proxy_headers=False,
            server_header=False,
            access_log=False,
            log_config=None,
            limit_concurrency=settings.max_connections,
            h11_max_incomplete_event_size=settings.max_headers,
            timeout_graceful_shutdown=settings.stop_s,
        )
        self._server = Server(config)
        self._thread = threading.Thread(target=self.run, name="headgate-coordinator", daemon=True)

    def run(self) -> None:
        """Serve until a signal or `stop`."""
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()

    def stop(self) -> None:
        """Let `run` end once the requests in progress are answered."""
        self._server.should_exit = True

    def __enter__(self) -> CoordinatorServer:
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.005)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._thread.join(10)
