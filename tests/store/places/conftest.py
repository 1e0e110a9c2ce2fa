"""Places of every kind: folders, obstore's own stores in memory and in a folder, a real S3 server."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from headgate.store.places.place import ObjectPath, Place
from tests.harness.object_stores import memory, s3, s3_server, toll

__all__ = ["memory", "place", "s3", "s3_server", "toll"]

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
