"""CoD for a two-way equi-join of windows (cod-2018, section VI-C3): rates for each group and stream.

Each stream has a histogram of its groups, from every row or from a sample. Groups in both, the
intersection, share each stream's budget; a row of any other group joins nothing. With exact histograms
such rows are shed; with sampled ones a group that is in no sample may still join, and *keep* keeps it,
for a volume far above the budget.

The asked-for result is, for each group, the sum of the first stream's values over all joined pairs:
N2_g times the sum of v1 of g. It is scaled to the rows that the scan counted, N1_g and N2_g.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument
from headgate.policies.by_group.allocation import allocate
from headgate_lab.papers.cod.rows import group_counts
from headgate_lab.papers.cod.stratified import keep_fixed
from headgate_lab.papers.cod.uniform import checked_share, uniform_shed

__all__ = ["JOIN_RULES", "JoinKept", "JoinRows", "cod_join_shed", "uniform_join_shed"]

#: How each stream's budget is divided among the common groups: alike, by the group's rows in the stream,
#: or by the pairs that it forms.
JOIN_RULES = ("senate", "proportional", "product")

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]


@dataclass(frozen=True)
class JoinRows:
    """The rows of one window of two streams: their groups, coded alike, and the first one's values."""

    first: Codes
    second: Codes
    values: Floats
    groups: int

    @classmethod
    def of(cls, first: npt.ArrayLike, values: npt.ArrayLike, second: npt.ArrayLike) -> JoinRows:
        """From the keys of both streams' rows and the values of the first's."""
        one, two = np.asarray(first), np.asarray(second)
        names, codes = np.unique(np.concatenate((one, two)), return_inverse=True)
        found = codes.astype(np.int64)
        return cls(found[: len(one)], found[len(one) :], np.asarray(values, np.float64), len(names))

    @property
    def rows(self) -> int:
        """The number of rows of both streams."""
        return len(self.first) + len(self.second)

    def result(self) -> Floats:
        """The sum of the first's values over the pairs of each group; NaN for groups without a pair."""
        one, two = group_counts(self.first, self.groups), group_counts(self.second, self.groups)
        sums = np.bincount(self.first, weights=self.values, minlength=self.groups)
        return np.where((one > 0) & (two > 0), sums * two, np.nan)


@dataclass(frozen=True)
class JoinKept:
    """The rows kept of both streams, and how the result is scaled."""

    window: JoinRows
    first: Indices
    second: Indices
    #: The chance that a row had, where groups were not counted.
    share: float | None = None

    @property
    def kept_share(self) -> float:
        """The share of all rows that is kept."""
        rows = self.window.rows
        return (len(self.first) + len(self.second)) / rows if rows else 1.0

    def estimate(self) -> Floats:
        """`JoinRows.result` from the rows kept; NaN for groups without a pair among them."""
        window, kept = self.window, self.window.first[self.first]
        one = group_counts(kept, window.groups)
        two = group_counts(window.second[self.second], window.groups)
        sums = np.bincount(kept, weights=window.values[self.first], minlength=window.groups)
        if self.share is None:
            all_one = group_counts(window.first, window.groups)
            all_two = group_counts(window.second, window.groups)
            found = sums / np.maximum(1, one) * all_one * all_two
        else:
            found = sums / self.share * (two / self.share)
        return np.where((one > 0) & (two > 0), found, np.nan)


def uniform_join_shed(window: JoinRows, keep: float, rng: np.random.Generator) -> JoinKept:
    """Algorithm 1 on both streams."""
    first = uniform_shed(len(window.first), keep, rng)
    return JoinKept(window, first, uniform_shed(len(window.second), keep, rng), keep)


def cod_join_shed(
    window: JoinRows,
    keep: float,
    rng: np.random.Generator,
    rule: str = "senate",
    *,
    histograms: Literal["exact", "sample"] = "exact",
    outside: Literal["shed", "keep"] = "shed",
    least: int = 1,
) -> JoinKept:
    """A sample of each common group of each stream; `keep` is the share of each stream's rows asked for.

    A common group keeps at least `least` rows of either stream, even if that exceeds the budget: without
    a row on both sides it is missing.

    >>> window = JoinRows.of(["a"] * 90 + ["b"] * 10, range(100), ["b"] * 5 + ["c"] * 95)
    >>> kept = cod_join_shed(window, 0.05, np.random.default_rng(1))
    >>> len(kept.first), len(kept.second)
    (5, 5)
    """
    checked_share(keep)
    if rule not in JOIN_RULES:
        raise BadArgument(f"rule {rule!r} is not one of {', '.join(map(repr, JOIN_RULES))}")
    if histograms not in ("exact", "sample") or outside not in ("shed", "keep"):
        raise BadArgument(
            f"histograms={histograms!r}, outside={outside!r}: 'exact' or 'sample', and 'shed' or 'keep'"
        )
    streams = (window.first, window.second)
    sizes = [_histogram(codes, window.groups, keep, histograms, rng) for codes in streams]
    common = np.flatnonzero((sizes[0] > 0) & (sizes[1] > 0))
    kept = []
    for codes, own, other in zip(streams, sizes, reversed(sizes), strict=True):
        quotas = np.full(window.groups, len(codes) if outside == "keep" else 0, np.int64)
        quotas[common] = allocate(
            own[common],
            round(keep * len(codes)),
            # a group's quota by its pairs: its rows here times its rows there
            "neyman" if rule == "product" else rule,
            deviations=other[common] if rule == "product" else None,
            least=least,
            order=rng.permutation(len(common)),
        ).quotas
        kept.append(keep_fixed(codes, quotas, rng.random(len(codes))))
    return JoinKept(window, kept[0], kept[1])


def _histogram(
    codes: Codes, groups: int, keep: float, histograms: str, rng: np.random.Generator
) -> Codes:
    """The rows that each group has in a stream, or is believed to have from a sample."""
    if histograms == "exact":
        return group_counts(codes, groups)
    sample = uniform_shed(len(codes), keep, rng, "fixed")
    if not len(sample):
        return np.zeros(groups, np.int64)
    seen = group_counts(codes[sample], groups)
    return np.asarray(np.rint(seen * (len(codes) / len(sample))), np.int64)
