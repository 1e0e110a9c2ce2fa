"""The shapes that a gate has had, as files: read by workers, which must not judge a batch with another.

A shape (`headgate.spark.gate.shape.GateShape`) is what decides a row's fate besides the plan. Here it is
only JSON: nothing in it is looked up in Spark or executed.
"""

from __future__ import annotations

from typing import Any

from headgate.store.folder import read_json
from headgate.store.places.place import Place

__all__ = ["difference", "shape_path"]


def shape_path(control: Place, gate: str, digest: str) -> Place:
    """Where the shape of this digest is."""
    return control / "gates" / gate / "shapes" / f"{digest}.json"


def difference(control: Place, gate: str, former: str, present: str) -> str | None:
    """In what two shapes differ, in words; None if they give every row the same fate."""
    if former == present:
        return None
    try:
        one, other = (_deciding(read_json(shape_path(control, gate, d))) for d in (former, present))
    except (OSError, ValueError):
        one = other = None
    if one is None or other is None:
        return "the shapes' files cannot be read"
    parts = [
        f"{_NAMES.get(name, name)} was {_said(one.get(name))} and is {_said(other.get(name))}"
        for name in sorted(one.keys() | other.keys())
        if one.get(name) != other.get(name)
    ]
    return ", ".join(parts) or None


#: What people call the parts of a shape.
_NAMES = {"columns": "by", "classes": "keep", "cells": "policy"}


def _said(value: Any) -> str:
    return repr(value[0]) if isinstance(value, list) and len(value) == 1 else repr(value)


def _deciding(value: Any) -> dict[str, Any] | None:
    """The shape without the number of partitions over which groups are brought together."""
    if not isinstance(value, dict):
        return None
    cells = value.get("cells")
    if not isinstance(cells, dict):
        return value
    return {**value, "cells": {**cells, "partitions": bool(cells.get("partitions"))}}
