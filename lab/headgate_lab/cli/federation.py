"""``headgate federation demo``: three sites on one machine, under three kinds of shedding."""

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

from headgate.cli.plumbing import import_or_explain, json_option, print_json
from headgate.cli.tables import console as table_console
from headgate.cli.tables import table
from headgate.errors import MissingExtra

if TYPE_CHECKING:
    from headgate_lab.demo.federation.outcome import Outcome

__all__ = ["demo"]

#: A turn of the demo, and how much of it the figures leave out.
_SECONDS, _SETTLE_S = 260.0, 150.0
_QUICK_SECONDS, _QUICK_SETTLE_S = 220.0, 160.0


@click.command("demo", short_help="Three sites and seven queries under skewed load, three times.")
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
    run_class: Any = import_or_explain("headgate_lab.demo.federation.run:Run", "spark")
    plan = import_or_explain("headgate_lab.demo.federation.plan:FEDERATION", "spark")
    goals: Any = import_or_explain("headgate_lab.demo.federation.outcome:goals", "spark")
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
    from headgate_lab.demo.federation.plot import save_plot

    try:
        return str(save_plot(outcomes, path))
    except MissingExtra as error:
        console.print(f"no picture: {error}")
        return None
