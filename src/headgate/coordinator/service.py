"""The coordinator on a port: bound before anything is served, and with limits for whoever connects."""

from __future__ import annotations

import errno
import socket
import threading
import time

from uvicorn import Config, Server

from headgate.coordinator.app import ServiceSettings, coordinator_app
from headgate.coordinator.connections import guarded
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
        self._socket = _bound(host, port)
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


def _bound(host: str, port: int) -> socket.socket:
    if type(port) is not int or not 0 <= port <= 65535:
        raise BadArgument(f"port={port!r}: give a whole number from 1 to 65535, or 0 for any free one")
    try:
        family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, number)
    except OSError as error:
        raise BadArgument(f"host={host!r} ({error}): give an address of this machine") from None
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(128)  # from here on the port is taken, and whoever asks is answered in a moment
    except OSError as error:
        found.close()
        reason = error.strerror or error
        raise BadArgument(f"{host}:{port} cannot be had ({reason}): {_advice(error.errno)}") from None
    return found


def _advice(number: int | None) -> str:
    """What to do about a port that cannot be bound."""
    if number == errno.EADDRNOTAVAIL:
        return "give an address of this machine as --host; 0.0.0.0 or :: are all that it has"
    if number in (errno.EACCES, errno.EPERM):
        return "this user may not have it; give a --port of 1024 or more"
    return "stop what has it, or give another --port; 0 takes a free one"
