"""The coordinator on a port, with its own limits for whoever connects."""

from __future__ import annotations

from headgate.coordinator.app import ServiceSettings, coordinator_app
from headgate.coordinator.guarded_server import ConnectionLimits, GuardedServer
from headgate.coordinator.registry import Registry
from headgate.errors import BadArgument
from headgate.sites.wire.http import is_loopback

__all__ = ["CoordinatorServer", "ServiceSettings"]


class CoordinatorServer(GuardedServer):
    """The service of one registry; without a secret for this machine alone."""

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
        app = coordinator_app(registry, secret=secret, settings=settings)
        limits = ConnectionLimits(
            silent_s=settings.body_s,
            longest_s=settings.request_s,
            connections=settings.max_connections,
            of_a_peer=settings.max_connections_of_a_peer,
            headers=settings.max_headers,
            stop_s=settings.stop_s,
        )
        super().__init__(app, host, port, limits, "headgate-coordinator")
