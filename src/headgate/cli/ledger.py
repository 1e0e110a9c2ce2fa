"""``headgate ledger``: what arrived, what was kept, what was shed, and whether it adds up."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from headgate.cli.arguments.control_store import (
    ControlCommand,
    control_argument,
    gate_option,
    query_option,
)
from headgate.cli.arguments.folders import gate_queries
from headgate.cli.arguments.instants import instant
from headgate.cli.plumbing import json_option, print_json
from headgate.cli.tables import console, rates_of_their_own, table
from headgate.store.folder import used_control_folder
from headgate.store.keeping.pruning import pruned
from headgate.store.ledger.audit import Audit, audit
from headgate.store.ledger.records import Ledger, Record, gates_in
from headgate.store.repaid.marks import marks_of

__all__ = ["ledger"]


@click.group(short_help="What arrived, what was kept and shed, and does it add up.")
def ledger() -> None:
    """What arrived, what was kept, what was shed, and whether it adds up.

    \b
    Examples:
      headgate ledger show /shared/control --gate rides --last 5
      headgate ledger verify /shared/control
    """


@ledger.command(cls=ControlCommand, short_help="The latest batches of each gate and query.")
@control_argument
@gate_option
@query_option
@click.option("--last", default=20, show_default=True, type=click.IntRange(1), help="Batches shown.")
@json_option
def show(control: str, gate: str | None, query: str | None, last: int, as_json: bool) -> None:
    """The latest batches of each gate and query in the folder CONTROL.

    The delay is that of a batch's oldest row, from its arrival on: empty for a gate without arrival=.

    \b
    Examples:
      headgate ledger show /shared/control
      headgate ledger show /shared/control --gate rides --query 3f2a --last 100 --json
    """
    folder = used_control_folder(control)
    out = console()
    ledgers: list[dict[str, Any]] = []
    own = False
    for pair in gate_queries(folder, gate, query):
        kept = Ledger(folder, pair.gate, pair.query)
        latest, totals = kept.tail(last), kept.totals()
        repaid = marks_of(folder, pair.gate, pair.query).rows()
        batches = totals.all.batches
        if as_json:
            entry = {"gate": pair.gate, "query": pair.query, "batches": batches}
            entry["records_from"] = totals.begins
            entry["repaid"] = [record.batch for record in latest if record.batch in repaid]
            ledgers.append({**entry, "records": [record.to_json() for record in latest]})
        else:
            made = _table(pair.gate, pair.query, latest, batches, out.width < 100, repaid.keys())
            out.print(made)
            own = own or any(r.kind == "gate" and r.plan.exceptions for r in latest)
    if as_json:
        print_json({"control": control, "ledgers": ledgers})
    elif own:
        out.print(rates_of_their_own("--json lists them"), style="dim", soft_wrap=True)


def _table(
    gate: str,
    query: str,
    records: list[Record],
    total: int,
    narrow: bool,
    repaid: Collection[int] = (),
) -> Table:
    kind = records[-1].kind if records else "gate"
    title = f"{kind} {gate}, query {query}: {len(records)} of {total} batches"
    figures = ("batch", "began", "arrived", "kept", "shed", "keep rate", "duration", "delay")
    made = table(title, *figures, "<then", *(() if narrow else ("<plan",)))
    for r in records:
        cells: list[str | Text] = [
            f"{r.batch:,}",
            time.strftime("%H:%M:%S", time.localtime(r.started_at)),
            f"{r.arrived:,}",
            f"{r.kept:,}",
            f"{r.shed:,}",
            _rate(r),
            f"{r.duration_s:.2f} s",
            "" if r.delay_s is None else f"{r.delay_s:.2f} s",
            _then(r) + (" (repaid)" if r.batch in repaid else ""),
        ]
        made.add_row(*cells, *([] if narrow else ["" if r.kind == "guard" else r.plan.digest]))
    return made


def _then(record: Record) -> Text:
    """The controller's state, and what else a person should know of this batch."""
    notes: list[str | Text] = []
    if not record.balanced:
        notes.append(Text("(does not add up)", "bold red"))
    if record.evidence.doubt:
        notes.append(Text("(doubtful)", "yellow"))
    if record.evidence.repaired:
        notes.append("(repaired)")
    if record.origin.startswith(("fail", "lost")):
        notes.append(Text(f"({record.origin})", "yellow"))
    if record.attempt > 1:
        rescued = "rescued, " if record.origin == "rescued" else ""
        notes.append(Text(f"({rescued}attempt {record.attempt})", "yellow"))
    if record.kind == "guard" and record.found.groups:
        notes.append(
            "(" + ", ".join(f"{name} {rows:,}" for name, rows in record.found.groups.items()) + ")"
        )
    if record.kind == "join":
        share, error = record.found.measures["completeness"], record.found.measures["completeness_error"]
        notes.append(f"({record.found.measures['pairs']:,.0f} pairs, {share:.1%} ± {error:.1%} of all)")
    if record.mode == "monitor":
        notes.append(f"(would shed {record.would_shed:,})")
    return Text(" ").join([Text(record.state), *(Text.assemble(note) for note in notes)])


def _rate(record: Record) -> str:
    if record.kind in ("guard", "join"):  # no share was planned: what it kept is its rate
        return f"{record.kept / record.arrived:.2%}" if record.arrived else ""
    more = f" +{len(record.plan.exceptions)}" if record.plan.exceptions else ""
    return f"{record.plan.default:.2%}{more}"


@ledger.command(cls=ControlCommand, short_help="Does every row add up? The exit code says it.")
@control_argument
@gate_option
@query_option
@click.option("--first", type=click.IntRange(0), help="From this batch on.")
@click.option("--last", type=click.IntRange(0), help="Up to this batch.")
@click.option("--since", metavar="TIME", help="From then on: 2026-05-01T08:00, or '2 hours' ago.")
@click.option("--until", metavar="TIME", help="Up to then, likewise.")
@json_option
def verify(
    control: str,
    gate: str | None,
    query: str | None,
    first: int | None,
    last: int | None,
    since: str | None,
    until: str | None,
    as_json: bool,
) -> None:
    """Check that arrived = kept + shed for every batch in CONTROL, under the plans pinned to them.

    \b
    Exit code, for the worst that was found:
      0  balanced: every row is accounted for, and no batch is missing (some may have been repaired)
      1  not balanced: records contradict themselves, each other or their pins
      3  doubtful: a source contradicts the counts of a batch; headgate.recount counts it again
      4  missing: batches ran and have no record, or records that were there are gone
    The latest batches without a record are reported and are not an error: one may be running.
    A span of batches or of time reads the records of that span alone.

    \b
    Examples:
      headgate ledger verify /shared/control
      headgate ledger verify /shared/control --gate rides --json
      headgate ledger verify /shared/control --since "2 hours"
      headgate ledger verify /shared/control --gate rides --first 120000 --last 125000
    """
    folder = used_control_folder(control)
    now = time.time()
    times = instant("since", since, now), instant("until", until, now)
    found = []
    for pair in gate_queries(folder, gate, query):
        low, high = _span(Ledger(folder, pair.gate, pair.query), first, last, times)
        found += audit(folder, pair.gate, pair.query, first=low, last=high)
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
    "balanced": Text("balanced", "green"),
    "repaired": Text.assemble(("balanced", "green"), " (repaired)"),
    "missing": Text("MISSING BATCHES", "bold yellow"),
    "doubtful": Text("DOUBTFUL", "bold yellow"),
    "not balanced": Text("NOT BALANCED", "bold red"),
}


