"""Connections that are no use are closed: silent ones, slow ones, and too many of one address.

uvicorn limits how many connections there are, and then refuses everybody; it does not end one that
never says anything. So whoever opens them and waits would close the service to all others.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["guarded"]


def guarded(*, silent_s: float, longest_s: float, of_a_peer: int) -> type[H11Protocol]:
    """HTTP/1.1 with a time for the request to begin, one for all of it, and a limit for each address."""

    class Guarded(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._timers: list[asyncio.TimerHandle] = []
            if self.client is not None:
                peer = self.client[0]
                others = (c.client for c in self.connections if isinstance(c, H11Protocol))
                same = sum(other is not None and other[0] == peer for other in others)
                if same > of_a_peer:
                    transport.abort()
                    return
            self._timers = [
                self.loop.call_later(silent_s, self._end_if_silent),
                self.loop.call_later(longest_s, transport.abort),
            ]

        def connection_lost(self, exc: Exception | None) -> None:
            for timer in self._timers:
                timer.cancel()
            super().connection_lost(exc)

        def _end_if_silent(self) -> None:
            if self.cycle is None:  # no request has begun: its headers are not here yet
                self.transport.abort()

    return Guarded
