"""The toll in front of an S3 server: what it must not add to what it measures."""

from __future__ import annotations

import socket
from contextlib import ExitStack

from headgate.testing.s3_toll import S3Toll


def test_many_may_connect_before_the_first_is_accepted() -> None:
    """Else the kernel passes over them, and each asks again after one, three, seven seconds."""
    with S3Toll("http://127.0.0.1:9") as toll, ExitStack() as stack:
        toll._server.shutdown()  # nobody is accepted any more
        port = int(toll.endpoint.rpartition(":")[2])
        held = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5.0))
            for _ in range(200)
        ]
        assert len(held) == 200
