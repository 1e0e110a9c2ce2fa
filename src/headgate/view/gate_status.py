"""What every gate does now, as `headgate status --json` prints it: read once, from all that is there."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from headgate.errors import DamagedFile
from headgate.settings import RETENTION_S, GateSettings
from headgate.store.guards import guard_in
from headgate.store.lease import GONE_S
from headgate.store.ledger.board import boards_in
from headgate.store.ledger.records import Ledger, gates_in, queries_of
from headgate.store.ledger.standing import Standing, unreadable
from headgate.store.places.place import Place, asks_server
from headgate.store.plans import PlanStore
from headgate.store.repaid.marks import marks_of
from headgate.store.settings_file import SettingsFile
from headgate.view.first_batch import first_batch_in
from headgate.view.wording import target_text

__all__ = ["FEW", "gates_status"]

#: So many gates are looked up one by one; of more, their drivers' own word is taken.
FEW = 30
#: Gates that are looked up at once: in an object store each takes a dozen requests, half of them one
#: behind another.
_AT_ONCE = 16
_NOT_SHOWN = ("gate", "kind", "settings")


def gates_status(folder: Place, now: float, names: list[str] | None = None) -> list[dict[str, Any]]:
    """Every gate: looked up one by one where they are few, else from what their drivers wrote.

    `names` are the gates', for whoever has listed them a moment ago.
    """
    names = gates_in(folder) if names is None else names
    known = _on_boards(folder, now) if len(names) > FEW else {}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda name: _gate(folder, name, now, known.get(name)), names))


def _look_at_once(folder: Place | None, *looks: Callable[[], Any]) -> list[Any]:
    """What each of them finds: at once in a store where each is a request, else one after the other."""
    if folder is None or not asks_server(folder):
        return [look() for look in looks]
    with ThreadPoolExecutor(len(looks)) as pool:
        return list(pool.map(lambda look: look(), looks))


def _on_boards(folder: Place, now: float) -> dict[str, list[dict[str, Any]]]:
    """The queries of each gate that a driver has said something of, with what it was asked for."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for told in boards_in(folder):
        heard = told.beats
        for row in told.rows:
            key = row["gate"], row["query"]
            beat = None if heard is None else heard.of(*key)
            ages = {} if heard is None or beat is None else {"at": heard.written_at - beat.age_s}
            rows.pop(key, None)  # a driver that took it up later knows better
            rows[key] = {**row, **ages, "steered_by": told.driver}
    found: dict[str, list[dict[str, Any]]] = {}
    for (gate, _), row in sorted(rows.items()):
        at = row.pop("at", None)
        row["heartbeat_age_s"] = None if at is None else round(max(0.0, now - at), 3)
        found.setdefault(gate, []).append(row)
    return found


def _gate(
    folder: Place, name: str, now: float, rows: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    asked, queries = _look_at_once(
        folder if rows is None else None,  # what a driver wrote is at hand: there is nothing to ask for
        lambda: _asked_or_why_not(folder, name, rows),
        lambda: _queries(folder, name, now, rows),
    )
    steered = [q for q in queries if not q["ended"]] or queries
    ages = [q["heartbeat_age_s"] for q in steered if q["heartbeat_age_s"] is not None]
    return {
        "gate": name,
        **asked,
        "heartbeat_age_s": min(ages, default=None),
        "ended": bool(queries) and all(q["ended"] for q in queries),
        "queries": queries,
    }


def _queries(
    folder: Place, name: str, now: float, rows: list[dict[str, Any]] | None
) -> list[dict[str, Any]]:
    if rows is None:
        return [_query(folder, name, query, now) for query in queries_of(folder, name)]
    # What was repaid is not their driver's to say.
    told_of = [{k: v for k, v in row.items() if k not in _NOT_SHOWN} for row in rows]
    return [{"repaid": None, **row, **_first_batch(folder, name, row)} for row in told_of]


def _asked_or_why_not(folder: Place, name: str, rows: list[dict[str, Any]] | None) -> dict[str, Any]:
    """What the gate was asked for, by its driver's word or its own files; or that nobody can read it."""
    try:
        told = next(
            (row["settings"] for row in rows or () if not row["ended"] and "settings" in row), None
        )
        return _asked(folder, name) if told is None else _steered(GateSettings.from_json(told))
    except DamagedFile as error:
        return _not_known(error)
    except OSError:
        raise
    except Exception as error:  # of another version, or changed by hand; the rest can be told
        return _not_known(error)


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
            "changed": {},
            "declared": {},
        }
    file = SettingsFile(folder, name)
    declared, changed = file.declared(), file.overrides()
    return {
        **_steered(declared.changed(changed)), "changed": changed, "declared": declared.to_json(),
    }  # fmt: skip


def _not_known(error: Exception) -> dict[str, Any]:
    said = f"settings cannot be read ({_reason(error)})"
    return {
        "kind": "gate", "mode": "?", "target": said, "target_s": None, "settings": {}, "retention": None,
        "changed": {}, "declared": {},
    }  # fmt: skip


def _steered(settings: GateSettings) -> dict[str, Any]:
    """What holds; a driver that says it does not say what of it was changed live."""
    return {
        "kind": "gate",
        "mode": settings.mode,
        "target": target_text(settings),
        "target_s": settings.target_s,
        "settings": settings.to_json(),
        "retention": settings.to_json()["retention"],
        "changed": None,
        "declared": None,
    }


def _query(folder: Place, gate: str, query: str, now: float) -> dict[str, Any]:
    store = PlanStore(folder, gate, query)
    (holder, written_at), repaid, standing = _look_at_once(
        folder,
        lambda: (store.lease.holder(), store.lease.written_at),
        lambda: sum(marks_of(folder, gate, query).rows().values()),
        lambda: _standing(folder, gate, query, store),
    )
    found = {
        "repaid": repaid,
        "query": query,
        **standing,
        "steered_by": "" if holder is None else holder.described,
        "ended": holder is not None and holder.released,
        "heartbeat_age_s": None if written_at is None else round(max(0.0, now - written_at), 3),
    }
    return {**found, **_first_batch(folder, gate, found)}


def _standing(folder: Place, gate: str, query: str, store: PlanStore) -> dict[str, Any]:
    try:
        ledger = Ledger(folder, gate, query)
        shown = Standing(ledger).to_json(store.current())
        shown["why"] = "; ".join(filter(None, (shown["why"], ledger.no_records)))
        return shown
    except OSError:
        raise
    except Exception as error:  # what somebody else has written there
        return unreadable(f"its ledger or its plan cannot be read ({_reason(error)})")


def _reason(error: Exception) -> str:
    plain = isinstance(error, ValueError | DamagedFile)
    said = str(error) if plain else f"{type(error).__name__}: {error}"
    return (said.splitlines() or [type(error).__name__])[0]


def _first_batch(folder: Place, gate: str, query: dict[str, Any]) -> dict[str, Any]:
    """The batch that a query runs before it has any record."""
    age = query["heartbeat_age_s"]
    waits = not query["batches"] and not query["ended"] and age is not None and age < GONE_S
    first = first_batch_in(PlanStore(folder, gate, query["query"])) if waits else None
    return {"first_batch": None if first is None else first.to_json()}
