"""``headgate ledger``: what arrived, what was kept, what was shed, and whether it adds up."""

from __future__ import annotations

import time
from typing import Any

import click
from rich.table import Table

from headgate.cli.folders import gate_queries
from headgate.cli.plumbing import json_option, print_json
from headgate.cli.tables import console, table
from headgate.store.audit import Audit, audit
from headgate.store.folder import used_control_folder
from headgate.store.ledger import Ledger, Record

__all__ = ["ledger"]


@click.group(short_help="What arrived, what was kept and shed, and does it add up.")
def ledger() -> None:
    """What arrived, what was kept, what was shed, and whether it adds up.

    \b
    Examples:
      headgate ledger show /shared/control --gate rides --last 5
      headgate ledger verify /shared/control
    """


@ledger.command()
@click.argument("control")
@click.option("--gate", help="Only this gate.")
@click.option("--query", help="Only this query; the first characters of its id will do.")
@click.option("--last", default=20, show_default=True, type=click.IntRange(1), help="Batches shown.")
@json_option
def show(control: str, gate: str | None, query: str | None, last: int, as_json: bool) -> None:
    """The latest batches of each gate and query in the folder CONTROL.

    \b
    Examples:
      headgate ledger show /shared/control
      headgate ledger show /shared/control --gate rides --query 3f2a --last 100 --json
    """
    folder = used_control_folder(control)
    out = console()
    ledgers: list[dict[str, Any]] = []
    for pair in gate_queries(folder, gate, query):
        records = list(Ledger(folder, pair.gate, pair.query).records().values())
        latest = records[-last:]
        if as_json:
            entry = {"gate": pair.gate, "query": pair.query, "batches": len(records)}
            ledgers.append({**entry, "records": [record.to_json() for record in latest]})
        else:
            out.print(_table(pair.gate, pair.query, latest, len(records), out.width < 100))
    if as_json:
        print_json({"control": control, "ledgers": ledgers})


def _table(gate: str, query: str, records: list[Record], total: int, narrow: bool) -> Table:
    kind = records[-1].kind if records else "gate"
    title = f"{kind} {gate}, query {query}: {len(records)} of {total} batches"
    figures = ("batch", "began", "arrived", "kept", "shed", "keep rate", "duration", "delay")
    made = table(title, *figures, "<then", *(() if narrow else ("<plan",)))
    for r in records:
        cells = [
            f"{r.batch:,}",
            time.strftime("%H:%M:%S", time.localtime(r.started_at)),
            f"{r.arrived:,}",
            f"{r.kept:,}",
            f"{r.shed:,}",
            _rate(r),
            f"{r.duration_s:.2f} s",
            "" if r.delay_s is None else f"{r.delay_s:.2f} s",
            _then(r),
        ]
        made.add_row(*cells, *([] if narrow else ["" if r.kind == "guard" else r.plan.digest]))
    return made


def _then(record: Record) -> str:
    """The controller's state, and what else a person should know of this batch."""
    notes = []
    if not record.balanced:
        notes.append("[bold red](does not add up)[/]")
    if record.doubt:
        notes.append("[yellow](doubtful)[/]")
    if record.repaired:
        notes.append("(repaired)")
    if record.origin.startswith("fail"):
        notes.append(f"[yellow]({record.origin})[/]")
    if record.kind == "guard" and record.groups:
        notes.append("(" + ", ".join(f"{name} {rows:,}" for name, rows in record.groups.items()) + ")")
    if record.kind == "join":
        share, error = record.measures["completeness"], record.measures["completeness_error"]
        notes.append(f"({record.measures['pairs']:,.0f} pairs, {share:.1%} ± {error:.1%} of all)")
    if record.mode == "monitor":
        notes.append(f"(would shed {record.would_shed:,})")
    return " ".join([record.state, *notes])


def _rate(record: Record) -> str:
    if record.kind in ("guard", "join"):  # no share was planned: what it kept is its rate
        return f"{record.kept / record.arrived:.2%}" if record.arrived else ""
    more = f" +{len(record.plan.exceptions)}" if record.plan.exceptions else ""
    return f"{record.plan.default:.2%}{more}"


