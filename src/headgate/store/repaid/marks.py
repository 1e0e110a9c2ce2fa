"""The marks of slices that are done: what was repaid of which batch. For whoever repays, and for
people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from headgate.store.folder import names_in, read_json, unclaim, write_json
from headgate.store.places.place import Place

__all__ = ["Mark", "Marks", "marks_of"]


@dataclass(frozen=True)
class Mark:
    """One slice that is done."""

    slice: str
    #: Where its rows are; empty where a function took them.
    to: str
    #: The rows that were repaid, by batch.
    rows: Mapping[int, int]
    seconds: float = 0.0
    #: When, in seconds since 1970.
    at: float = 0.0

    @classmethod
    def from_json(cls, value: Any) -> Mark | None:
        """What was written; None if that is no mark."""
        try:
            rows = {int(batch): int(count) for batch, count in value["rows"].items()}
            return cls(str(value["slice"]), str(value["to"]), rows, float(value["seconds"]), value["at"])
        except (AttributeError, KeyError, TypeError, ValueError):
            return None


class Marks:
    """All marks of a gate in a query; a look reads those that came since the last one."""

    def __init__(self, folder: Place) -> None:
        self._at = folder / "done"
        #: By slice.
        self.known: dict[str, Mark] = {}

    def look(self) -> dict[str, Mark]:
        """The marks of now."""
        names = {n.removesuffix(".json") for n in names_in(self._at) if n.endswith(".json")}
        self.known = {name: mark for name, mark in self.known.items() if name in names}
        for name in sorted(names - self.known.keys()):
            try:
                mark = Mark.from_json(read_json(self._at / f"{name}.json"))
            except ValueError:  # cut off by a crash: not done
                mark = None
            if mark is not None:
                self.known[name] = mark
        return self.known

    def add(self, mark: Mark) -> None:
        """A slice is done."""
        value = asdict(mark) | {"rows": {str(batch): count for batch, count in mark.rows.items()}}
        write_json(self._at / f"{mark.slice}.json", value)
        self.known[mark.slice] = mark

    def forget(self, slice_id: str) -> None:
        """Its batches have no records any more."""
        unclaim(self._at / f"{slice_id}.json")
        self.known.pop(slice_id, None)

    def rows(self) -> dict[int, int]:
        """The rows that were repaid, by batch, as of the last look."""
        found: dict[int, int] = {}
        for mark in self.known.values():
            for batch, count in mark.rows.items():
                found[batch] = found.get(batch, 0) + count
        return dict(sorted(found.items()))


def marks_of(control: Place, gate: str, query: str) -> Marks:
    """What is repaid of a gate in a query, as of now."""
    marks = Marks(control / "gates" / gate / "queries" / query / "repaid")
    marks.look()
    return marks
