"""``headgate figures``: published figures, drawn again in virtual time or measured on a real query."""

from __future__ import annotations

import contextlib
import difflib
import functools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from headgate.cli.plumbing import import_or_explain, json_option, print_json
from headgate.cli.tables import console, table
from headgate.errors import BadArgument, MissingExtra
from headgate_lab.figures import NAMES, SWEEPS, Drawn, Spread, build
from headgate_lab.figures.meaning import PAPERS, in_order, meaning
from headgate_lab.figures.runner import Runner, in_process

__all__ = ["figures"]


class _Figure(click.Choice):  # type: ignore[type-arg,unused-ignore]
    """One of the figures; whoever asks for another hears of the nearest ones first."""

    def __init__(self) -> None:
        super().__init__([name.replace("_", "-") for name in NAMES])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The figure's name, if there is one; else those that are like it."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            near = difflib.get_close_matches(str(value), self.choices)
            names = ", ".join(dict.fromkeys([*near, *self.choices]))
            order = ", the nearest first" if near else ""
            self.fail(f"there is no figure {value!r}: give one of these{order}: {names}", param, ctx)

    def get_missing_message(self, *_: Any, **__: Any) -> str:
        """Where they all are, with what they show."""
        return "`headgate figures --help` says what there is."


class _Command(click.Command):
    """Its help says what every figure shows, as the figure's own file does."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The figures, by paper, and then the options."""
        for paper, title in PAPERS.items():
            with formatter.section(title):
                formatter.write_dl([(name.replace("_", "-"), meaning(name)) for name in in_order(paper)])
        super().format_options(ctx, formatter)


@click.command(
    cls=_Command,
    context_settings={
        "token_normalize_func": lambda name: name.replace("_", "-"),
        "max_content_width": 105,  # most meanings in one line, where there is room
    },
)
@click.argument("name", type=_Figure(), metavar="NAME")
@click.option("--runs", type=click.IntRange(min=1), help="Runs for each point; each has its own stream.")
@click.option("--quick", is_flag=True, help="Few points and few runs.")
@click.option(
    "--out",
    "--output",
    "output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the CSV and the picture; default: figures. With --json only if given.",
)
@click.option(
    "--master",
    metavar="URL",
    help="Run as a Spark job there, such as local[2] or spark://host:7077; default: in this process.",
)
@json_option
def figures(
    name: str, runs: int | None, quick: bool, output: Path | None, master: str | None, as_json: bool
) -> None:
    """Draw a published figure again: its numbers, the paper's claims, and whether we see them.

    las-fig10, las-fig11, cod-fig7, cod-fig8 and join-headlines run a real query on this machine, for
    some minutes; cod-fig9 and cod-fig10 also replay the real data through Spark streams, unless --quick.

    With --master the runs of the others are tasks of a Spark job, and the numbers are the same. The
    Python of each worker needs headgate-lab of this version; on a cluster PYSPARK_PYTHON says
    where it is.

    \b
    Examples:
      headgate figures las-fig4                  LAS against under-provisioning
      headgate figures las-fig9 --runs 5         seven phases with abrupt changes
      headgate figures las-fig7 --quick --json
      headgate figures las-fig5 --master 'local[4]'
      headgate figures las-fig11                 tweets through a guard on Spark
      headgate figures cod-fig9                  errors at 98 % shed, every reading of the paper
      headgate figures join-fig9                 a stream join in a burst, on a virtual CPU
      headgate figures themis-fig10 --quick      BALANCE-SIC and random shedding on many nodes
    """
    name = name.replace("-", "_")
    if master is not None and name not in SWEEPS:
        raise BadArgument(
            f"--master {master}: {name.replace('_', '-')} is measured on a query of this machine's own; "
            "leave --master out"
        )
    drawn = _build(name, runs, quick, master)
    if as_json:
        print_json(drawn.to_json())
    else:
        _show(drawn)
    folder = output if as_json or output else Path("figures")
    if folder is not None:
        _write(drawn, folder)


def _build(name: str, runs: int | None, quick: bool, master: str | None) -> Drawn:
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=Console(stderr=True),
    )  # fmt: skip
    with bar as progress, _runner(master) as runner:
        task = progress.add_task(name, total=None)
        return build(
            name, runs, quick, lambda done, of: progress.update(task, completed=done, total=of), runner
        )


@contextlib.contextmanager
def _runner(master: str | None) -> Iterator[Runner]:
    """This process, or a Spark that runs while it is needed."""
    if master is None:
        yield in_process
        return
    session = import_or_explain("headgate.demo.session:quiet_session", "spark")
    run_items = import_or_explain("headgate_lab.spark.item_job:run_items", "spark")
    with (
        tempfile.TemporaryDirectory(prefix="headgate-figures-", ignore_cleanup_errors=True) as scratch,
        session(Path(scratch), master=master, name="headgate-figures") as spark,
    ):
        yield functools.partial(run_items, spark)


def _show(drawn: Drawn) -> None:
    out = console()
    out.print(_rows(drawn))
    claims = table("claims", "<holds", "number", "<claim")
    for claim in drawn.claims:
        claims.add_row("yes" if claim.holds else "no", f"{claim.number:.4g}", claim.claim)
    out.print(claims)


def _rows(drawn: Drawn) -> Table:
    names = list(dict.fromkeys(name for row in drawn.rows for name in row.metrics))
    made = table(f"{drawn.title}: {drawn.how_often}", "<" + drawn.x_label, "<policy", *names)
    for row in drawn.rows:
        cells = [_cell(row.metrics.get(name)) for name in names]
        made.add_row(f"{row.x:g}" if isinstance(row.x, float) else str(row.x), row.policy, *cells)
    return made


def _cell(spread: Spread | None) -> str:
    return "" if spread is None else f"{spread.mean:.4g} [{spread.min:.4g}, {spread.max:.4g}]"


def _write(drawn: Drawn, folder: Path) -> None:
    """The numbers first; the picture is an extra."""
    click.echo(f"wrote {drawn.write_csv(folder / f'{drawn.figure}.csv')}", err=True)
    try:
        picture = import_or_explain("headgate_lab.figures.plot:save_plot", "plot")(
            drawn, folder / f"{drawn.figure}.png"
        )
    except MissingExtra as error:
        click.echo(f"no picture: {error}", err=True)
    else:
        click.echo(f"wrote {picture}", err=True)
