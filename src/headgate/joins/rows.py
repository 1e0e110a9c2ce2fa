"""The rows of one block as arrays: what the kernels read (join-2007, section 3.2, as columns).

The paper's basic window is a list of tuples. Here it is a block of columns, because one compiled call
for a batch and a block is several times faster than one a tuple (`headgate_lab.bench.join.kernels`). A
set also carries a *signature* of 128 bits: item x sets bit x if 0 <= x < 128, else bit mix64(x) mod 128.
Where all items of two blocks are in 0..127 the signatures are the sets; otherwise they are a filter, and
the sorted items decide.

``lost`` is what the signature hides: distinct items minus bits set, at most 255. Two sets p, r share at
most popcount(p & r) + min(lost p, lost r) items, since the items that collide inside the common part
collide in p and in r as well; so a filter that adds ``lost`` never misses a pair.

Rows are frozen, their arrays too: contiguous, aligned and read-only, so that one compilation of a kernel
serves rows from a batch and rows from stored bytes. A row whose column is null matches nothing and must
not be put in a block.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument, MissingExtra
from headgate.joins.arrays import Bytes, Floats, Indices, Integers, Singles, Words

__all__ = ["KeyRows", "PlainRows", "Rows", "SetRows", "VectorRows", "WeightedRows", "compiled"]


def compiled(name: str = "kernels") -> Any:
    """A module of kernels; imported late, since it needs numba."""
    try:
        return importlib.import_module(f"headgate.joins.{name}")
    except ImportError as error:
        raise MissingExtra("numba", "join") from error


def frozen(values: npt.ArrayLike, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The values as a read-only array that is contiguous and aligned; no copy if they are so already."""
    view = np.require(values, dtype, ["C", "A"]).view()
    view.setflags(write=False)
    return view


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows:
    """What every block has: event times (microseconds), perhaps a utility and a type for each row."""

    time: Integers
    #: V of the row (join-2007, section 5.3); None: every row is worth 1.
    value: Floats | None = None
    #: The row's type, for what is learned by type; zeros if there are none.
    kind: Indices = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        object.__setattr__(self, "time", frozen(self.time, np.int64))
        kind = np.zeros(len(self.time), np.int32) if self.kind is None else self.kind
        object.__setattr__(self, "kind", frozen(kind, np.int32))
        if self.value is not None:
            object.__setattr__(self, "value", frozen(self.value, np.float64))
        self._same_length("kind", self.kind)
        if self.value is not None:
            self._same_length("value", self.value)

    def _same_length(self, name: str, column: npt.NDArray[Any], more: int = 0) -> None:
        if len(column) != self.n + more:
            raise BadArgument(
                f"{name} has {len(column)} entries for {self.n} rows: give {self.n + more}"
            )

    @property
    def n(self) -> int:
        """Rows in the block."""
        return len(self.time)

    @cached_property
    def span(self) -> tuple[int, int]:
        """The earliest and the latest time; (0, -1) of no rows."""
        return (int(self.time.min()), int(self.time.max())) if self.n else (0, -1)


@dataclass(frozen=True, eq=False, kw_only=True)
class PlainRows(Rows):
    """Rows for an opaque predicate: times are all that the kernels need."""

    @classmethod
    def of(cls, time: npt.ArrayLike, value: Any = None, kind: Any = None) -> PlainRows:
        """A block of rows."""
        return cls(time=frozen(time, np.int64), value=value, kind=kind)


@dataclass(frozen=True, eq=False, kw_only=True)
class KeyRows(Rows):
    """Rows with one 64-bit key each; equal keys are equal values."""

    key: Integers

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "key", frozen(self.key, np.int64))
        self._same_length("key", self.key)

    @classmethod
    def of(cls, time: npt.ArrayLike, key: npt.ArrayLike, value: Any = None, kind: Any = None) -> KeyRows:
        """A block of rows."""
        return cls(time=frozen(time, np.int64), key=frozen(key, np.int64), value=value, kind=kind)

    @cached_property
    def sorted(self) -> tuple[Indices, Integers]:
        """Indices in order of key, and the keys in that order; rows of one key stay in their order."""
        order = np.argsort(self.key, kind="stable")
        return frozen(order, np.int32), frozen(self.key[order], np.int64)

    @property
    def is_sorted(self) -> bool:
        """Whether `sorted` has been asked for before, and so is free."""
        return "sorted" in self.__dict__


