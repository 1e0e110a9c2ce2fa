"""``headgate status``: what every gate does now, and why."""

from __future__ import annotations

import time
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from headgate.cli.plumbing import json_option, print_json
from headgate.cli.tables import console, table
from headgate.settings import retention_s
from headgate.store.folder import used_control_folder
from headgate.store.lease import GONE_S
from headgate.store.ledger.standing import RECENT
from headgate.view.gate_status import gates_status
from headgate.view.wording import ago_text, retention_text

__all__ = ["status"]


@click.command(short_help="What every gate does now, and why.")
@click.argument("control")
@json_option
def status(control: str, as_json: bool) -> None:
    """What every gate and query in the folder CONTROL does now, and why.

    Of more than thirty gates, what their drivers have written in the last seconds.

    \b
    Examples:
      headgate status /shared/control
      watch -n 2 headgate status /shared/control
      headgate status /shared/control --json
    """
    folder = used_control_folder(control)
    gates = gates_status(folder, time.time())
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
            text.append("; it fails ").append(gate["settings"]["on_failure"], "bold")
    return text


def _table(queries: list[dict[str, Any]]) -> Table:
    columns = ("keep rate", f"kept of {RECENT}", "batch", "began", "duration", "delay")
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
