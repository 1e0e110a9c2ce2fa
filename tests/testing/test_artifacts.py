"""Jars that a repository does not have: asked for once a day, and told each time why."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from headgate.testing import artifacts
from headgate.testing.artifacts import ArtifactsUnavailable, resolve

WANTED = ("org.example:thing:1.0",)
SAID = "the artifact repository answers but has no org.example:thing:1.0"


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A cache of this test's own, and what a repository without the release was asked for."""
    monkeypatch.setenv("HEADGATE_CACHE", str(tmp_path))
    monkeypatch.delenv("HEADGATE_OFFLINE", raising=False)
    seen: list[str] = []

    def ivy(stamp: Path, coordinates: Sequence[str], *_: object) -> tuple[str, ...]:
        seen.extend(coordinates)
        raise ArtifactsUnavailable(SAID, repository_answers=True)

    monkeypatch.setattr(artifacts, "_run_ivy", ivy)
    return seen


def _reason(monkeypatch: pytest.MonkeyPatch) -> str:
    """What a new process is told."""
    monkeypatch.setattr(artifacts, "_failures", {})
    with pytest.raises(ArtifactsUnavailable) as refused:
        resolve("thing", WANTED, time.monotonic() + 10.0, transitive=False)
    assert refused.value.repository_answers
    return refused.value.reason


def _note(cache: Path) -> Path:
    (found,) = (cache / "kafka").glob("*.missing")
    return found


def test_a_missing_release_is_asked_for_once_a_day(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _reason(monkeypatch) == SAID
    yesterday = time.time() - 80_000
    os.utime(_note(tmp_path), (yesterday, yesterday))
    assert _reason(monkeypatch) == SAID
    assert len(asked) == 1
    assert _note(tmp_path).stat().st_mtime == pytest.approx(yesterday), "telling it is not asking"
    os.utime(_note(tmp_path), (yesterday - 10_000,) * 2)
    assert _reason(monkeypatch) == SAID
    assert len(asked) == 2


def test_a_note_that_was_left_empty_still_says_what_is_missing(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _reason(monkeypatch)
    _note(tmp_path).write_text("")
    assert _reason(monkeypatch) == SAID
    assert len(asked) == 1