@dataclass(frozen=True, eq=False, kw_only=True)
class SetRows(Rows):
    """Rows with a set of items each: signatures, and the sorted distinct items."""

    lo: Words
    hi: Words
    lost: Bytes
    #: Row i has items[offsets[i] : offsets[i + 1]].
    offsets: Indices
    items: Integers
    #: All items are in 0..127, so that the signature is the set.
    exact: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, dtype, more in (("lo", np.uint64, 0), ("hi", np.uint64, 0), ("lost", np.uint8, 0),
                                  ("offsets", np.int32, 1)):  # fmt: skip
            object.__setattr__(self, name, frozen(getattr(self, name), dtype))
            self._same_length(name, getattr(self, name), more)
        object.__setattr__(self, "items", frozen(self.items, np.int64))

    @classmethod
    def of(
        cls,
        time: npt.ArrayLike,
        offsets: npt.ArrayLike,
        items: npt.ArrayLike,
        value: Any = None,
        kind: Any = None,
    ) -> SetRows:
        """A block of rows; items may come in any order and more than once a row."""
        starts, flat = _checked_lists(offsets, items)
        starts, flat, lo, hi, lost, exact = compiled("packing_kernels").pack_sets(starts, flat)
        return cls(
            time=frozen(time, np.int64), value=value, kind=kind, lo=lo, hi=hi, lost=lost, offsets=starts,
            items=flat, exact=bool(exact),
        )  # fmt: skip

    @cached_property
    def planes(self) -> Words:
        """The signatures turned, one bit a row for each of 128 bits; kept once built."""
        return frozen(compiled("index_kernels").bit_planes(self.lo, self.hi), np.uint64)

    @cached_property
    def postings(self) -> Any:
        """The rows of each item; kept once built."""
        return _postings(self.offsets, self.items)

    @property
    def is_indexed(self) -> bool:
        """Whether the index for these items has been built before, and so is free."""
        return ("planes" if self.exact else "postings") in self.__dict__


@dataclass(frozen=True, eq=False, kw_only=True)
class VectorRows(Rows):
    """Rows with a dense vector each."""

    vectors: Singles

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "vectors", frozen(self.vectors, np.float32))
        self._same_length("vectors", self.vectors)
        if self.vectors.ndim != 2:
            raise BadArgument(f"vectors has {self.vectors.ndim} dimensions: give one row a vector, 2")

    @classmethod
    def of(
        cls, time: npt.ArrayLike, vectors: npt.ArrayLike, value: Any = None, kind: Any = None
    ) -> VectorRows:
        """A block of rows."""
        return cls(
            time=frozen(time, np.int64), vectors=frozen(vectors, np.float32), value=value, kind=kind
        )

    @cached_property
    def lengths(self) -> Floats:
        """The Euclidean length of each vector."""
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", self.vectors, self.vectors, dtype=np.float64)))


@dataclass(frozen=True, eq=False, kw_only=True)
class WeightedRows(Rows):
    """Rows with a weighted set each: sorted distinct items, and a weight beside each."""

    offsets: Indices
    items: Integers
    weights: Singles

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, dtype in (("offsets", np.int32), ("items", np.int64), ("weights", np.float32)):
            object.__setattr__(self, name, frozen(getattr(self, name), dtype))
        self._same_length("offsets", self.offsets, 1)

    @classmethod
    def of(
        cls,
        time: npt.ArrayLike,
        offsets: npt.ArrayLike,
        items: npt.ArrayLike,
        weights: npt.ArrayLike,
        value: Any = None,
        kind: Any = None,
    ) -> WeightedRows:
        """A block of rows; items may come in any order, and the weights of equal ones are added."""
        starts, flat = _checked_lists(offsets, items)
        heavy = frozen(weights, np.float32)
        if len(heavy) != len(flat):
            raise BadArgument(f"{len(heavy)} weights for {len(flat)} items: give one an item")
        starts, flat, heavy = compiled("packing_kernels").pack_weights(starts, flat, heavy)
        return cls(
            time=frozen(time, np.int64),
            value=value,
            kind=kind,
            offsets=starts,
            items=flat,
            weights=heavy,
        )

    @cached_property
    def postings(self) -> tuple[Any, Singles]:
        """The rows of each item, and the weights in the same order; kept once built."""
        index = _postings(self.offsets, self.items)
        return index, frozen(self.weights[index.order], np.float32)


def _postings(offsets: Indices, items: Integers) -> Any:
    kernels = compiled("index_kernels")
    built = kernels.build_postings(offsets, items)
    return kernels.Postings(*(frozen(part, part.dtype) for part in built))


def _checked_lists(offsets: npt.ArrayLike, items: npt.ArrayLike) -> tuple[Indices, Integers]:
    starts, flat = frozen(offsets, np.int32), frozen(items, np.int64)
    if not len(starts) or starts[0] < 0 or starts[-1] > len(flat) or bool((np.diff(starts) < 0).any()):
        raise BadArgument(
            f"the offsets do not cut {len(flat)} items into rows: give one more than there are rows, "
            f"rising from 0 to at most {len(flat)}"
        )
    return starts, flat
