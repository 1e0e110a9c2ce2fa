"""Object stores for tests: one in this process's memory, and a real S3 server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from headgate.store.places.place import ObjectPath
from headgate.testing.broker import ArtifactsUnavailable
from headgate.testing.faults.faulty_s3 import FaultyS3
from headgate.testing.s3_server import S3Server
from headgate.testing.s3_toll import S3Toll

__all__ = ["faulty_s3", "memory", "s3", "s3_server", "toll"]


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A real server."""
    pytest.importorskip("obstore", reason="pip install 'headgate[objects]'")
    try:
        server = S3Server.start(tmp_path_factory.mktemp("s3"))
    except ArtifactsUnavailable as error:
        pytest.skip(f"no S3 server: {error.reason}")
    with server:
        server.bucket("headgate")
        yield server


@pytest.fixture
def toll(s3_server: S3Server) -> Iterator[S3Toll]:
    """The server, with each request counted."""
    with S3Toll(s3_server.endpoint) as found:
        yield found


@pytest.fixture
def s3(s3_server: S3Server, toll: S3Toll, monkeypatch: pytest.MonkeyPatch) -> str:
    """An address of its own on the server, which this process and its children can use."""
    for name, value in s3_server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", toll.endpoint)
    from headgate.store.places.objects import Objects

    Objects.forget()
    return f"s3://headgate/{uuid.uuid4().hex}"


@pytest.fixture
def memory() -> ObjectPath:
    """An object store in this process's memory."""
    stores = pytest.importorskip("obstore.store", reason="pip install 'headgate[objects]'")
    from headgate.store.places.objects import Objects

    root = f"memory://{uuid.uuid4().hex}"
    Objects.serve(root, stores.MemoryStore())
    return ObjectPath(root, "control")


@pytest.fixture
def faulty_s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyS3]:
    """A server that fails as it is told, whose `s3://bucket` this process uses."""
    pytest.importorskip("obstore", reason="pip install 'headgate[objects]'")
    from headgate.store.places.objects import Objects

    with FaultyS3() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(Objects, "_open", {})
        yield server
