"""A change of settings from the page: the same rules and the same file as `headgate set`."""

from __future__ import annotations

import json
import logging
from typing import Any

from headgate.errors import BadArgument
from headgate.settings import GateSettings
from headgate.store.ledger.records import gates_in
from headgate.store.places.place import Place
from headgate.store.settings_file import SettingsFile

__all__ = ["CHANGEABLE", "apply_change", "read_change"]

log = logging.getLogger("headgate.page")

#: What the page may change.
CHANGEABLE = ("mode", "hold", "delay", "rate", "min_keep")
_NUMBERS = ("rate", "min_keep")


def read_change(body: bytes) -> dict[str, Any]:
    """The change in a request's body; what is left empty stays as it is.

    >>> read_change(b'{"mode": "monitor", "hold": "1500 ms", "min_keep": ""}')
    {'mode': 'monitor', 'hold': '1500 ms'}
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise BadArgument("the change is no JSON object: send names and values") from None
    if not isinstance(value, dict):
        raise BadArgument(
            f"the change is {type(value).__name__}: send a JSON object of names and values"
        )
    unknown = sorted(set(value) - set(CHANGEABLE))
    if unknown:
        raise BadArgument(
            f"{', '.join(map(repr, unknown))} cannot be changed on the page; these can: "
            f"{', '.join(CHANGEABLE)}"
        )
    found = {name: given for name, given in value.items() if given not in (None, "")}
    for name in _NUMBERS:
        if name in found:
            found[name] = _number(name, found[name])
    if not found:
        raise BadArgument(f"nothing to change: give one of {', '.join(CHANGEABLE)}")
    return found


def _number(name: str, given: Any) -> float:
    try:
        if isinstance(given, bool):
            raise ValueError
        return float(given)
    except (TypeError, ValueError, OverflowError):
        raise BadArgument(f"{name}={given!r} is no number: give a share in (0, 1]") from None


def apply_change(control: Place, gate: str, change: dict[str, Any], who: str) -> GateSettings:
    """Let the change hold from the next batch on; refused, and nothing changed, if it is illegal."""
    if gate not in gates_in(control):
        raise BadArgument(f"no gate {gate!r} in this control store: reload the page")
    after = SettingsFile(control, gate).change(**change)
    said = ", ".join(f"{name}={value!r}" for name, value in sorted(change.items()))
    log.info("gate %r: %s changed %s on the page", gate, who, said)
    return after
