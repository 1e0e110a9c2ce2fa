"""Where the control stores of `headgate bench scale` are: a folder, and an S3 server that is far away.

Server and toll run in processes of their own, so that what they take is not counted as the driver's.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest import mock

from headgate.store.places.objects import Objects
from headgate.testing.s3_server import S3Server
from headgate.testing.s3_toll import S3Toll

__all__ = ["DELAY_S", "Toll", "far_server"]

#: What is added to each request, as on the way to a store in the same region.
DELAY_S = 0.02


class Toll:
    """The counts of a toll in another process."""

    def __init__(self, pipe: Connection[Any, Any]) -> None:
        self._pipe = pipe

    def taken(self) -> dict[str, int]:
        """The requests since this was last asked, by kind."""
        self._pipe.send("counts")
        counts: dict[str, int] = self._pipe.recv()
        return counts


def _toll(endpoint: str, pipe: Connection[Any, Any]) -> None:
    with S3Toll(endpoint, DELAY_S) as toll:
        pipe.send(toll.endpoint)
        while pipe.recv() == "counts":
            counts = toll.counts
            toll.reset()
            pipe.send(counts)


@contextmanager
def far_server(scratch: Path) -> Iterator[tuple[str, Toll]]:
    """An address on a server of its own, and what counts the requests to it."""
    spawn = multiprocessing.get_context("spawn")
    with S3Server.start(scratch / "server") as server:
        here, there = spawn.Pipe()
        process = spawn.Process(target=_toll, args=(server.endpoint, there), daemon=True)
        process.start()
        try:
            given = {**server.environment(), "AWS_ENDPOINT_URL": here.recv()}
            with mock.patch.dict(os.environ, given):
                Objects.forget()
                yield server.bucket("scale"), Toll(here)
        finally:
            Objects.forget()
            here.send("end")
            process.join(10.0)
            process.terminate()
