"""A real S3 server on this machine, from a Maven artifact: a gateway over a folder.

It knows conditional puts, and refuses the second one. It listens on 127.0.0.1 only, takes requests
without credentials being checked, and ends with the process that started it.

Where its jar cannot be had, `headgate.testing.artifacts.ArtifactsUnavailable` says why.
"""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

from headgate.testing.artifacts import java_server, resolve
from headgate.testing.tied_s3 import TiedS3
from headgate.testing.tied_server import ServerFailed, free_ports

__all__ = ["S3Server", "ServerFailed"]


class S3Server(TiedS3):
    """One server with a folder of its own; its buckets are the folder's folders."""

    #: Its jar, as Maven names it.
    artifact = "org.gaul:s3proxy:3.0.0:jar-with-dependencies"

    @classmethod
    def start(cls, folder: str | Path, *, timeout: float = 90.0) -> Self:
        """Start a server over `folder` on any free port; returns when it takes requests."""
        name = cls.artifact.split(":")[1]
        jars = resolve(name, (cls.artifact,), time.monotonic() + 300.0, transitive=False)
        folder = Path(folder).absolute()
        (folder / "buckets").mkdir(parents=True, exist_ok=True)
        [port] = free_ports(count=1)
        server = cls(cls._command(jars[0], folder, port), port, folder / "log")
        server.await_ready(server._answers, timeout)
        return server

    @classmethod
    def _command(cls, jar: str, folder: Path, port: int) -> list[str]:
        properties = folder / "s3proxy.properties"
        properties.write_text(
            "s3proxy.authorization=none\n"
            "s3proxy.ignore-unknown-headers=true\n"
            f"s3proxy.endpoint=http://127.0.0.1:{port}\n"
            "jclouds.provider=filesystem-nio2\n"
            f"jclouds.filesystem.basedir={folder / 'buckets'}\n"
        )
        return [*java_server("32m", "192m"), "-jar", jar, "--properties", str(properties)]

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(self.endpoint, timeout=2.0):
                return True
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False
