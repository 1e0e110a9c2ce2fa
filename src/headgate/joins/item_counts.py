"""How often each item occurs in a block, and what that says of a probe before it is compared.

The paper learns densities by comparing: f_i(lag), one number for a whole basic window. The items of the
probe say more. Let p_x be the share of the block's rows that hold item x, and items independent. Then

- a row shares e_k(p_x : x in probe) choices of k items with the probe on average: the elementary
  symmetric polynomial, by the recurrence e_j += e_(j-1) * p_x. It is at least the chance that k or more
  are shared, and near it while it is small; it is cut at 1;
- a row holds all items of the probe with the chance prod p_x;
- a row has the probe's key with the chance p_x.

For weighted sets the mean inner product is sum_x w_x * (mean weight of x in the block). By Markov's
inequality at most mean / threshold of the rows can reach the threshold, if no weight is negative. That
ratio, cut to 0..1, is a proxy: it grows with the mean and so ranks blocks for a probe, but it is no
estimate of the matches.

Nothing is learned from comparisons, so there is nothing to explore, and correlations that move do not
matter. Content says nothing of "the row is contained in the probe" (that needs the row's other items),
of dense vectors and of predicates: `densities` answers None, and what was learned by lag must serve
(`LagStats`).

A block of items in 0..127 counts each of them; others share 4096 buckets by hash, where p_x is the
bucket's, and so too large for rare items by about rows * size / 4096 occurrences.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headgate.core.versions import require_version
from headgate.errors import SnapshotError
from headgate.joins.arrays import Floats
from headgate.joins.conditions import Condition, Equal, InnerProduct, Overlap, Subset, Superset
from headgate.joins.rows import KeyRows, Rows, SetRows, WeightedRows, compiled, frozen

__all__ = ["ItemCounts", "densities"]

Counts = npt.NDArray[np.uint32]

#: Sizes of the two kinds of table. They are no tuning: stored blocks have them, and signatures are of
#: 128 bits.
_EXACT, _HASHED = 128, 4096
_HEAD = struct.Struct("<4sBBBxIII")
_MAGIC, _VERSION = b"HGIC", 1
_WIDTHS = {1: "<u1", 2: "<u2", 4: "<u4"}


@dataclass(frozen=True, eq=False)
class ItemCounts:
    """Rows of a block that hold each item, or each bucket of items."""

    #: 128 counts if all items are in 0..127, else 4096.
    table: Counts
    #: Rows counted.
    n: int
    #: Sums of weights, for weighted sets.
    weights: Floats | None = None

    @classmethod
    def of(cls, rows: SetRows | KeyRows | WeightedRows) -> ItemCounts:
        """The counts of a block."""
        items = rows.key if isinstance(rows, KeyRows) else rows.items
        exact = rows.exact if isinstance(rows, SetRows) else _all_small(items)
        size = _EXACT if exact else _HASHED
        buckets = _buckets(rows, size)
        table = np.bincount(buckets, minlength=size).astype(np.uint32)
        heavy = None
        if isinstance(rows, WeightedRows):
            heavy = _floats(np.bincount(buckets, rows.weights, minlength=size))
        return cls(table, rows.n, heavy)

    def add(self, other: ItemCounts) -> ItemCounts:
        """The counts of two blocks together."""
        size = max(len(self.table), len(other.table))
        ours, theirs = self._widened(size), other._widened(size)
        heavy = None
        if ours.weights is not None or theirs.weights is not None:
            heavy = np.zeros(size)
            heavy += 0.0 if ours.weights is None else ours.weights
            heavy += 0.0 if theirs.weights is None else theirs.weights
        return ItemCounts(ours.table + theirs.table, ours.n + theirs.n, heavy)

    def _widened(self, size: int) -> ItemCounts:
        """The same counts by hash."""
        if len(self.table) == size:
            return self
        to = compiled("packing_kernels").bucket_items(np.arange(_EXACT), size)
        table = np.bincount(to, self.table, minlength=size).astype(np.uint32)
        if self.weights is None:
            return ItemCounts(table, self.n)
        return ItemCounts(table, self.n, _floats(np.bincount(to, self.weights, minlength=size)))

    def shares(self) -> Floats:
        """The share of rows with each item, at most 1, and a 0 for items outside the table."""
        shares = np.zeros(len(self.table) + 1)
        if self.n:
            np.minimum(1.0, self.table / self.n, out=shares[:-1])
        return shares

    def mean_weights(self) -> Floats:
        """The mean weight of each item over all rows, and a 0 for items outside the table."""
        means = np.zeros(len(self.table) + 1)
        if self.n and self.weights is not None:
            means[:-1] = self.weights / self.n
        return means

    def to_bytes(self) -> bytes:
        """All of it, versioned, in the narrowest integers that hold the counts."""
        most = int(self.table.max(initial=0))
        width = 1 if most < 1 << 8 else (2 if most < 1 << 16 else 4)
        weighted = self.weights is not None
        head = _HEAD.pack(_MAGIC, _VERSION, width, weighted, len(self.table), self.n, 0)
        heavy = b"" if self.weights is None else self.weights.astype("<f4").tobytes()
        return head + self.table.astype(_WIDTHS[width]).tobytes() + heavy

    @classmethod
    def from_bytes(cls, data: bytes) -> ItemCounts:
        """The counts that `to_bytes` wrote; sums of weights come back in single precision."""
        if len(data) < _HEAD.size or data[:4] != _MAGIC:
            raise SnapshotError("these bytes are no item counts: give what ItemCounts.to_bytes wrote")
        _, version, width, weighted, size, n, _ = _HEAD.unpack(data[: _HEAD.size])
        require_version("item counts", version, _VERSION, "start with an empty state")
        whole = _HEAD.size + size * (width + 4 * weighted)
        if len(data) != whole:
            raise SnapshotError(
                f"{size} item counts take {whole} bytes, and {len(data)} were given: cut or damaged"
            )
        table = np.frombuffer(data, _WIDTHS[width], size, _HEAD.size).astype(np.uint32)
        heavy = None
        if weighted:
            heavy = np.frombuffer(data, "<f4", size, _HEAD.size + size * width).astype(np.float64)
        return cls(table, n, heavy)


def densities(
    condition: Condition, probe: Rows, counts: ItemCounts, probe_is_left: bool = True
) -> Floats | None:
    """The share of the block's rows expected to match each probe row; None if content cannot tell."""
    kernels, size = compiled("choice_kernels"), len(counts.table)
    if isinstance(condition, Overlap) and isinstance(probe, SetRows):
        k = condition.at_least
        return _floats(kernels.overlap_scores(k, probe.offsets, _buckets(probe, size), counts.shares()))
    if isinstance(condition, Subset | Superset) and isinstance(probe, SetRows):
        if isinstance(condition, Subset) != probe_is_left:
            return None
        return _floats(kernels.containment_scores(probe.offsets, _buckets(probe, size), counts.shares()))
    if isinstance(condition, Equal) and isinstance(probe, KeyRows):
        return counts.shares()[_buckets(probe, size)]
    if isinstance(condition, InnerProduct) and isinstance(probe, WeightedRows):
        means = kernels.weighted_scores(
            probe.offsets, _buckets(probe, size), probe.weights, counts.mean_weights()
        )
        return _floats(np.clip(means / condition.at_least, 0.0, 1.0))
    return None


def _floats(values: Any) -> Floats:
    return np.asarray(values, np.float64)


def _all_small(items: npt.NDArray[np.int64]) -> bool:
    return not len(items) or (int(items.min()) >= 0 and int(items.max()) < _EXACT)


def _buckets(rows: SetRows | KeyRows | WeightedRows, size: int) -> npt.NDArray[np.uint16]:
    """The bucket of each of the rows' items; kept beside the rows, since many blocks ask for it."""
    name = f"_buckets_{size}"
    if name not in rows.__dict__:
        items = rows.key if isinstance(rows, KeyRows) else rows.items
        rows.__dict__[name] = frozen(compiled("packing_kernels").bucket_items(items, size), np.uint16)
    kept: npt.NDArray[np.uint16] = rows.__dict__[name]
    return kept
