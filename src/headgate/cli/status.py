"""``headgate status``: what every gate does now, and why."""

from __future__ import annotations

import time
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from headgate.cli.arguments.control_store import ControlCommand, control_argument
from headgate.cli.plumbing import json_option, print_json
from headgate.cli.tables import console, long_table, rates_of_their_own, table
from headgate.errors import BadArgument
from headgate.settings import GateSettings, retention_s
from headgate.store.folder import used_gates
from headgate.store.lease import GONE_S
from headgate.store.ledger.standing import RECENT
from headgate.view.first_batch import FirstBatch
from headgate.view.gate_status import FEW, gates_status
from headgate.view.wording import ago_text, live_text, retention_text

__all__ = ["status"]

_COLUMNS = (
    "<query", "<state", "keep rate", f"kept of {RECENT}", "batch", "began", "duration", "delay",
)  # fmt: skip


@click.command(cls=ControlCommand, short_help="What every gate does now, and why.")
@control_argument
@click.option("--gate", help="Only this gate.")
@json_option
def status(control: str, gate: str | None, as_json: bool) -> None:
    """What every gate and query in the folder CONTROL does now, and why.

    Of more than thirty gates, what their drivers have written in the last seconds, in a line each.
    The delay is that of a batch's oldest row, from its arrival on: empty for a gate without arrival=.

    \b
    Examples:
      headgate status /shared/control
      headgate status /shared/control --gate rides
      watch -n 2 headgate status /shared/control
      headgate status /shared/control --json
    """
    folder, names = used_gates(control)
    if gate is not None and gate not in names:
        raise BadArgument(f"no gate {gate!r} in this control folder; gates there: {', '.join(names)}")
    gates = gates_status(folder, time.time(), names if gate is None else [gate])
    if as_json:
        print_json({"control": control, "gates": gates})
        return
    out = console()
    if len(gates) > FEW:
        out.print(_line_each(gates))
        if any(query["exceptions"] for found in gates for query in found["queries"]):
            where = "`headgate ledger show --json` lists them"
            out.print(rates_of_their_own(where), style="dim", soft_wrap=True)
        out.print(f"{len(gates)} gates; --gate NAME says why one does what it does", style="dim")
        return
    for found in gates:
        out.print(_heading(found))
        if found["queries"]:
            out.print(_table(found["queries"]))
            if any(query["exceptions"] for query in found["queries"]):
                where = "`headgate ledger show --json` lists them"
                out.print(f"  {rates_of_their_own(where)}", style="dim", soft_wrap=True)
        for query in found["queries"]:
            if query["first_batch"]:
                said = FirstBatch(**query["first_batch"]).words(time.time())
                out.print(f"  {query['query'][:8]}: {said}", style="yellow", soft_wrap=True)
            if query["why"]:
                out.print(f"  {query['query'][:8]}: {query['why']}", style="dim")
            if query["batches"]:
                out.print(f"  {query['query'][:8]}: {_in_all(query)}", style="dim")


def _line_each(gates: list[dict[str, Any]]) -> Text:
    """One table of all: hundreds of small ones are more than anybody reads, and slow to draw."""
    rows = []
    for gate in gates:
        asked = f"{gate['mode']}, {gate['target']}"
        running = [q for q in gate["queries"] if not q["ended"]] or gate["queries"][-1:]
        rows += [(gate["gate"], asked, _beat(q), *_cells(q)) for q in running]
        if not running:
            rows.append((gate["gate"], asked, "none yet", *("" for _ in _COLUMNS)))
    return long_table(("<gate", "<asked for", "<heartbeat", *_COLUMNS), rows)


def _beat(query: dict[str, Any]) -> str:
    age = query["heartbeat_age_s"]
    if query["ended"]:
        return "ended"
    if age is None:
        return "none yet"
    return ago_text(age) if age < GONE_S else f"gone for {ago_text(age)}"


def _in_all(query: dict[str, Any]) -> str:
    text = (
        f"in all {query['batches']:,} batches, {query['arrived']:,} arrived, {query['kept']:,} kept, "
        f"{query['shed']:,} shed"
    )
    if query["repaid"]:
        text += f", {query['repaid']:,} of them repaid"
    return text + (f"; records from batch {query['records_from']:,} on" if query["records_from"] else "")


def _heading(gate: dict[str, Any]) -> Text:
    text = _steering(gate)
    if gate["retention"] is not None:
        text.append(f", {retention_text(retention_s(gate['retention']))}")
    if gate["changed"]:
        now, code = (GateSettings.from_json(gate[which]) for which in ("settings", "declared"))
        if said := live_text(now, code):
            text.append(f" ({said})", "yellow")
    return text


def _steering(gate: dict[str, Any]) -> Text:
    text = Text.assemble(
        (f"{gate['kind']} {gate['gate']}", "bold"), f"  {gate['mode']}, {gate['target']}, "
    )
    age = gate["heartbeat_age_s"]
    if age is None and gate["kind"] == "guard":
        return text.append("no stream has run it; on batch frames a guard keeps no books", "yellow")
    if gate["ended"]:
        return text.append("no query is running", "dim")
    if age is None:
        return text.append("no heartbeat yet", "yellow")
    alive = age < GONE_S
    text.append(f"heartbeat {ago_text(age)} ago", "green" if alive else "bold yellow")
    if not alive:
        text.append(": no driver is steering it")
        if gate["settings"]:
            sheds = gate["settings"]["mode"] == "shed"
            fails = gate["settings"]["on_failure"] if sheds else "open"
            text.append("; it fails ").append(fails, "bold")
    return text


def _table(queries: list[dict[str, Any]]) -> Table:
    made = table(None, *_COLUMNS)
    for q in queries:
        made.add_row(*_cells(q))
    return made


def _cells(q: dict[str, Any]) -> list[str]:
    more = f" +{q['exceptions']}" if q["exceptions"] else ""
    return [
        q["query"][:8],
        _state(q),
        "" if q["keep_rate"] is None else f"{q['keep_rate']:.2%}{more}",
        "" if q["kept_share"] is None else f"{q['kept_share']:.2%}",
        "" if q["last_batch"] is None else f"{q['last_batch']:,}",
        "" if q["last_batch"] is None else _clock(q["last_started_at"]),
        _seconds(q["last_duration_s"]),
        _seconds(q["last_delay_s"]),
    ]


def _state(q: dict[str, Any]) -> str:
    if q["first_batch"]:
        return "first batch"
    if q["last_batch"] is None and q["ended"]:
        return "no batch ended"
    return str(q["state"] or "")


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} s"


def _clock(instant: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(instant))
