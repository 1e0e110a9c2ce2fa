"""The clock of an object store in memory, moved by a test."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import pytest

from headgate.store.places.contract import Entry, Held
from headgate.store.places.objects import Objects

__all__ = ["StoreTime"]


class StoreTime:
    """Every object is as old as the time that was let pass since it was put."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._now = 1_700_000_000.0
        self._written: dict[str, float] = {}

    def now(self) -> float:
        return self._now

    def pass_s(self, seconds: float) -> None:
        self._now += seconds

    def __enter__(self) -> Self:
        put, create, get, entries = Objects.put, Objects.create, Objects.get, Objects.entries

        def noted_put(store: Objects, at: Any, data: bytes, *, lasting: bool = True) -> None:
            put(store, at, data, lasting=lasting)
            self._written[str(at)] = self._now

        def noted_create(store: Objects, at: Any, data: bytes) -> bytes:
            found = create(store, at, data)
            self._written.setdefault(str(at), self._now)
            return found

        def dated_get(store: Objects, at: Any) -> Held | None:
            held = get(store, at)
            return None if held is None else Held(held.data, self._written.get(str(at), self._now))

        def dated_entries(store: Objects, at: Any) -> list[Entry]:
            return [
                Entry(e.name, e.is_folder, lambda e=e: self._written.get(str(at / e.name), 0.0))  # type: ignore[misc]
                for e in entries(store, at)
            ]

        for name, made in (
            ("put", noted_put), ("create", noted_create), ("get", dated_get), ("entries", dated_entries),
        ):  # fmt: skip
            self._monkeypatch.setattr(Objects, name, made)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass
