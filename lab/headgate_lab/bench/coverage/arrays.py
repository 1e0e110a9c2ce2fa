"""The estimators' formulas on numpy arrays: the same definitions that Spark gets as SQL text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from headgate.spark.estimates.intervals.student import t_quantile

__all__ = ["ArrayAlgebra"]

#: Degrees of freedom up to here are interpolated in a table; t hardly changes beyond.
_TABLE = 400

Floats = npt.NDArray[np.float64]


class ArrayAlgebra:
    """`headgate.spark.estimates.intervals.algebra.Algebra` of arrays; what is not known is NaN."""

    def __init__(self, confidence: float = 0.95) -> None:
        self._t = np.array([t_quantile(n, confidence) for n in range(1, _TABLE + 2)])

    def divide(self, above: Any, below: Any) -> Any:
        """Null where `below` is 0."""
        top, bottom = np.broadcast_arrays(np.asarray(above, float), np.asarray(below, float))
        return np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom != 0.0)

    def root(self, x: Any) -> Any:
        """The square root."""
        return np.sqrt(x)

    def cube_root(self, x: Any) -> Any:
        """The cube root."""
        return np.cbrt(x)

    def least(self, *xs: Any) -> Any:
        """Of those that are known."""
        found = xs[0]
        for x in xs[1:]:
            found = np.fmin(found, x)
        return found

    def greatest(self, *xs: Any) -> Any:
        """Of those that are known."""
        found = xs[0]
        for x in xs[1:]:
            found = np.fmax(found, x)
        return found

    def positive(self, x: Any) -> Any:
        """Whether x is above 0; not, where it is not known."""
        return np.asarray(x) > 0.0

    def choose(self, condition: Any, then: Any, otherwise: Any) -> Any:
        """One or the other, by a condition."""
        if isinstance(then, dict):
            return {key: np.where(condition, then[key], otherwise[key]) for key in then}
        return np.where(condition, then, otherwise)

    def known(self, x: Any, otherwise: Any) -> Any:
        """x, or the other where it is not known."""
        return np.where(np.isnan(x), otherwise, x)

    def t(self, freedom: Any) -> Any:
        """Student's two-sided quantile."""
        at = np.clip(np.nan_to_num(np.asarray(freedom, float), nan=1.0), 1.0, _TABLE + 0.5)
        below = np.floor(at).astype(np.int64)
        low, high = self._t[below - 1], self._t[below]
        return low + (high - low) * (at - below) * (below + 1) / at

    def let(self, name: str, values: Mapping[str, Any], body: Callable[[Any], Any]) -> Any:
        """`body` of the values by name."""
        return body(SimpleNamespace(**values))

    def answer(self, values: Mapping[str, Any]) -> Any:
        """Several terms as one."""
        return dict(values)
