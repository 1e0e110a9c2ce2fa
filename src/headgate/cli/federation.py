"""``headgate federation``: three sites on one machine, and a look at any site's control folder."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from headgate.cli.plumbing import TeachingGroup, json_option, late, print_json
from headgate.cli.tables import console as table_console
from headgate.cli.tables import table
from headgate.errors import BadArgument, ControlFolderError, MissingExtra

if TYPE_CHECKING:
    from headgate.demo.federation.outcome import Outcome

__all__ = ["federation"]

#: A turn of the demo, and how much of it the figures leave out.
_SECONDS, _SETTLE_S = 260.0, 150.0
_QUICK_SECONDS, _QUICK_SETTLE_S = 220.0, 160.0
#: A site leaves its status every second; one that has not for so long is not there.
_SILENT_S = 30.0


@click.group(cls=TeachingGroup, short_help="Queries that share sites: a demo, and how they fare.")
def federation() -> None:
    """Queries that share sites, each kept at the same share of its source information (SIC).

    \b
    Examples:
      headgate federation demo                      three sites, seven queries, three kinds of shedding
      headgate federation demo --quick --json
      headgate federation status /shared/headgate   the queries at the sites with this control folder
    """


@federation.command(short_help="Three sites and seven queries under skewed load, three times.")
@click.option(
    "--seconds",
    type=float,
    help=f"How long each turn takes: above {_SETTLE_S:g} (quick: {_QUICK_SETTLE_S:g}), which it "
    f"needs to settle.  [default: {_SECONDS:g}, quick: {_QUICK_SECONDS:g}]",
)
@click.option("--quick", is_flag=True, help="Shorter turns; the figures are rougher.")
@click.option(
    "--shedding",
    "sheddings",
    multiple=True,
    type=click.Choice(["random", "balance-sic", "mirror"]),
    help="Only these; may be given several times.",
)
@click.option("--kafka", metavar="HOST:PORT", help="Links over this broker instead of files.")
@click.option(
    "--bursts",
    type=click.IntRange(1, 10),
    default=2,
    show_default=True,
    help="Times as much that a node sends during a burst, a tenth of the time.",
)
@click.option(
    "--out",
    default="out/federation",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the picture, the sites' control folders and logs go; made new.",
)
@json_option
def demo(
    seconds: float | None,
    quick: bool,
    sheddings: tuple[str, ...],
    kafka: str | None,
    bursts: int,
    out: Path,
    as_json: bool,
) -> None:
    """Three sites with a Spark each, seven queries in eleven fragments, more load than fits.

    The queries are those of THEMIS's Table 1 (AVG, MAX, COUNT, AVG-all as a tree, TOP-5 and COV as
    chains); fragments of one query send each other rows, with what these are worth, through files or
    Kafka topics. A site's capacity is given in rows a second; Paris has most of it, and Oslo little. The
    same load runs with random shedding, with BALANCE-SIC as published, and with Headgate's own. Takes
    about 17 minutes, quick about 14; over Kafka, whose broker shares the cores, it settles more slowly.

    SIC is the share of a query's source information that reached its result, as measured there. Jain's
    index is 1 when all queries have the same; waste is what was accepted and reached no result. The
    optimum is the fair (max-min) one for the load that the sites measured, by linear programme.

    \b
    Examples:
      headgate federation demo
      headgate federation demo --quick --shedding mirror --json
      headgate federation demo --kafka 127.0.0.1:9092 --out /tmp/federation
    """
    run_class: Any = late("headgate.demo.federation.run:Run", "spark")
    plan = late("headgate.demo.federation.plan:FEDERATION", "spark")
    goals: Any = late("headgate.demo.federation.outcome:goals", "spark")
    folder = out / time.strftime("%Y%m%d-%H%M%S")
    run = run_class(
        replace(plan, burst_factor=bursts),
        folder.absolute(),
        sheddings=sheddings or ("random", "balance-sic", "mirror"),
        seconds=seconds if seconds is not None else (_QUICK_SECONDS if quick else _SECONDS),
        settle_s=_QUICK_SETTLE_S if quick else _SETTLE_S,
        kafka=kafka,
    )
    console = Console(stderr=True, highlight=False)
    with _Bars(console) as bars:
        outcomes: dict[str, Outcome] = run.run(bars)
    picture = _picture(outcomes, folder / "federation.png", console)
    if as_json:
        print_json(
            {
                "turns": {name: outcome.to_json() for name, outcome in outcomes.items()},
                "goals": [asdict(goal) for goal in goals(outcomes)],
                "plot": picture,
                "folder": str(folder),
            }
        )
        return
    table_console().print(_outcome_table(outcomes))
    for goal in goals(outcomes):
        click.echo(f"{goal.goal}: {goal.found:.3f}, {'met' if goal.met else 'MISSED'}")
    if picture:
        click.echo(f"The picture: {picture}")
    click.echo(f"What the sites did: {folder}")


class _Bars:
    """A bar for each turn on a terminal; a line for each in a file."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars = Progress(
            TextColumn("{task.description:>12}"), BarColumn(), TimeRemainingColumn(), console=console
        )
        self._task: TaskID | None = None

    def __enter__(self) -> _Bars:
        if self._console.is_terminal:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def note(self, text: str) -> None:
        self._console.print(text)

    def turn(self, shedding: str, seconds: float) -> None:
        if self._console.is_terminal:
            self._task = self._bars.add_task(shedding, total=seconds)
        else:
            self._console.print(f"{shedding}: {seconds:.0f} seconds")

    def at(self, seconds: float) -> None:
        if self._task is not None:
            self._bars.update(self._task, completed=seconds)


def _outcome_table(outcomes: Mapping[str, Outcome]) -> Table:
    shown = table(None, "<", *outcomes)
    figures = {name: outcome.to_json() for name, outcome in outcomes.items()}
    for label, key in (
        ("Jain's index", "jain"),
        ("  at each moment", "jain_instant"),
        ("least SIC", "min_sic"),
        ("mean SIC", "mean_sic"),
        ("waste", "waste"),
    ):
        shown.add_row(label, *(f"{value[key]:.3f}" for value in figures.values()))
    if all("optimum" in value for value in figures.values()):
        shown.add_row(
            "least SIC, optimum", *(f"{value['optimum']['min_sic']:.3f}" for value in figures.values())
        )
    for query in next(iter(outcomes.values())).sic:
        shown.add_row(query, *(f"{value['sic'][query]:.3f}" for value in figures.values()))
    return shown


def _picture(outcomes: Mapping[str, Outcome], path: Path, console: Console) -> str | None:
    from headgate.demo.federation.plot import save_plot

    try:
        return str(save_plot(outcomes, path))
    except MissingExtra as error:
        console.print(f"no picture: {error}")
        return None


@federation.command(short_help="The queries at the sites with this control folder.")
@click.argument("control", type=click.Path(path_type=Path))
@json_option
def status(control: Path, as_json: bool) -> None:
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
    from headgate.store.folder import read_json

    folder = control / "sites"
    try:
        found = [read_json(path) for path in sorted(folder.glob("*/status.json"))]
    except (OSError, ValueError) as error:
        raise ControlFolderError(f"{str(control)!r} cannot be read ({error})") from error
    statuses = [value for value in found if isinstance(value, dict)]
    if not statuses:
        raise BadArgument(
            f"no site has used the folder {str(control)!r}: give the folder that hg.Site was given as "
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
