"""Which Sparks add up the passes over a batch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headgate.spark.versions import supported
from headgate.spark.versions.passes import adds_up_passes


@pytest.mark.parametrize(
    ("version", "adds"), [("4.0.5", True), ("4.1.4", True), ("4.2.1", True), ("4.3.0", False)]
)
def test_each_version(monkeypatch: pytest.MonkeyPatch, version: str, adds: bool) -> None:
    monkeypatch.setattr(supported, "installed", lambda: None)
    session: Any = SimpleNamespace(version=version)
    assert adds_up_passes(session) == adds
