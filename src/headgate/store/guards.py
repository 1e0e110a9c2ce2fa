"""A guard's declaration in the control folder: what people are shown of it."""

from __future__ import annotations

import math
from typing import Any

from headgate.errors import BadArgument
from headgate.settings import FOREVER, RETENTION_S
from headgate.store.folder import read_json, read_text, write_json
from headgate.store.places.place import Place

__all__ = ["declare_guard", "guard_in"]


def _path(control: Place, name: str) -> Place:
    return control / "gates" / name / "guard.json"


def declare_guard(
    control: Place,
    name: str,
    *,
    policy: str,
    target: str,
    target_s: float,
    retention_s: float = RETENTION_S,
) -> None:
    """Say that this is a guard, and what it was asked for; refused if a gate has the name."""
    if read_text(control / "gates" / name / "gate.json") is not None:
        raise BadArgument(
            f"{name!r} is a gate in the control folder {str(control)!r}: give the guard another name"
        )
    value: dict[str, Any] = {"v": 1, "policy": policy, "target": target, "target_s": target_s}
    value["retention"] = FOREVER if math.isinf(retention_s) else retention_s
    write_json(_path(control, name), value)


def guard_in(control: Place, name: str) -> dict[str, Any] | None:
    """What the guard of this name was asked for; None if it is a gate."""
    value = read_json(_path(control, name))
    return dict(value) if value is not None else None
