"""Rides of ten routes, half of them of the first, for tests of gates that shed by group."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import headgate as hg

__all__ = ["SCHEMA", "START", "filled", "policy", "rides", "row", "skewed"]

SCHEMA = "id bigint, route string, town string, fare double, dropoff timestamp"
START = datetime(2026, 1, 1, tzinfo=UTC)


def row(i: int, route: str | None, minute: float = 0.0, town: str | None = "a") -> dict[str, Any]:
    at = (START + timedelta(minutes=minute)).isoformat()
    return {"id": i, "route": route, "town": town, "fare": float(i % 10), "dropoff": at}


def skewed(start: int, rows: int, minute: float = 0.0) -> list[dict[str, Any]]:
    """Route r0 has half of the rows, r1 a quarter, and so on; r9 has hardly any."""
    routes = [f"r{k}" for k in range(10) for _ in range(max(1, rows >> (k + 1)))]
    return [row(start + i, route, minute) for i, route in enumerate(routes)]


def policy(**given: Any) -> hg.ConceptDriven:
    window = {"window": "30 minutes", "slide": "10 minutes", "time": "dropoff"}
    return hg.ConceptDriven(**{"by": "route", **window, **given})


@pytest.fixture
def rides(file_stream):
    """Four batches of 2,000 rows over half an hour."""
    return filled(file_stream(SCHEMA), batches=4)


def filled(stream: Any, batches: int) -> Any:
    """Batches of 2,000 rows, eight minutes apart."""
    for batch in range(batches):
        stream.add(skewed(batch * 10_000, 2000, minute=8.0 * batch))
    return stream
