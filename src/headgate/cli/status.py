"""``headgate status``: what every gate does now, and why."""

from __future__ import annotations

import time
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from headgate.cli.plumbing import json_option, print_json
from headgate.cli.set import retention_text, target_text
from headgate.cli.tables import console, table
from headgate.errors import BadArgument
from headgate.settings import RETENTION_S, retention_s
from headgate.store.folder import used_control_folder
from headgate.store.guards import guard_in
from headgate.store.lease import GONE_S
from headgate.store.ledger.records import Ledger, gates_in, queries_of
from headgate.store.places.place import Place
from headgate.store.plans import PlanStore
from headgate.store.settings_file import SettingsFile

__all__ = ["status"]

#: Batches over which the kept share is taken.
_RECENT = 20


@click.command(short_help="What every gate does now, and why.")
@click.argument("control")
@json_option
def status(control: str, as_json: bool) -> None:
    """What every gate and query in the folder CONTROL does now, and why.

    \b
    Examples:
      headgate status /shared/control
      watch -n 2 headgate status /shared/control
      headgate status /shared/control --json
    """
    folder = used_control_folder(control)
    gates = [_gate(folder, name, time.time()) for name in gates_in(folder)]
    if as_json:
        print_json({"control": control, "gates": gates})
        return
    out = console()
    for gate in gates:
        out.print(_heading(gate))
        if gate["queries"]:
            out.print(_table(gate["queries"]))
        for query in gate["queries"]:
            if query["why"]:
                out.print(f"  {query['query'][:8]}: {query['why']}", style="dim")
            if query["batches"]:
                out.print(f"  {query['query'][:8]}: {_in_all(query)}", style="dim")


def _gate(folder: Place, name: str, now: float) -> dict[str, Any]:
    try:
        asked = _asked(folder, name)
    except BadArgument:
        raise
    except ValueError as error:  # cut off by a crash; the rest can be told
        asked = {"kind": "gate", "mode": "?", "target": f"settings cannot be read ({error})"}
        asked |= {"target_s": None, "settings": {}, "retention": None}
    queries = [_query(folder, name, query, now) for query in queries_of(folder, name)]
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
    settings = SettingsFile(folder, name).effective()
    return {
        "kind": "gate",
        "mode": settings.mode,
        "target": target_text(settings),
        "target_s": settings.target_s,
        "settings": settings.to_json(),
        "retention": settings.to_json()["retention"],
    }


def _query(folder: Place, gate: str, query: str, now: float) -> dict[str, Any]:
    ledger = Ledger(folder, gate, query)
    recent, totals = ledger.tail(_RECENT), ledger.totals()
    store = PlanStore(folder, gate, query)
    plan = store.current()
    holder, age = store.lease.holder(), store.lease.age_s(lambda: now)
    arrived = sum(r.arrived for r in recent)
    last = recent[-1] if recent else None
    return {
        "query": query,
        "state": last.state if last else "",
        "why": last.why if last else "",
        "keep_rate": None if plan is None else plan.default,
        "exceptions": 0 if plan is None else len(plan.exceptions),
        "kept_share": sum(r.kept for r in recent) / arrived if arrived else None,
        "last_batch": last.batch if last else None,
        "last_started_at": last.started_at if last else None,
        "last_duration_s": last.duration_s if last else None,
        "last_delay_s": last.delay_s if last else None,
        "would_shed": last.would_shed if last else 0,
        "batches": totals.all.batches,
        "arrived": totals.all.arrived,
        "kept": totals.all.kept,
        "shed": totals.all.shed,
        "records_from": totals.begins,
        "steered_by": "" if holder is None else holder.described,
        "ended": holder is not None and holder.released,
        "heartbeat_age_s": None if age is None else round(age, 3),
    }


def _in_all(query: dict[str, Any]) -> str:
    text = (
        f"in all {query['batches']:,} batches, {query['arrived']:,} arrived, {query['kept']:,} kept, "
        f"{query['shed']:,} shed"
    )
    return text + (f"; records from batch {query['records_from']:,} on" if query["records_from"] else "")


def _heading(gate: dict[str, Any]) -> Text:
    text = _steering(gate)
    if gate["retention"] is not None:
        text.append(f", {retention_text(retention_s(gate['retention']))}")
    return text


def _steering(gate: dict[str, Any]) -> Text:
    text = Text.assemble(
        (f"{gate['kind']} {gate['gate']}", "bold"), f"  {gate['mode']}, {gate['target']}, "
    )
    age = gate["heartbeat_age_s"]
    if age is None and gate["kind"] == "guard":
        return text.append("no stream has run it; on batch frames a guard keeps no books", "yellow")
    if age is None:
        return text.append("no heartbeat yet", "yellow")
    if gate["ended"]:
        return text.append("no query is running", "dim")
    alive = age < GONE_S
    text.append(f"heartbeat {_age(age)} ago", "green" if alive else "bold yellow")
    if not alive:
        text.append(": no driver is steering it")
        if gate["settings"]:
            text.append("; it fails ").append(gate["settings"]["on_failure"], "bold")
    return text


def _table(queries: list[dict[str, Any]]) -> Table:
    columns = ("keep rate", f"kept of {_RECENT}", "batch", "began", "duration", "delay")
    made = table(None, "<query", "<state", *columns)
    for q in queries:
        more = f" +{q['exceptions']}" if q["exceptions"] else ""
        made.add_row(
            q["query"][:8],
            q["state"],
            "" if q["keep_rate"] is None else f"{q['keep_rate']:.2%}{more}",
            "" if q["kept_share"] is None else f"{q['kept_share']:.2%}",
            "" if q["last_batch"] is None else f"{q['last_batch']:,}",
            "" if q["last_batch"] is None else _clock(q["last_started_at"]),
            _seconds(q["last_duration_s"]),
            _seconds(q["last_delay_s"]),
        )
    return made


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} s"


def _clock(instant: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(instant))


def _age(age_s: float) -> str:
    if age_s < 120:
        return f"{age_s:.0f} s"
    return f"{age_s / 60:.0f} min" if age_s < 7200 else f"{age_s / 3600:.0f} h"
