"""What a query lost, doubled and kept otherwise: by its input, its sink, its attempts and its books."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headgate.store.ledger.audit import audit
from headgate.store.ledger.records import Ledger

__all__ = ["Books", "Sunk", "Tally", "books_of", "jaccard", "read_sunk", "tally"]


@dataclass(frozen=True)
class Sunk:
    """What a query's sink has of each batch, and what each attempt at it saw."""

    batches: Mapping[int, Sequence[int]]
    attempts: Mapping[int, Sequence[Sequence[int]]]


@dataclass(frozen=True)
class Books:
    """What a ledger says: rows kept by batch, dropped in all, and what is wrong with it."""

    kept: Mapping[int, int]
    shed: int
    unbalanced: int
    #: Batches of which it knows nothing.
    unsettled: int


@dataclass(frozen=True)
class Tally:
    """One line of the table; None where there is no such promise, or no ledger."""

    query: str
    arrived: int
    kept: int
    repaid: int | None
    lost: int | None
    doubled: int
    #: Rows or pairs in the sink that were not in the input.
    wrong: int
    batches: int
    replayed: int
    #: The least likeness of two attempts at one batch; None without such a batch.
    jaccard: float | None
    unbalanced: int | None
    unsettled: int | None
    #: Batches of which the ledger has other counts than the sink.
    differ: int | None

    def to_json(self) -> dict[str, Any]:
        """As `headgate bench kills --json` prints it."""
        return asdict(self)


def jaccard(one: Iterable[int], other: Iterable[int]) -> float:
    """How alike two sets are: 1 if they are the same.

    >>> jaccard([1, 2], [2, 3])
    0.3333333333333333
    >>> jaccard([], [])
    1.0
    """
    a, b = set(one), set(other)
    return len(a & b) / len(a | b) if a | b else 1.0


def tally(
    query: str,
    wanted: Sequence[int],
    sunk: Sunk,
    books: Books | None,
    *,
    repaid: Sequence[int] | None = None,
) -> Tally:
    """Compare. With `repaid` every row of `wanted` must be there; else some may have been dropped."""
    there = Counter(row for rows in sunk.batches.values() for row in rows)
    kept, late = there.total(), Counter(repaid or [])
    expected = Counter(wanted)
    several = {n: seen for n, seen in sunk.attempts.items() if len(seen) > 1}
    alike = [jaccard(a, b) for seen in several.values() for a, b in itertools.combinations(seen, 2)]
    known = {n: count for n, count in (books.kept if books else {}).items() if n in sunk.batches}
    return Tally(
        query=query,
        arrived=len(wanted),
        kept=kept,
        repaid=None if repaid is None else len(repaid),
        lost=(expected - there - late).total() if repaid is not None else None,
        doubled=sum(n - expected[row] for row, n in (there + late).items() if 0 < expected[row] < n),
        wrong=sum(n for row, n in (there + late).items() if row not in expected),
        batches=len(sunk.batches),
        replayed=len(several),
        jaccard=min(alike, default=None),
        unbalanced=books.unbalanced if books else None,
        unsettled=books.unsettled if books else None,
        differ=sum(len(sunk.batches[n]) != count for n, count in known.items()) if books else None,
    )


def read_sunk(folder: Path, name: str) -> Sunk:
    """From what the child left."""
    batches = {
        int(path.stem): json.loads(path.read_text())
        for path in sorted((folder / "sink" / name).glob("*.json"))
    }
    attempts: dict[int, list[list[int]]] = {}
    for path in sorted((folder / "seen" / name).glob("*.json")):
        attempts.setdefault(int(path.name[:6]), []).append(json.loads(path.read_text()))
    return Sunk(batches, attempts)


def books_of(control: Path, name: str, *, pairs: bool = False) -> Books:
    """From the ledger; of a join, whose records count comparisons, what it says of pairs is compared."""
    (found,) = audit(control, name)
    records = Ledger(control, name, found.query).records()
    wrong = {*found.unbalanced, *found.contradicted, *found.other_plan, *found.doubtful}
    kept = {
        batch: int(record.found.measures.get("pairs", -1)) if pairs else record.kept
        for batch, record in records.items()
    }
    unknown = len({*found.unsettled, *found.missing, *found.begun})
    return Books(kept, sum(r.shed for r in records.values()), len(wrong), unknown)
