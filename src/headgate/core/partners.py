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


#: Bytes that a text may stand for; a kilobyte of it can stand for a megabyte of nothing.
MOST_BYTES = 1 << 24


def unpacked(text: str) -> bytes:
    """The bytes that `packed` turned into text; refused where they would be more than any are."""
    try:
        packing = zlib.decompressobj()
        found = packing.decompress(base64.b64decode(text), MOST_BYTES)
    except (TypeError, ValueError, zlib.error) as error:
        raise SnapshotError(f"{text[:20]!r} is nothing that was packed: {error}") from error
    if not packing.eof:
        raise SnapshotError(f"{text[:20]!r} is cut off, or stands for more than {MOST_BYTES} bytes")
    return found


class Partners:
    """The union of the bitmaps of as many batches as rows wait in the join, by event time.

    Unknown (None) until that much event time has passed: a group must have been absent for as long as a
    row would wait for it, before it counts as absent.

    >>> lately = Partners(60.0)
    >>> for minute in range(5):
    ...     lately.add(60_000_000 * minute, bytes([1 << minute]))
    >>> unpacked(lately.text()).hex()
    '1e'
    """

    def __init__(self, within_s: float | None) -> None:
        self._within_us = None if within_s is None else 2.0 * within_s * 1e6  # rows come out of order
        self._batches: list[tuple[int, bytes]] = []
        self._latest: deque[int] = deque(maxlen=3)
        self._first: int | None = None

    def add(self, latest_us: int | None, bitmap: bytes | None) -> None:
        """One more batch: how far this stream's time is (None: no row came), and the other's groups."""
        if self._within_us is None:
            return
        if latest_us is not None:
            self._latest.append(latest_us)
        newest = self._newest
        if newest is None or bitmap is None:
            return
        self._first = newest if self._first is None else min(self._first, newest)
        self._batches = [(at, bits) for at, bits in self._batches if at >= newest - self._within_us]
        self._batches.append((newest, bitmap))

    @property
    def _newest(self) -> int | None:
        """The middle of the last three batches' latest times: one row from the future moves nothing."""
        return sorted(self._latest)[len(self._latest) // 2] if self._latest else None

    def text(self) -> str | None:
        """The groups of the last batches, packed; None while too little is known."""
        if self._within_us is None or self._first is None or not self._batches:
            return None
        if self._batches[-1][0] - self._first < self._within_us:
            return None
        merged = 0
        for _, bitmap in self._batches:
            merged |= int.from_bytes(bitmap, "little")
        return packed(merged.to_bytes(len(self._batches[0][1]), "little"))