def _verdict(found: Audit) -> list[str | Text]:
    said = (
        f"  {found.kind} {found.gate}, query {found.query}: {found.batches:,} batches, "
        f"{found.arrived:,} arrived = {found.kept:,} kept + {found.shed:,} shed"
    )
    if found.arrived != found.kept + found.shed:
        gone = found.arrived - found.kept - found.shed
        said = said.replace(" = ", " ≠ ") + f" ({gone:+,})"
    if found.repaid:
        said += f"; {found.repaid_rows:,} of them repaid, of {len(found.repaid):,} batches"
    if found.witnessed:
        said += f"; {found.witnessed:,} confirmed by their source"
    lines: list[str | Text] = [Text.assemble(_WORDS[found.verdict], said)]
    notes = {
        "do not add up": found.unbalanced,
        "were recorded twice with other counts, another plan or other kept rows": found.contradicted,
        "name another plan than was pinned": found.other_plan,
        "were repaid with another number of rows than they shed": found.repaid_otherwise,
        "are doubtful: their source contradicts the counts (headgate.recount counts them again)": (
            found.doubtful
        ),
        "have no record, though later ones ran (unsettled; headgate.recount counts them)": (
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
    if found.torn_pins:
        notes["have a pin that a crash cut off (the record tells what they met)"] = found.torn_pins
    if found.expired.get("batches"):
        old = found.expired
        lines.append(
            f"    records from batch {found.records_from:,} on; {old['batches']:,} batches before have "
            f"expired: {old['arrived']:,} arrived = {old['kept']:,} kept + {old['shed']:,} shed"
        )
    lines += [
        f"    records of batch {low:,} to {high:,} were there and are gone: the control folder was "
        "deleted, moved or replaced while the query ran"
        for low, high in found.deleted
    ]
    if found.begins_late is not None:
        lines.append(
            f"    nothing is known of batches before {found.begins_late:,}: the {found.kind} was added "
            "then, or its folder was lost while the query stood still"
        )
    lines += [f"    {name} is damaged ({reason})" for name, reason in found.damaged.items()]
    lines += [f"    {len(b)} {text}: {_list(b)}" for text, b in notes.items() if b]
    if found.doubts:
        batch, why = next(iter(found.doubts.items()))
        lines.append(f"        batch {batch}: {why}")
    return lines


def _list(batches: list[int], most: int = 10) -> str:
    shown = ", ".join(map(str, batches[:most]))
    return f"batch {shown}" + (f" and {len(batches) - most} more" if len(batches) > most else "")


def _span(
    kept: Ledger, first: int | None, last: int | None, times: tuple[float | None, float | None]
) -> tuple[int | None, int | None]:
    """The batches that were asked for, by number and by time."""
    if times == (None, None):
        return first, last
    low, high = kept.span(*times)
    return max(low, first or 0), high if last is None else min(high, last)


@ledger.command(cls=ControlCommand, short_help="Compress and expire old records now.")
@control_argument
@gate_option
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@json_option
def prune(control: str, gate: str | None, dry_run: bool, as_json: bool) -> None:
    """Compress and expire old records in CONTROL, and remove the folders of queries that ended.

    A running query does this by itself. What is older than the gate's retention goes; sums over all
    batches stay as long as the query's folder. A folder is removed when nothing was written to it for
    the retention; that of a query which runs never is.

    \b
    Examples:
      headgate ledger prune /shared/control --dry-run
      headgate ledger prune /shared/control --gate rides
    """
    folder = used_control_folder(control)
    if gate is not None:
        gate_queries(folder, gate, None)  # refuses a name that is not there
    done = [pruned(folder, name, dry_run=dry_run) for name in ([gate] if gate else gates_in(folder))]
    if as_json:
        print_json({"control": control, "dry_run": dry_run, "gates": done})
        return
    out = console()
    for one in done:
        ended = ", ".join(query[:8] for query in one["ended"]) or "none"
        out.print(
            f"gate {one['gate']}: {one['compressed']} segments compressed, {one['expired']} expired, "
            f"{one['pins']} pins dropped; ended queries removed: {ended}",
            soft_wrap=True,
        )
    if dry_run:
        out.print("(nothing was changed)")
