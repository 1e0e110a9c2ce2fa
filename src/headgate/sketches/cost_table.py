"""A bounded table of durations, one entry a key."""

from __future__ import annotations

import struct

import numpy as np

from headgate.core.versions import require_version
from headgate.errors import BadArgument, SnapshotError
from headgate.sketches.hashing import HashFamily, check_seed

__all__ = ["CostTable"]

_MAGIC, _VERSION = b"HGCT", 1
_HEAD = struct.Struct(">4sHIIQdd")


class CostTable:
    """The recent mean duration of each key, in `sets` x `ways` entries and never more.

    Not in the papers: the count-min pair mixes the costs of keys that share a column, and at the paper's
    54 columns it explains 41 % of the variance of costs under Zipf-1.0 and nothing under uniform
    keys. A key here has its own entry in the set its hash names; a newcomer replaces the
    entry of that set that was used least, after lowering that use by one, so that one stray key does
    not push out a frequent one. A mean follows its last `memory` executions, so that it adapts.
    An unknown key costs the mean over all keys.

    >>> table = CostTable(sets=64)
    >>> table.learn(17, 0.5)
    >>> table.learn(18, 1.5)
    >>> table.duration(17), round(table.duration(99), 6)
    (0.5, 1.0)
    """

    def __init__(self, sets: int = 2048, ways: int = 4, memory: int = 8, seed: int = 0) -> None:
        if not 1 <= ways <= 64 or memory < 1:
            raise BadArgument(f"ways={ways!r}, memory={memory!r}: 1 <= ways <= 64 and memory >= 1")
        self.sets, self.ways, self.memory, self.seed = sets, ways, memory, check_seed(seed)
        self._family = HashFamily(1, sets, seed)
        self.keys = np.zeros((sets, ways), np.uint64)
        self.uses = np.zeros((sets, ways))
        self.means = np.zeros((sets, ways))
        self.count = 0.0
        self.mean = 0.0

    def _find(self, key: int) -> tuple[int, int]:
        """The key's set, and its way there or -1."""
        where = self._family.columns_of(key)[0]
        for way in range(self.ways):
            if self.uses[where, way] > 0.0 and int(self.keys[where, way]) == key:
                return where, way
        return where, -1

    def learn(self, key: int, seconds: float, times: int = 1) -> None:
        """So many executions of a key, with this mean duration."""
        # The mean over all keys follows about the last thousand executions.
        self.count = min(self.count + times, 1024.0)
        self.mean += (seconds - self.mean) / max(1.0, self.count / times)
        where, way = self._find(key)
        if way < 0:
            way = int(self.uses[where].argmin())
            if self.uses[where, way] > times:
                self.uses[where, way] -= times
                return
            self.keys[where, way] = key
            self.uses[where, way] = 0.0
            self.means[where, way] = 0.0
        self.uses[where, way] += times
        share = min(self.uses[where, way], float(max(times, self.memory)))
        self.means[where, way] += (seconds - self.means[where, way]) * times / share

    def frequency(self, key: int) -> float:
        """How often the key is known to have come; 0 for one without an entry."""
        where, way = self._find(key)
        return float(self.uses[where, way]) if way >= 0 else 0.0

    def duration(self, key: int) -> float:
        """The estimated duration of one execution."""
        where, way = self._find(key)
        return float(self.means[where, way]) if way >= 0 else self.mean

    def to_bytes(self) -> bytes:
        """All of it, versioned; the same bytes on every machine."""
        sizes = (self.sets, self.ways | self.memory << 8, self.seed)
        head = _HEAD.pack(_MAGIC, _VERSION, *sizes, self.count, self.mean)
        body = [self.keys.astype(">u8"), self.uses.astype(">f8"), self.means.astype(">f8")]
        return head + b"".join(part.tobytes() for part in body)

    @classmethod
    def from_bytes(cls, data: bytes) -> CostTable:
        """The table that `to_bytes` wrote."""
        if len(data) < _HEAD.size or data[:4] != _MAGIC:
            raise SnapshotError("these bytes are no cost table: give what CostTable.to_bytes wrote")
        _, version, sets, packed, seed, count, mean = _HEAD.unpack(data[: _HEAD.size])
        require_version("a cost table", version, _VERSION, "learn the costs again")
        ways = packed & 0xFF
        size = sets * ways
        if len(data) != _HEAD.size + 24 * size:  # in front of a table of whatever size they say
            raise SnapshotError(
                f"a {sets} x {ways} table takes {_HEAD.size + 24 * size} bytes, and {len(data)} "
                "were given: they were cut or damaged"
            )
        table = cls(sets, ways, packed >> 8, seed)
        shape = table.keys.shape
        table.keys = np.frombuffer(data, ">u8", size, _HEAD.size).astype(np.uint64).reshape(shape)
        both = np.frombuffer(data, ">f8", 2 * size, _HEAD.size + 8 * size).astype(np.float64)
        if not (((both >= 0.0) & (both < np.inf)).all() and 0.0 <= mean < np.inf and count >= 0.0):
            raise SnapshotError("these bytes have durations that are none: they were changed")
        table.uses, table.means = both.reshape(2, *shape).copy()
        table.count, table.mean = count, mean
        return table
