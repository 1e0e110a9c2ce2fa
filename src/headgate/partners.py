"""Which groups the other stream of a join has had lately, as one gate remembers them."""

from __future__ import annotations

import base64
import zlib
from collections import deque

from headgate.errors import SnapshotError

__all__ = ["Partners", "packed", "unpacked"]


def packed(bitmap: bytes) -> str:
    """A bitmap as text for a plan; few groups take few characters."""
    return base64.b64encode(zlib.compress(bitmap, 9)).decode()


def unpacked(text: str) -> bytes:
    """What `packed` wrote."""
    try:
        return zlib.decompress(base64.b64decode(text))
    except (ValueError, zlib.error) as error:
        raise SnapshotError(f"{text[:20]!r} is no packed bitmap: {error}") from error


class Partners:
    """The union of the bitmaps of as many batches as rows wait in the join, by event time.

    Unknown (None) until that much event time has passed: a group must have been absent for as long as a
    row would wait for it, before it counts as absent.

    >>> lately = Partners(60.0)
    >>> for minute in range(4):
    ...     lately.add(60_000_000 * minute, bytes([1 << minute]))
    >>> unpacked(lately.text())
    b'\\x0e'
    """

    def __init__(self, within_s: float | None) -> None:
        self._within_us = None if within_s is None else 2.0 * within_s * 1e6  # rows come out of order
        self._batches: deque[tuple[int, bytes]] = deque()
        self._first: int | None = None

    def add(self, latest_us: int | None, bitmap: bytes | None) -> None:
        """One more batch: how far event time has come, and the other stream's groups in it."""
        if self._within_us is None or latest_us is None or bitmap is None:
            return
        self._first = latest_us if self._first is None else min(self._first, latest_us)
        self._batches.append((latest_us, bitmap))
        newest = max(at for at, _ in self._batches)
        while self._batches[0][0] < newest - self._within_us:
            self._batches.popleft()

    def text(self) -> str | None:
        """The groups of the last batches, packed; None while too little is known."""
        if self._within_us is None or self._first is None or not self._batches:
            return None
        if max(at for at, _ in self._batches) - self._first < self._within_us:
            return None
        merged = 0
        for _, bitmap in self._batches:
            merged |= int.from_bytes(bitmap, "little")
        return packed(merged.to_bytes(len(self._batches[0][1]), "little"))