@ledger.command()
@click.argument("control")
@click.option("--gate", help="Only this gate.")
@click.option("--query", help="Only this query; the first characters of its id will do.")
@click.option("--first", type=click.IntRange(0), help="Only batches from this one on.")
@click.option("--last", type=click.IntRange(0), help="Only batches up to this one.")
@json_option
def verify(
    control: str,
    gate: str | None,
    query: str | None,
    first: int | None,
    last: int | None,
    as_json: bool,
) -> None:
    """Check that arrived = kept + shed for every batch in CONTROL, under the plans pinned to them.

    \b
    Exit code, for the worst that was found:
      0  balanced: every row is accounted for, and no batch is missing (some may have been repaired)
      1  not balanced: records contradict themselves, each other or their pins
      3  doubtful: a source contradicts the counts of a batch; headgate.recount counts it again
      4  missing: batches ran and have no record
    Batches that began after the last record are reported and are not an error: one may be running.

    \b
    Examples:
      headgate ledger verify /shared/control
      headgate ledger verify /shared/control --gate rides --first 4000 --last 5000 --json
    """
    folder = used_control_folder(control)
    pairs = gate_queries(folder, gate, query)
    found = [a for p in pairs for a in audit(folder, p.gate, p.query, first, last)]
    worst = max((one.verdict for one in found), key=_EXIT_RANK.index, default="balanced")
    if as_json:
        said = {
            "verdict": worst,
            "balanced": all(a.balanced for a in found),
            "complete": all(a.complete for a in found),
        }
        print_json({"control": control, **said, "audits": [a.to_json() for a in found]})
    else:
        out = console()
        for one in found:
            for line in _verdict(one):
                out.print(line, soft_wrap=True)
        if not found:
            out.print("no query has run behind a gate of this folder yet")
    if _EXIT_CODES[worst]:
        raise SystemExit(_EXIT_CODES[worst])


#: What the exit code says, the worst last. (2 is a command that was given wrongly.)
_EXIT_CODES = {"balanced": 0, "repaired": 0, "missing": 4, "doubtful": 3, "not balanced": 1}
_EXIT_RANK = list(_EXIT_CODES)
_WORDS = {
    "balanced": "[green]balanced[/]",
    "repaired": "[green]balanced[/] (repaired)",
    "missing": "[bold yellow]MISSING BATCHES[/]",
    "doubtful": "[bold yellow]DOUBTFUL[/]",
    "not balanced": "[bold red]NOT BALANCED[/]",
}


def _verdict(found: Audit) -> list[str]:
    lines = [
        f"{_WORDS[found.verdict]}  {found.kind} {found.gate}, query {found.query}: {found.batches:,} "
        f"batches, {found.arrived:,} arrived = {found.kept:,} kept + {found.shed:,} shed"
    ]
    if found.arrived != found.kept + found.shed:
        gone = found.arrived - found.kept - found.shed
        lines[0] = lines[0].replace(" = ", " ≠ ") + f" ({gone:+,})"
    if found.witnessed:
        lines[0] += f"; {found.witnessed:,} confirmed by their source"
    notes = {
        "do not add up": found.unbalanced,
        "were recorded twice with other counts, another plan or other kept rows": found.contradicted,
        "name another plan than was pinned": found.other_plan,
        "are doubtful: their source contradicts the counts (headgate.recount counts them again)": (
            found.doubtful
        ),
        "have no record, though later ones have (unsettled; headgate.recount counts them)": (
            found.unsettled
        ),
        "ran and left neither pin nor record (the folder was away, or the gate was taken out)": (
            found.missing
        ),
        "were repaired: counted again after their counts were lost or doubtful": found.repaired,
        "began and have no record yet (running, stopped or killed; a restart settles it)": found.begun,
        "kept a share that their plan makes all but impossible (a stream of few distinct rows?)": (
            found.unlikely
        ),
    }
    lines += [f"    {len(b)} {text}: {_list(b)}" for text, b in notes.items() if b]
    if found.doubts:
        batch, why = next(iter(found.doubts.items()))
        lines.append(f"        batch {batch}: {why}")
    return lines


def _list(batches: list[int], most: int = 10) -> str:
    shown = ", ".join(map(str, batches[:most]))
    return f"batch {shown}" + (f" and {len(batches) - most} more" if len(batches) > most else "")
