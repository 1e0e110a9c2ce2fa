"""Seeded hashing that is the same in every process, on every machine, in any order.

Las-2020, Section 3.2 asks for hash functions drawn from a 2-universal family. Ours is
Dietzfelbinger's multiply-shift over the two 32-bit halves of a 64-bit key,

    ``h(x) = (a1 * high(x) + a2 * low(x) + b mod 2**64) >> 32``,

which is strongly 2-universal onto 32 bits; a multiplication maps those onto ``0 ... c - 1``. Two keys
then meet with probability at most ``1/c + c / 2**32``. (The paper's range ``{0, ..., c}`` has one value
too many.) The coefficients come from the seed by splitmix64 and from nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument

__all__ = ["HashFamily", "check_seed", "mix64", "mix64_array", "uniform", "uniforms"]

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_LOW = (1 << 32) - 1


def check_seed(seed: int) -> int:
    """The seed, if it is a whole number of 64 bits."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= _MASK:
        raise BadArgument(f"seed={seed!r}: give a whole number from 0 to 2**64 - 1")
    return seed


def mix64(value: int) -> int:
    """splitmix64's finaliser: a bijection of 64-bit integers that leaves no pattern.

    >>> hex(mix64(1))
    '0x5692161d100b05e5'
    """
    value &= _MASK
    value = ((value ^ (value >> 30)) * _FIRST) & _MASK
    value = ((value ^ (value >> 27)) * _SECOND) & _MASK
    return value ^ (value >> 31)


def mix64_array(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """`mix64` of every element."""
    mixed = values.astype(np.uint64, copy=True)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(_FIRST)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(_SECOND)
    return mixed ^ (mixed >> np.uint64(31))


def uniform(seed: int, index: int) -> float:
    """The `index`-th number of a seed's stream, uniform in [0, 1): any of them without the others.

    >>> uniform(7, 0) == uniform(7, 0), 0.0 <= uniform(7, 1) < 1.0
    (True, True)
    """
    return (mix64(mix64(seed) + _GOLDEN * (index + 1)) >> 11) * 2.0**-53


def uniforms(seed: int, count: int) -> npt.NDArray[np.float64]:
    """The first `count` numbers of `uniform`."""
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GOLDEN) + np.uint64(mix64(seed))
    numbers: npt.NDArray[np.float64] = (mix64_array(steps) >> np.uint64(11)).astype(
        np.float64
    ) * 2.0**-53
    return numbers


def _coefficients(seed: int) -> Iterator[int]:
    state = mix64(seed)
    while True:
        state = (state + _GOLDEN) & _MASK
        yield mix64(state)


class HashFamily:
    """`rows` functions from 64-bit keys to ``0 ... columns - 1``, drawn by `seed`.

    >>> family = HashFamily(rows=4, columns=54, seed=1)
    >>> family.columns_of(12345) == HashFamily(4, 54, 1).columns_of(12345)
    True
    """

    def __init__(self, rows: int, columns: int, seed: int = 0) -> None:
        for name, value in (("rows", rows), ("columns", columns)):
            if not 1 <= value <= 1 << 24:
                raise BadArgument(f"{name}={value!r}: give a whole number from 1 to 2**24")
        self.rows, self.columns, self.seed = rows, columns, check_seed(seed)
        drawn = _coefficients(seed)
        self._rules = [(next(drawn), next(drawn), next(drawn)) for _ in range(rows)]

    def columns_of(self, key: int) -> list[int]:
        """The column of the key in each row."""
        high, low = (key & _MASK) >> 32, key & _LOW
        return [
            ((((a * high + b * low + c) & _MASK) >> 32) * self.columns) >> 32 for a, b, c in self._rules
        ]

    def columns_of_all(self, keys: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """The columns of many 64-bit keys: one row of the answer for each function."""
        unsigned = keys.astype(np.uint64)
        shift = np.uint64(32)
        high, low = unsigned >> shift, unsigned & np.uint64(_LOW)
        answer = np.empty((self.rows, len(unsigned)), np.int64)
        for row, (a, b, c) in enumerate(self._rules):
            mixed = np.uint64(a) * high + np.uint64(b) * low + np.uint64(c)
            answer[row] = ((mixed >> shift) * np.uint64(self.columns)) >> shift
        return answer
