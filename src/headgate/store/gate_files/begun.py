"""Offsets of batches that began and have no record, kept until somebody settles them.

Spark's offset log forgets a batch a hundred batches later. The records beside it tell the same, but two
kills in a row leave two batches side by side without a record, and then nobody knows where the first
ended. So a driver that starts notes what the ones before it left, while Spark still knows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from headgate.store.folder import names_in, read_json, write_json
from headgate.store.places.place import Place
from headgate.store.places.stores import store_of

__all__ = ["begun_offsets", "forget_begun", "note_begun", "noted_batches"]

_NOTE = re.compile(r"(\d+)\.json")


def _path(folder: Place, batch: int) -> Place:
    return folder / "begun" / f"{batch:012d}.json"


def note_begun(folder: Place, batch: int, starts: Sequence[Any], ends: Sequence[Any]) -> None:
    """Keep where each source stood before and behind the batch; `folder` is a gate's in a query."""
    write_json(_path(folder, batch), {"starts": list(starts), "ends": list(ends)})


def begun_offsets(folder: Place, batch: int) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """Starts and ends as they were noted; None where they were not, or a crash cut the note off."""
    try:
        value = read_json(_path(folder, batch))
    except ValueError:
        return None
    lists = isinstance(value, dict) and all(isinstance(value.get(k), list) for k in ("starts", "ends"))
    if not lists or len(value["starts"]) != len(value["ends"]):
        return None
    return tuple(value["starts"]), tuple(value["ends"])


def noted_batches(folder: Place) -> set[int]:
    """Batches that have a note."""
    found = (_NOTE.fullmatch(name) for name in names_in(folder / "begun"))
    return {int(one[1]) for one in found if one is not None}


def forget_begun(folder: Place, batches: Iterable[int]) -> None:
    """They are settled, or too old for it."""
    paths = [_path(folder, batch) for batch in sorted(batches)]
    if paths:
        store_of(folder).delete_many(paths)
