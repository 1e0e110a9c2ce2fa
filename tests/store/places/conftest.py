"""Places of every kind: folders, obstore's own stores in memory and in a folder, a real S3 server."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.store.places.place import ObjectPath, Place
from headgate.testing.broker import ArtifactsUnavailable
from headgate.testing.s3_server import S3Server
from headgate.testing.s3_toll import S3Toll


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
    _forget_stores()
    return f"s3://headgate/{uuid.uuid4().hex}"


def _forget_stores() -> None:
    from headgate.store.places.objects import Objects

    Objects._open.clear()


@pytest.fixture
def memory() -> ObjectPath:
    """An object store in this process's memory."""
    stores = pytest.importorskip("obstore.store", reason="pip install 'headgate[objects]'")
    from headgate.store.places.objects import Objects

    root = f"memory://{uuid.uuid4().hex}"
    Objects.serve(root, stores.MemoryStore())
    return ObjectPath(root, "control")


_KINDS = ["folder", "no hard links", "memory", "obstore's folder"]


@pytest.fixture(params=[*_KINDS, pytest.param("s3", marks=pytest.mark.spark)])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A place of each kind."""
    kind = request.param
    if kind == "memory":
        found: ObjectPath = request.getfixturevalue("memory")
        return found
    if kind == "s3":
        root, _, key = request.getfixturevalue("s3").rpartition("/")
        return ObjectPath(root, key)
    if kind == "obstore's folder":
        stores = pytest.importorskip("obstore.store", reason="pip install 'headgate[objects]'")
        from headgate.store.places.objects import Objects

        root = f"memory://{uuid.uuid4().hex}"
        Objects.serve(root, stores.LocalStore(tmp_path / "objects", mkdir=True))
        return ObjectPath(root, "control")
    if kind == "no hard links":

        def refuse(*_: object, **__: object) -> None:
            raise OSError("no hard links here")

        monkeypatch.setattr(os, "link", refuse)
    return tmp_path / "control"
