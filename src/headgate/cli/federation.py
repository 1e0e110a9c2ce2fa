"""``headgate federation``: a look at the queries of any site's control folder."""

from __future__ import annotations

import time
from typing import Any

import click
from rich.table import Table

from headgate.cli.arguments.control_store import ControlCommand, control_argument
from headgate.cli.plumbing import CommandsOfOthers, json_option, print_json
from headgate.cli.tables import console as table_console
from headgate.cli.tables import table
from headgate.errors import BadArgument, ControlFolderError

__all__ = ["federation"]

#: A site leaves its status every second; one that has not for so long is not there.
_SILENT_S = 30.0


@click.group(
    cls=CommandsOfOthers, name="federation", short_help="Queries that share sites, and how they fare."
)
def federation() -> None:
    """Queries that share sites, each kept at the same share of its source information (SIC).

    \b
    Examples:
      headgate federation status /shared/headgate   the queries at the sites with this control folder
      headgate federation demo                      three sites, seven queries (needs headgate-lab)
    """


@federation.command(cls=ControlCommand, short_help="The queries at the sites with this control folder.")
@control_argument
@json_option
def status(control: str, as_json: bool) -> None:
    """How every query fares at the sites that use this control folder.

    \b
    The columns:
      site      where a part of the query runs
      query     its name, the same at all of its sites
      SIC       the share of its source information that reached its result
      told by   coordinator: measured at the query's root, at another site
                result: measured here
                site: nobody measures; from what this site accepted
      accepted  the part of its source information that this site kept in the
                last window
      share     the part of its sources that come in here
      weight    what it may claim beside others

    A line for each site follows: whether it sheds or keeps all, how much it can process, and when it
    last wrote; one that has not for 30 s is not heard of.

    \b
    Examples:
      headgate federation status /shared/headgate
      headgate federation status /shared/headgate --json
    """
    from headgate.store.folder import folders_in, read_json
    from headgate.store.places.place import control_place

    folder = control_place(control) / "sites"
    try:
        found = [read_json(folder / name / "status.json") for name in folders_in(folder)]
    except (OSError, ValueError) as error:
        raise ControlFolderError(f"{control!r} cannot be read ({error})") from error
    statuses = [value for value in found if isinstance(value, dict)]
    if not statuses:
        raise BadArgument(
            f"no site has used the folder {control!r}: give the folder that hg.Site was given as "
            "control="
        )
    if as_json:
        print_json({"sites": statuses})
        return
    out = table_console()
    out.print(_query_table(statuses))
    for value in statuses:
        out.print(_site_line(value, time.time()), soft_wrap=True, markup=False)
        for reason in filter(None, value.get("coordinator_said", ())):
            out.print(f"  the coordinator: {reason}", soft_wrap=True, markup=False)
        for query, view in value["queries"].items():
            if view.get("refused"):
                text = f"  {query} was refused: {view['refused']}"
                out.print(text, soft_wrap=True, markup=False)


def _query_table(statuses: list[dict[str, Any]]) -> Table:
    shown = table(None, "<site", "<query", "SIC", "<told by", "accepted", "share", "weight")
    for value in statuses:
        for query, view in value["queries"].items():
            sic = "not yet" if view["sic"] is None else f"{view['sic']:.3f}"
            shown.add_row(
                value["site"], query, sic, view["told_by"], f"{view['accepted']:.3f}",
                f"{view['share']:.2f}", f"{view['weight']:g}",
            )  # fmt: skip
    return shown


def _site_line(value: dict[str, Any], now: float) -> str:
    age = max(0.0, now - value["at"])
    if value.get("rows_per_s") is not None:
        room = f"{value['capacity']:,.0f} rows/s"
    else:
        room = f"{value['capacity']:.2f} of {value['cores']:g} cores for rows"
    if value.get("stopped", False):
        return f"{value['site']}: stopped {age:,.0f} s ago; it had {room}"
    if age > _SILENT_S:
        return f"{value['site']}: not heard of for {age:,.0f} s; it had {room}"
    state = "sheds" if value["overloaded"] else "keeps all"
    touch = f", coordinator {value['coordinator'][0]}" if value["coordinator"] else ""
    return f"{value['site']}: {state}, {room}{touch}; {age:.0f} s ago"
