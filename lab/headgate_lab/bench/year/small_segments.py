"""Segments of fewer batches: a year in which few batches pass then closes and expires as many."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from headgate.store.ledger import carried
from headgate.store.ledger import records as ledger
from headgate.store.ledger.segments import SEGMENT

__all__ = ["segments_of"]


@contextlib.contextmanager
def segments_of(batches: int) -> Iterator[None]:
    """As if a segment of a ledger had so many batches."""
    before = SEGMENT
    ledger.SEGMENT = carried.SEGMENT = batches  # type: ignore[attr-defined]
    try:
        yield
    finally:
        ledger.SEGMENT = carried.SEGMENT = before  # type: ignore[attr-defined]
