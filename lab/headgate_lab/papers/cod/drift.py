"""How far a concept moves from one window to the next (cod-2018, section II-C and figure 2).

Concept overlap is the share of common elements. Concept distance is "the similarity in terms of
higher-level characteristics" in the text and the mean set difference in figure 2; of lists of one length
the set difference is 1 - overlap, which is no second dimension. Here distance has three meanings that
are: of two rankings, Spearman's footrule; of two frequency distributions, total variation and Hellinger.
All are 0 for the same concept and 1 for concepts with nothing in common.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument

__all__ = ["concept_overlap", "footrule_distance", "hellinger_distance", "top_k", "total_variation"]


def top_k(keys: npt.NDArray[Any], scores: npt.NDArray[np.generic], k: int = 10) -> list[Any]:
    """The keys with the k highest scores, highest first; of equal scores the lower key comes first.

    >>> top_k(np.array([7, 8, 9]), np.array([1.0, 5.0, 5.0]), 2)
    [8, 9]
    """
    if k < 1:
        raise BadArgument(f"k={k!r}: give at least 1")
    order = np.lexsort((keys, -np.asarray(scores, np.float64)))[:k]
    found: list[Any] = keys[order].tolist()
    return found


def concept_overlap(before: Sequence[Hashable], after: Sequence[Hashable]) -> float:
    """The share of common elements: of the longer list, if one is shorter.

    >>> concept_overlap("abcd", "cdef")
    0.5
    """
    longest = max(len(set(before)), len(set(after)))
    return len(set(before) & set(after)) / longest if longest else 1.0


def footrule_distance(before: Sequence[Hashable], after: Sequence[Hashable]) -> float:
    """How far the elements of two rankings stand from their places, as a share of the farthest.

    The footrule for top-k lists of Fagin, Kumar and Sivakumar (2003): an element that a list does not
    have stands behind its last.

    >>> footrule_distance("abc", "abc"), footrule_distance("abc", "xyz"), footrule_distance("ab", "ba")
    (0.0, 1.0, 0.3333333333333333)
    """
    first = {key: rank for rank, key in enumerate(before)}
    second = {key: rank for rank, key in enumerate(after)}
    if len(first) != len(before) or len(second) != len(after):
        raise BadArgument("a ranking names an element twice: give each once")
    moved = sum(
        abs(first.get(key, len(first)) - second.get(key, len(second))) for key in first.keys() | second
    )
    farthest = sum(abs(place - len(second)) for place in first.values())
    farthest += sum(abs(place - len(first)) for place in second.values())
    return moved / farthest if farthest else 0.0


def total_variation(before: Mapping[Hashable, float], after: Mapping[Hashable, float]) -> float:
    """The share of the rows that would have to change their group to make one distribution the other.

    >>> total_variation({"a": 3, "b": 1}, {"a": 10, "c": 10})
    0.5
    """
    p, q = _aligned(before, after)
    return 0.5 * float(np.abs(p - q).sum())


def hellinger_distance(before: Mapping[Hashable, float], after: Mapping[Hashable, float]) -> float:
    """sqrt(1 - sum of sqrt(p q)): it notices rare groups that come and go more than total variation.

    >>> hellinger_distance({"a": 1}, {"a": 5}), hellinger_distance({"a": 1}, {"b": 1})
    (0.0, 1.0)
    """
    p, q = _aligned(before, after)
    return math.sqrt(max(0.0, 1.0 - float(np.sqrt(p * q).sum())))


def _aligned(
    before: Mapping[Hashable, float], after: Mapping[Hashable, float]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    keys = list(dict.fromkeys((*before, *after)))
    pair = [np.array([found.get(key, 0.0) for key in keys], np.float64) for found in (before, after)]
    if any((p < 0).any() or not p.sum() > 0 for p in pair):
        raise BadArgument(
            "frequencies are at least 0, and not all 0: give those of two windows with rows"
        )
    return pair[0] / pair[0].sum(), pair[1] / pair[1].sum()
