"""A real S3 server on this machine, from a Maven artifact: a gateway over a folder.

It knows conditional puts, and refuses the second one. It listens on 127.0.0.1 only, takes requests
without credentials being checked, and ends with the process that started it.

Where its jar cannot be had, `headgate.testing.broker.ArtifactsUnavailable` says why.
"""

from __future__ import annotations

import atexit
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from headgate.errors import HeadgateError
from headgate.testing.broker import _free_ports, _java, _resolve, _tail
from headgate.testing.tied_process import kill_tied, start_tied

__all__ = ["S3Server", "ServerFailed"]

_SERVER = ("org.gaul:s3proxy:3.0.0:jar-with-dependencies",)


class ServerFailed(HeadgateError):
    """The server did not start; the message ends with the tail of its log."""


class S3Server:
    """One server with a folder of its own; its buckets are the folder's folders."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self._process, self.log = process, log
        self.endpoint = f"http://127.0.0.1:{port}"
        atexit.register(self.stop)

    @classmethod
    def start(cls, folder: str | Path, *, timeout: float = 60.0) -> Self:
        """Start a server over `folder` on any free port; returns when it takes requests."""
        jars = _resolve("s3proxy", _SERVER, time.monotonic() + 300.0, transitive=False)
        folder = Path(folder).absolute()
        data = folder / "buckets"
        data.mkdir(parents=True, exist_ok=True)
        port, _ = _free_ports(0)
        properties, log = folder / "s3proxy.properties", folder / "s3proxy.log"
        properties.write_text(
            "s3proxy.authorization=none\n"
            "s3proxy.ignore-unknown-headers=true\n"
            f"s3proxy.endpoint=http://127.0.0.1:{port}\n"
            "jclouds.provider=filesystem-nio2\n"
            f"jclouds.filesystem.basedir={data}\n"
        )
        command = [_java(), "-Xms32m", "-Xmx192m", "-jar", jars[0], "--properties", str(properties)]
        with log.open("wb") as sink:
            process = start_tied(command, sink)
        server = cls(process, port, log)
        server._await_ready(timeout)
        return server

    def _await_ready(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not self._answers():
            code = self._process.poll()
            if code is not None or time.monotonic() > deadline:
                self.stop()
                what = f"ended with code {code}" if code is not None else f"not up in {timeout:g} s"
                raise ServerFailed(f"the S3 server {what}; the end of {self.log}:\n{_tail(self.log)}")
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(self.endpoint, timeout=2.0):
                return True
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False

    def bucket(self, name: str) -> str:
        """The address of a bucket, which is made if it is not there."""
        request = urllib.request.Request(f"{self.endpoint}/{name}", method="PUT")
        try:
            urllib.request.urlopen(request, timeout=10.0).close()
        except urllib.error.HTTPError as error:
            if error.code != 409:  # it is there
                raise ServerFailed(f"bucket {name!r} was not made: {error}") from error
        return f"s3://{name}"

    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to find the server."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
        }

    def stop(self, timeout: float = 20.0) -> None:
        """Stop in order, and by force after ``timeout``; safe to call again."""
        atexit.unregister(self.stop)
        if self._process.poll() is None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout)
                return
            kill_tied(self._process)
            self._process.wait(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
