"""An inverted index over a window's sets, with posting lists in order of time (join-2007, section 4.2).

Each item has the list of the sets that hold it. A search merges the lists of the query's items: a set
that shares k items comes up k times in a row. With lists in order of *time*, newest first,

- inserting and expiring take constant time, at the two ends of a list;
- a search can stop at a given age, so that part of a window can be searched.

Lists in order of *identifiers* are kept for comparison: they cannot be cut by time, so that a search
always visits them whole. For single values the index is a hash index: one list, of the equal ones.
"""

from __future__ import annotations

import bisect
import heapq
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

from headgate.errors import BadArgument
from headgate.joins.conditions import Condition, Equal, InnerProduct, Overlap, Subset, Superset

__all__ = ["Found", "InvertedIndex"]


@dataclass(frozen=True)
class Found:
    """A search's matches, newest first (by identifier in an index by identifiers), and what it cost."""

    identifiers: tuple[int, ...]
    #: Lists looked up, and postings visited.
    lists: int
    postings: int

    @property
    def cost(self) -> int:
        """What the virtual CPU charges."""
        return self.lists + self.postings


@dataclass(frozen=True)
class _Posting:
    time: float
    identifier: int
    weight: float


class InvertedIndex:
    """Sets, weighted sets or single values by item.

    >>> from headgate.joins.conditions import overlap
    >>> index = InvertedIndex()
    >>> index.insert(1, 0.0, {7, 8, 9})
    >>> index.insert(2, 1.0, {8, 9})
    >>> index.search(overlap("words", at_least=2), {8, 9, 10})
    Found(identifiers=(2, 1), lists=3, postings=4)
    >>> index.search(overlap("words", at_least=2), {8, 9, 10}, since=0.5).postings
    2
    """

    def __init__(self, order: Literal["time", "id"] = "time") -> None:
        if order not in ("time", "id"):
            raise BadArgument(f"order={order!r}: 'time' or 'id'")
        self.order = order
        self._lists: dict[Any, list[_Posting]] = {}
        self._members: dict[int, tuple[float, int]] = {}
        self._expired = -math.inf

    def __len__(self) -> int:
        return len(self._members)

    def insert(self, identifier: int, time: float, value: Any) -> None:
        """Add a set (an iterable or a mapping to weights) or a single value; in order of time."""
        items = _weights(value)
        self._members[identifier] = (time, len(items))
        for item, weight in items.items():
            postings = self._lists.setdefault(item, [])
            posting = _Posting(time, identifier, weight)
            if self.order == "id":
                bisect.insort(postings, posting, key=lambda one: one.identifier)
            else:
                self._prune(postings)
                postings.append(posting)

    def expire(self, before: float) -> None:
        """Let everything older go; lists in order of time are pruned when they are next touched."""
        self._expired = max(self._expired, before)
        gone = [one for one, (time, _) in self._members.items() if time < before]
        for identifier in gone:
            del self._members[identifier]
        if self.order == "id":
            for postings in self._lists.values():
                postings[:] = [posting for posting in postings if posting.time >= before]

    def _prune(self, postings: list[_Posting]) -> None:
        old = 0
        while old < len(postings) and postings[old].time < self._expired:
            old += 1
        del postings[:old]

    def search(self, condition: Condition, query: Any, since: float = -math.inf) -> Found:
        """Sets that match the query as the *left* value, not older than `since`."""
        wanted = _weights(query)
        runs, visited = [], 0
        for item, weight in wanted.items():
            postings = self._lists.get(item, [])
            if self.order == "id":
                part = postings
            else:
                self._prune(postings)
                part = postings[bisect.bisect_left(postings, since, key=lambda one: one.time) :][::-1]
            visited += len(part)
            runs.append([(self._key(posting), posting, weight) for posting in part])
        found = []
        merged = heapq.merge(*runs, key=lambda one: one[0])
        for _, group in groupby(merged, key=lambda one: one[0]):
            shared = list(group)
            posting = shared[0][1]
            product = sum(weight * one.weight for _, one, weight in shared)
            size = self._members[posting.identifier][1]
            if posting.time >= since and _holds(condition, len(shared), product, len(wanted), size):
                found.append(posting.identifier)
        found.extend(self._without_lists(condition, wanted, since, set(found)))
        return Found(tuple(found), len(wanted), visited)

    def _key(self, posting: _Posting) -> tuple[float, int]:
        if self.order == "id":
            return (0.0, posting.identifier)
        return (-posting.time, -posting.identifier)

    def _without_lists(
        self, condition: Condition, wanted: Mapping[Any, float], since: float, found: set[int]
    ) -> Iterable[int]:
        """Empty sets stand in no list, and an empty query looks none up: both are subsets of all."""
        if isinstance(condition, Subset) and not wanted:
            return [one for one, (time, _) in self._members.items() if time >= since]
        if isinstance(condition, Superset):
            return [
                one
                for one, (time, size) in self._members.items()
                if size == 0 and time >= since and one not in found
            ]
        return []


def _weights(value: Any) -> Mapping[Any, float]:
    if isinstance(value, Mapping):
        return value
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        return {value: 1.0}
    return dict.fromkeys(value, 1.0)


def _holds(condition: Condition, shared: int, product: float, wanted: int, size: int) -> bool:
    if isinstance(condition, Equal):
        return shared == wanted == size
    if isinstance(condition, Subset):
        return shared == wanted
    if isinstance(condition, Superset):
        return shared == size
    if isinstance(condition, Overlap):
        return shared >= condition.at_least
    if isinstance(condition, InnerProduct):
        return product >= condition.at_least
    raise BadArgument(
        f"{condition!r} cannot be answered from posting lists: compare the tuples themselves"
    )
