"""`TiedS3`: what S3 servers on this machine have in common: an address, buckets, and who may ask."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from headgate.testing.tied_server import ServerFailed, TiedServer

__all__ = ["TiedS3"]


class TiedS3(TiedServer):
    """An S3 server on a port of 127.0.0.1, tied to the process that started it."""

    called = "the S3 server"

    def __init__(
        self, command: list[str], port: int, log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(command, log, environment=environment)
        self.endpoint = f"http://127.0.0.1:{port}"

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
