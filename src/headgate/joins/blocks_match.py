"""Which pairs of a batch of probes and a block match (join-2007, section 3.2): one call a block.

`match` picks the kernel for a condition and the kind of rows. It is exact for every condition:
signatures only ever filter, and inner products near the threshold are computed again in doubles.

The paper compares tuple by tuple and indexes with posting lists. Here equality uses a sorted block,
sparse inner products use postings by item; sets are compared by signature if there are few probes, else
by an index of the block (`index_kernels`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument
from headgate.joins.arrays import Indices
from headgate.joins.conditions import (
    Condition,
    Equal,
    InnerProduct,
    Overlap,
    Predicate,
    Subset,
    Superset,
)
from headgate.joins.rows import KeyRows, Rows, SetRows, VectorRows, WeightedRows, compiled, frozen

__all__ = ["PairTest", "Reach", "match"]

Pairs = tuple[Indices, Indices]
R = TypeVar("R", bound=Rows)
#: A predicate over candidate pairs: (indices of probes, indices of rows) -> one truth value a pair.
PairTest = Callable[[Indices, Indices], Any]

#: Times lie within this of 1970, so that sums with a reach stay in 64 bits.
_FAR = 1 << 62
#: Products that are kept at once (16 MB), and candidate pairs handed to a predicate at once.
_PRODUCTS, _CANDIDATES = 1 << 22, 1 << 17
#: What follows decides between kernels with equal answers, so only speed depends on it (`headgate bench
#: join` measures the kernels). A block of so many rows is compared whole in the time of a binary search.
_SMALL = 128
#: So many probes pay for an index of the block: bit planes of exact sets, else postings.
_MANY = {True: 16, False: 64}


@dataclass(frozen=True)
class Reach:
    """A pair is in the window iff -before_us <= time of the row - time of the probe <= after_us."""

    before_us: int
    after_us: int

    def __post_init__(self) -> None:
        if self.before_us + self.after_us < 0:
            raise BadArgument(
                f"a reach from -{self.before_us} to {self.after_us} microseconds holds no pair: "
                "give after_us of at least -before_us"
            )


def match(
    condition: Condition,
    probe: Rows,
    rows: Rows,
    picked: npt.ArrayLike | None,
    reach: Reach,
    *,
    probe_is_left: bool = True,
    test: PairTest | None = None,
) -> Pairs:
    """The matching pairs, as indices in `probe` and in `rows`.

    Only the probes in `picked` are compared (None: all of them); pairs come in its order, then by row.
    `probe_is_left` says which side of the condition the probes are. A `Predicate` needs `test`, which
    the caller makes: it gets candidate pairs inside the window and says which of them match.
    """
    chosen = np.arange(probe.n, dtype=np.int32) if picked is None else picked
    chosen = frozen(chosen, np.int32)
    if len(chosen) and not 0 <= int(chosen.min()) <= int(chosen.max()) < probe.n:
        raise BadArgument(
            f"picked runs from {chosen.min()} to {chosen.max()}: give indices from 0 to {probe.n - 1}"
        )
    if not len(chosen) or not rows.n or not _near(probe, rows, reach):
        return np.empty(0, np.int32), np.empty(0, np.int32)
    window = compiled().Window(
        probe.time, rows.time, min(_FAR, max(-_FAR, reach.before_us)),
        min(_FAR, max(-_FAR, reach.after_us)), *rows.span,
    )  # fmt: skip
    if isinstance(condition, Overlap | Subset | Superset):
        ours, theirs = _both(condition, probe, rows, SetRows)
        return _sets(condition, ours, theirs, chosen, window, probe_is_left)
    if isinstance(condition, Equal):
        return _keys(*_both(condition, probe, rows, KeyRows), chosen, window)
    if isinstance(condition, InnerProduct):
        if isinstance(probe, VectorRows):
            return _vectors(condition, *_both(condition, probe, rows, VectorRows), chosen, window)
        return _weighted(condition, *_both(condition, probe, rows, WeightedRows), chosen, window)
    if isinstance(condition, Predicate):
        return _tested(condition, rows, chosen, window, test)
    raise BadArgument(f"{condition!r} is no join condition: use hg.overlap, hg.equal and the others")


def _near(probe: Rows, rows: Rows, reach: Reach) -> bool:
    """Whether the blocks are near enough for any pair, by their spans alone."""
    (begin, end), (first, last) = probe.span, rows.span
    return begin - reach.before_us <= last and first <= end + reach.after_us


def _both(condition: Condition, probe: Rows, rows: Rows, kind: type[R]) -> tuple[R, R]:
    if not isinstance(probe, kind) or not isinstance(rows, kind):
        raise BadArgument(
            f"{type(condition).__name__} compares {kind.__name__} with {kind.__name__}, not "
            f"{type(probe).__name__} with {type(rows).__name__}: build both blocks for the condition"
        )
    return probe, rows


def _sets(
    condition: Overlap | Subset | Superset,
    probe: SetRows,
    rows: SetRows,
    picked: Indices,
    window: Any,
    probe_is_left: bool,
) -> Pairs:
    kernels = compiled()
    how, need, exact = kernels.OVERLAP, 1, probe.exact and rows.exact
    if isinstance(condition, Overlap):
        need = min(condition.at_least, 1 << 31)
    else:
        inside = isinstance(condition, Subset) == probe_is_left
        how = kernels.PROBE_INSIDE if inside else kernels.ROW_INSIDE
    ours = kernels.SetBlock(probe.lo, probe.hi, probe.lost, probe.offsets, probe.items)
    theirs = kernels.SetBlock(rows.lo, rows.hi, rows.lost, rows.offsets, rows.items)
    index = len(picked) >= _MANY[rows.exact] or rows.is_indexed
    found: Pairs
    if index and exact and how != kernels.ROW_INSIDE:
        turned = compiled("index_kernels").plane_pairs
        found = turned(how, need, picked, probe.lo, probe.hi, rows.planes, window)
    elif index and not rows.exact and how == kernels.OVERLAP:
        by_item = compiled("index_kernels").posting_pairs
        found = by_item(need, picked, ours, theirs, rows.postings, window)
    else:
        found = kernels.set_pairs(how, need, exact, picked, ours, theirs, window)
    return found


def _keys(probe: KeyRows, rows: KeyRows, picked: Indices, window: Any) -> Pairs:
    # sorting costs about as much as comparing 25 log2(n) probes with the block
    few = not rows.is_sorted and len(picked) < 25 * np.log2(rows.n + 1)
    if rows.n <= _SMALL or few:
        nested: Pairs = compiled().key_pairs(picked, probe.key, rows.key, window)
        return nested
    runs: Pairs = compiled().key_runs(picked, probe.key, *rows.sorted, window)
    return runs


def _vectors(
    condition: InnerProduct, probe: VectorRows, rows: VectorRows, picked: Indices, window: Any
) -> Pairs:
    size = max(probe.vectors.shape[1], rows.vectors.shape[1])
    probe, rows = _as_wide(probe, size), _as_wide(rows, size)
    step, found = max(1, _PRODUCTS // rows.n), []
    # a sum of d products in single precision is off by less than d 2^-24 |p| |r|; twice that for safety
    slack = (size + 2) * 2.0**-23 * float(rows.lengths.max())
    for start in range(0, len(picked), step):
        part = picked[start : start + step]
        products = probe.vectors[part] @ rows.vectors.T
        floor = (condition.at_least - slack * probe.lengths[part]).astype(np.float32)
        floor = np.nextafter(floor, np.float32(-np.inf))
        found.append(
            compiled().vector_pairs(
                products, floor, float(condition.at_least), part, probe.vectors, rows.vectors, window
            )
        )
    return np.concatenate([p for p, _ in found]), np.concatenate([r for _, r in found])


def _as_wide(rows: VectorRows, size: int) -> VectorRows:
    """Zeros behind shorter vectors change no inner product."""
    missing = size - rows.vectors.shape[1]
    return rows if not missing else replace(rows, vectors=np.pad(rows.vectors, ((0, 0), (0, missing))))


def _weighted(
    condition: InnerProduct, probe: WeightedRows, rows: WeightedRows, picked: Indices, window: Any
) -> Pairs:
    found: Pairs = compiled("index_kernels").weighted_pairs(
        float(condition.at_least),
        picked,
        probe.offsets,
        probe.items,
        probe.weights,
        *rows.postings,
        window,
    )
    return found


def _tested(
    condition: Predicate, rows: Rows, picked: Indices, window: Any, test: PairTest | None
) -> Pairs:
    if test is None:
        raise BadArgument(
            "a predicate needs test=, a function of (indices of probes, indices of rows) that calls "
            f"{condition.function!r} on frames of those pairs"
        )
    step, ours, theirs = max(1, _CANDIDATES // rows.n), [], []
    for start in range(0, len(picked), step):
        left, right = compiled().plain_pairs(picked[start : start + step], rows.n, window)
        if len(left):
            holds = np.asarray(test(left, right), bool)
            if holds.shape != left.shape:
                raise BadArgument(
                    f"the predicate gave {holds.shape} values for {len(left)} pairs: give one a pair"
                )
            ours.append(left[holds])
            theirs.append(right[holds])
    if not ours:
        return np.empty(0, np.int32), np.empty(0, np.int32)
    return np.concatenate(ours), np.concatenate(theirs)
