"""How large a batch is before it runs: what its sources say, and what that has meant in rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from headgate.errors import SnapshotError

__all__ = ["OFFSETS", "RECORDS", "BatchSize", "RowsExpected", "Sizing"]

#: The unit of sources whose offsets count rows: before any batch has shown it, one is taken for a row.
OFFSETS = "offsets"
#: The unit of sources that know how many rows they have, as Delta tables do.
RECORDS = "records"
#: Of all batches before, so much counts beside the latest: about the last four that tell decide.
_MEMORY = 0.7
#: A batch with so many rows is believed alone where it brought more of them than was usual: too few
#: expected rows overrun a target, too many shed a little much for a moment. One with fewer tells as much
#: less: a filter that lets nothing through for an hour has not shown what it lets through.
_TELLING = 100
#: A source explains the rows of a gate better than another if its ratio scatters by so much less.
_CLEARLY = 0.5
#: Batches that must agree before one source of several is believed.
_BATCHES = 3


@dataclass(frozen=True)
class BatchSize:
    """What one source has for a batch, in the unit in which its offsets count."""

    units: float
    #: ``offsets`` (Kafka's: some have no row), ``records``, ``steps`` (seconds, of the rate source),
    #: ``bytes``, ``files``.
    unit: str


@dataclass(frozen=True)
class RowsExpected:
    """How many rows a batch was expected to bring when its plan was pinned, and who said so."""

    #: None where the sizes are known, and nobody can tell yet what they mean in rows.
    rows: float | None
    #: What it was read from: a unit of `BatchSize`.
    known_by: str
    sizes: tuple[BatchSize, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As a JSON value, which `from_json` reads back."""
        sizes = [[size.units, size.unit] for size in self.sizes]
        return {"rows": self.rows, "known_by": self.known_by, "sizes": sizes}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RowsExpected:
        """The value that `to_json` wrote."""
        try:
            sizes = tuple(BatchSize(float(units), str(unit)) for units, unit in value["sizes"])
            rows = value["rows"]
            return cls(None if rows is None else float(rows), str(value["known_by"]), sizes)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise SnapshotError(f"{value!r} is no batch's size: {error!r}") from error


@dataclass(frozen=True)
class _Known:
    """What batches have shown of one source."""

    unit: str
    #: Sums that fade.
    rows: float = 0.0
    units: float = 0.0
    #: Rows for each unit in the last batch that had enough to tell; less, the more was told since.
    latest: float = 0.0
    log_mean: float = 0.0
    log_variance: float = 0.0
    batches: int = 0


class Sizing:
    """Rows for each unit of each source, learned from finished batches.

    Offsets are not always rows: markers of transactions and compacted records have none, a filter in
    front of the gate takes some away, and files have bytes. All of that is one ratio, which rises at
    once, falls slowly, and is forgotten by rows that say otherwise and not by batches without any. Of
    several sources, the one whose ratio scatters least is the gate's own, or all together, as behind a
    union.

    >>> sizing = Sizing()
    >>> sizing.rows((BatchSize(100, "offsets"),)), sizing.rows((BatchSize(100, "bytes"),))
    (100.0, None)
    >>> sizing.add((BatchSize(2000, "bytes"),), arrived=500)
    >>> sizing.rows((BatchSize(4000, "bytes"),))
    1000.0
    """

    def __init__(self) -> None:
        #: By the source's position.
        self._known: dict[int, _Known] = {}

    def add(self, sizes: Sequence[BatchSize], arrived: int) -> None:
        """A batch of these sizes brought so many rows."""
        for index, size in enumerate(_candidates(sizes)):
            if size.units > 0 and arrived > 0:
                self._learn(index, size, arrived)

    def _learn(self, index: int, size: BatchSize, arrived: int) -> None:
        before = self._known.get(index)
        if before is None or before.unit != size.unit:  # or another source under the same checkpoint
            before = _Known(size.unit)
        ratio, told = arrived / size.units, min(1.0, arrived / _TELLING)
        past = _MEMORY**told
        rows, units = past * before.rows + told * arrived, past * before.units + told * size.units
        step = max(1.0 - _MEMORY, 1.0 / (before.batches + 1))
        off = math.log(max(arrived, 0.5) / size.units) - before.log_mean
        self._known[index] = _Known(
            size.unit,
            rows,
            units,
            latest=ratio if told >= 1.0 else (1.0 - told) * before.latest,
            log_mean=before.log_mean + step * off,
            log_variance=(1.0 - step) * (before.log_variance + step * off * off),
            batches=before.batches + 1,
        )

    def rows(self, sizes: Sequence[BatchSize]) -> float | None:
        """The rows that a batch of these sizes brings; None while nobody can tell."""
        sizes = _candidates(sizes)
        index = self._own(sizes)
        if index is None:
            return None
        size, known = sizes[index], self._known.get(index)
        if known is not None and known.unit == size.unit:
            return size.units * max(known.rows / known.units, known.latest)
        return float(size.units) if size.unit in (OFFSETS, RECORDS) else None

    def unit(self, sizes: Sequence[BatchSize]) -> str:
        """In what the size is known."""
        sizes = _candidates(sizes)
        index = self._own(sizes)
        return "" if index is None else sizes[index].unit

    def _own(self, sizes: Sequence[BatchSize]) -> int | None:
        """The position of the gate's own source; None while several may be it."""
        if len(sizes) == 1:
            return 0
        spreads = sorted(
            (known.log_variance, index)
            for index, known in self._known.items()
            if index < len(sizes) and known.unit == sizes[index].unit and known.batches >= _BATCHES
        )
        if not spreads or len(spreads) < len(sizes):
            return None
        if spreads[0][0] <= _CLEARLY * spreads[1][0] or spreads[1][0] <= 1e-6:
            return spreads[0][1]
        return None

    def to_json(self) -> list[list[Any]]:
        """As a JSON value, which `from_json` reads back."""
        return [[index, *astuple(known)] for index, known in sorted(self._known.items())]

    @classmethod
    def from_json(cls, value: Any) -> Sizing:
        """The value that `to_json` wrote."""
        sizing = cls()
        try:
            for index, unit, *numbers, batches in value or []:
                rows, units, latest, mean, variance = map(float, numbers)
                if not math.isfinite(rows + units + latest + mean + variance) or units <= 0.0:
                    raise ValueError(f"{numbers} are no finite rows and units")
                known = _Known(str(unit), rows, units, latest, mean, variance, int(batches))
                sizing._known[int(index)] = known
        except (TypeError, ValueError, OverflowError) as error:
            raise SnapshotError(f"{value!r} is nothing that was learned of sizes: {error}") from error
        return sizing


def _candidates(sizes: Sequence[BatchSize]) -> Sequence[BatchSize]:
    """What may be the gate's own: each source, and all together where they count alike."""
    if len(sizes) < 2 or len({size.unit for size in sizes}) > 1:
        return sizes
    return (*sizes, BatchSize(sum(size.units for size in sizes), sizes[0].unit))
