"""The count-min pair: how often keys came, and how long they took."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headgate.core.versions import require_version
from headgate.errors import BadArgument, SnapshotError
from headgate.sketches.hashing import HashFamily, check_seed

__all__ = ["CostSketch", "SketchShape"]

_MAGIC, _VERSION = b"HGCS", 1
_HEAD = struct.Struct(">4sHIIQdd")


@dataclass(frozen=True)
class SketchShape:
    """How large a sketch is, and which hash functions it uses; only equal shapes merge.

    `of` derives the shape from the paper's precision: ``r = ceil(log2(1/delta))`` rows and
    ``c = round(e/epsilon)`` columns. Las-2020 prints the logarithm without its base and a ceiling for
    c; its own examples (4 rows for 0.1, 54 columns for 0.05, 4 for 0.7) allow only these readings.

    >>> SketchShape.of(epsilon=0.05, delta=0.1)
    SketchShape(rows=4, columns=54, seed=0)
    """

    rows: int
    columns: int
    seed: int = 0

    def __post_init__(self) -> None:
        HashFamily(self.rows, self.columns, check_seed(self.seed))

    @classmethod
    def of(cls, epsilon: float, delta: float, seed: int = 0) -> SketchShape:
        """The shape for a precision."""
        if not 0 < epsilon <= 1 or not 0 < delta < 1:
            raise BadArgument(
                f"epsilon={epsilon!r}, delta={delta!r}: 0 < epsilon <= 1 and 0 < delta < 1"
            )
        return cls(math.ceil(math.log2(1 / delta) - 1e-9), round(math.e / epsilon), seed)


class CostSketch:
    """F counts keys, W sums their durations; both have one shape and one set of hash functions.

    Las-2020, Section 3.3 and Listing 3.1, lines 24-27. `duration` is Listing 3.2, lines 20-21: the
    ratio W/F of the row whose F is least. Where an entry of the key is empty the key was never seen,
    and the mean over all keys is the answer; the listing divides 0 by 0 there, and its arg-min even
    prefers such entries. Section 4.2 analyses another estimator, the least ratio; it is biased low
    (measured: 943 ms of latency instead of 7) and is not used.

    >>> sketch = CostSketch(SketchShape.of(0.05, 0.1))
    >>> sketch.add(17, 0.5)
    >>> sketch.add(17, 1.5)
    >>> sketch.frequency(17), sketch.duration(17), sketch.duration(99)
    (2.0, 1.0, 1.0)
    """

    def __init__(self, shape: SketchShape) -> None:
        self.shape = shape
        self.F = np.zeros((shape.rows, shape.columns))
        self.W = np.zeros((shape.rows, shape.columns))
        self.count = 0.0
        self.work = 0.0
        self._family = HashFamily(shape.rows, shape.columns, shape.seed)
        self._rows = range(shape.rows)

    def add(self, key: int, seconds: float, times: int = 1) -> None:
        """So many executions of a key, with this mean duration."""
        work = seconds * times
        for row, column in enumerate(self._family.columns_of(key)):
            self.F[row, column] += times
            self.W[row, column] += work
        self.count += times
        self.work += work

    def learn(self, key: int, seconds: float, times: int = 1) -> None:
        """So many executions of a key, as every store of costs learns them."""
        self.add(key, seconds, times)

    @property
    def mean(self) -> float:
        """The mean duration of everything added; 0 before that."""
        return self.work / self.count if self.count > 0 else 0.0

    def frequency(self, key: int) -> float:
        """At least how often the key came; more by at most ``e/c`` of all others, in most cases."""
        columns = self._family.columns_of(key)
        return float(min(self.F[row, columns[row]] for row in self._rows))

    def duration(self, key: int) -> float:
        """The estimated duration of one execution."""
        columns = self._family.columns_of(key)
        best, least = 0, math.inf
        for row in self._rows:
            frequency = self.F[row, columns[row]]
            if frequency <= 0.0:
                return self.mean
            if frequency < least:
                best, least = row, frequency
        return float(self.W[best, columns[best]] / least)

    def ratios(self) -> npt.NDArray[np.float64]:
        """W/F entry by entry, 0 where F is: the snapshot S of Section 3.3."""
        return np.divide(self.W, self.F, out=np.zeros_like(self.W), where=self.F > 0)

    def scale(self, factor: float) -> None:
        """Let the past count for less: both matrices times a factor from 0 (forget) to 1."""
        if not 0 <= factor <= 1:
            raise BadArgument(f"factor={factor!r}: give a number from 0 (forget all) to 1 (nothing)")
        self.F *= factor
        self.W *= factor
        self.count *= factor
        self.work *= factor

    def merge(self, other: CostSketch) -> None:
        """Add another's content; refused if its columns mean other keys."""
        if other.shape != self.shape:
            raise BadArgument(
                f"a sketch of {other.shape} cannot be merged into one of {self.shape}: "
                "build both with the same rows, columns and seed"
            )
        self.F += other.F
        self.W += other.W
        self.count += other.count
        self.work += other.work

    def copy(self) -> CostSketch:
        """An equal sketch that changes on its own."""
        twin = CostSketch(self.shape)
        twin.merge(self)
        return twin

    def to_bytes(self) -> bytes:
        """All of it, versioned; the same bytes on every machine."""
        shape = self.shape
        head = _HEAD.pack(_MAGIC, _VERSION, shape.rows, shape.columns, shape.seed, self.count, self.work)
        return head + self.F.astype(">f8").tobytes() + self.W.astype(">f8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> CostSketch:
        """The sketch that `to_bytes` wrote."""
        if len(data) < _HEAD.size or data[:4] != _MAGIC:
            raise SnapshotError("these bytes are no count-min pair: give what CostSketch.to_bytes wrote")
        _, version, rows, columns, seed, count, work = _HEAD.unpack(data[: _HEAD.size])
        require_version("a count-min pair", version, _VERSION, "learn the costs again")
        size = rows * columns
        if len(data) != _HEAD.size + 16 * size:
            raise SnapshotError(
                f"a {rows} x {columns} pair takes {_HEAD.size + 16 * size} bytes, and {len(data)} were "
                "given: they were cut or damaged"
            )
        sketch = cls(SketchShape(rows, columns, seed))
        both = np.frombuffer(data, ">f8", 2 * size, _HEAD.size).astype(np.float64)
        if not (((both >= 0.0) & (both < np.inf)).all() and 0.0 <= work < np.inf and count >= 0):
            raise SnapshotError("these bytes have durations that are none: they were changed")
        sketch.F, sketch.W = both.reshape(2, rows, columns).copy()
        sketch.count, sketch.work = count, work
        return sketch
