"""`TiedServer`: a server in a process of its own, waited for until it serves, and never left behind.

What a broker, an S3 server and the processes of a cluster have in common: a command, a log, a way to
see that it takes requests, an error that ends with the tail of the log, and an end in order. It ends
with the process that started it, even if that one is killed (`headgate.testing.tied_process`).
"""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from headgate.errors import HeadgateError
from headgate.testing.tied_process import kill_tied, start_tied

__all__ = ["EndsWithBlock", "ServerFailed", "TiedServer", "free_ports", "tail"]


class ServerFailed(HeadgateError):
    """A server did not start (the message ends with the tail of its log), or refused a request."""


class EndsWithBlock:
    """Is stopped at the end of its ``with`` block, however that ends."""

    def stop(self) -> None:
        """Serve no longer; safe to call again."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


class TiedServer(EndsWithBlock):
    """One process, its log, and its end. `called` is how its errors name it."""

    called = "the server"
    failure: type[HeadgateError] = ServerFailed

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start `command` in `folder`, with `environment` besides (or instead) of this process's."""
        self.log = log
        given = None if environment is None else {**os.environ, **environment}
        with log.open("ab") as sink:
            self._process = start_tied(list(command), sink, folder=folder, environment=given)
        atexit.register(self.stop)

    def await_ready(self, ready: Callable[[], bool], timeout: float) -> None:
        """Return when it serves; where it ends or takes too long, raise `failure` with its log."""
        deadline = time.monotonic() + timeout
        while not ready():
            code = self._process.poll()
            if code is not None or time.monotonic() > deadline:
                self.stop()
                what = f"ended with code {code}" if code is not None else f"not up in {timeout:g} s"
                raise self.failure(f"{self.called} {what}; the end of {self.log}:\n{tail(self.log)}")
            time.sleep(0.05)

    def has_said(self, text: str) -> bool:
        """Whether its log has this."""
        return text.encode() in self.log.read_bytes()

    @property
    def running(self) -> bool:
        """Whether its process is alive."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End it at once (SIGKILL), as a machine that loses its power would."""
        atexit.unregister(self.stop)
        kill_tied(self._process)

    def stop(self, timeout: float = 20.0) -> None:
        """Stop in order, and by force after ``timeout``; safe to call again."""
        atexit.unregister(self.stop)
        if self._process.poll() is None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout)
                return
            kill_tied(self._process, timeout)


def free_ports(first: int = 0, count: int = 2) -> list[int]:
    """`first` (0: any free one) and free ones beside it; all held open together, so they differ."""
    held: list[socket.socket] = []
    try:
        for wanted in (first, *[0] * (count - 1)):
            held.append(socket.socket())
            held[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                held[-1].bind(("127.0.0.1", wanted))
            except OSError as error:
                raise ServerFailed(
                    f"port {wanted} of 127.0.0.1 is taken ({error.strerror or error}): give another, or "
                    "any free one with port=0 (--port 0)"
                ) from None
        return [int(one.getsockname()[1]) for one in held]
    finally:
        for one in held:
            one.close()


def tail(log: Path, lines: int = 20) -> str:
    """The last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
