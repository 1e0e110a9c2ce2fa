"""What every gate does now, as `headgate status --json` prints it: read once, from all that is there."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from headgate.errors import BadArgument
from headgate.settings import RETENTION_S, GateSettings
from headgate.store.beats import heard_of
from headgate.store.guards import guard_in
from headgate.store.ledger.board import boards_in
from headgate.store.ledger.records import Ledger, gates_in, queries_of
from headgate.store.ledger.standing import Standing
from headgate.store.places.place import Place
from headgate.store.plans import PlanStore
from headgate.store.repaid.marks import marks_of
from headgate.store.settings_file import SettingsFile
from headgate.view.wording import target_text

__all__ = ["gates_status"]

#: So many gates are looked up one by one; of more, their drivers' own word is taken.
_FEW = 30
#: Gates that are looked up at once, where their drivers have left no word.
_AT_ONCE = 16
_NOT_SHOWN = ("gate", "kind", "settings")


def gates_status(folder: Place, now: float) -> list[dict[str, Any]]:
    """Every gate: looked up one by one where they are few, else from what their drivers wrote."""
    names = gates_in(folder)
    if len(names) <= _FEW:
        return [_gate(folder, name, now) for name in names]
    known = _on_boards(folder, now)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda name: _gate(folder, name, now, known.get(name)), names))


def _on_boards(folder: Place, now: float) -> dict[str, list[dict[str, Any]]]:
    """The queries of each gate that a driver has said something of, with what it was asked for."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for board in boards_in(folder):
        heard = heard_of(folder, board["owner"])
        for row in board["rows"]:
            key = row["gate"], row["query"]
            beat = None if heard is None else heard.of(*key)
            ages = {} if heard is None or beat is None else {"at": heard.written_at - beat.age_s}
            rows.pop(key, None)  # a driver that took it up later knows better
            rows[key] = {**row, **ages, "steered_by": board["driver"]}
    found: dict[str, list[dict[str, Any]]] = {}
    for (gate, _), row in sorted(rows.items()):
        at = row.pop("at", None)
        row["heartbeat_age_s"] = None if at is None else round(max(0.0, now - at), 3)
        found.setdefault(gate, []).append(row)
    return found


def _gate(
    folder: Place, name: str, now: float, rows: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    try:
        told = next(
            (row["settings"] for row in rows or () if not row["ended"] and "settings" in row), None
        )
        asked = _asked(folder, name) if told is None else _steered(GateSettings.from_json(told))
    except BadArgument:
        raise
    except ValueError as error:  # cut off by a crash; the rest can be told
        asked = {"kind": "gate", "mode": "?", "target": f"settings cannot be read ({error})"}
        asked |= {"target_s": None, "settings": {}, "retention": None}
    if rows is None:
        queries = [_query(folder, name, query, now) for query in queries_of(folder, name)]
    else:
        # What was repaid is not their driver's to say.
        known = [{k: v for k, v in row.items() if k not in _NOT_SHOWN} for row in rows]
        queries = [{"repaid": None, **row} for row in known]
    steered = [q for q in queries if not q["ended"]] or queries
    ages = [q["heartbeat_age_s"] for q in steered if q["heartbeat_age_s"] is not None]
    return {
        "gate": name,
        **asked,
        "heartbeat_age_s": min(ages, default=None),
        "ended": bool(queries) and all(q["ended"] for q in queries),
        "queries": queries,
    }


def _asked(folder: Place, name: str) -> dict[str, Any]:
    guard = guard_in(folder, name)
    if guard is not None:
        return {
            "kind": "guard",
            "mode": guard["policy"],
            "target": guard["target"],
            "target_s": guard["target_s"],
            "settings": {},
            "retention": guard.get("retention", RETENTION_S),
        }
    return _steered(SettingsFile(folder, name).effective())


def _steered(settings: GateSettings) -> dict[str, Any]:
    return {
        "kind": "gate",
        "mode": settings.mode,
        "target": target_text(settings),
        "target_s": settings.target_s,
        "settings": settings.to_json(),
        "retention": settings.to_json()["retention"],
    }


def _query(folder: Place, gate: str, query: str, now: float) -> dict[str, Any]:
    store = PlanStore(folder, gate, query)
    holder, age = store.lease.holder(), store.lease.age_s(lambda: now)
    return {
        "repaid": sum(marks_of(folder, gate, query).rows().values()),
        "query": query,
        **Standing(Ledger(folder, gate, query)).to_json(store.current()),
        "steered_by": "" if holder is None else holder.described,
        "ended": holder is not None and holder.released,
        "heartbeat_age_s": None if age is None else round(age, 3),
    }
