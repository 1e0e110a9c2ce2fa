"""``headgate figures``: published figures, drawn again in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from headgate.cli.plumbing import json_option, late, print_json
from headgate.cli.tables import console, table
from headgate.errors import MissingExtra

__all__ = ["figures"]

_NAMES = tuple(f"las-fig{number}" for number in range(4, 10))


@click.command(context_settings={"token_normalize_func": lambda name: name.replace("_", "-")})
@click.argument("name", type=click.Choice(_NAMES))
@click.option("--runs", type=click.IntRange(min=1), help="Runs for each point; each has its own stream.")
@click.option("--quick", is_flag=True, help="Few points and few runs.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the CSV and the picture; default: figures. With --json only if given.",
)
@json_option
def figures(name: str, runs: int | None, quick: bool, output: Path | None, as_json: bool) -> None:
    """Draw a published figure again: its numbers, the paper's claims, and whether we see them.

    \b
    Examples:
      headgate figures las-fig4                  LAS against under-provisioning
      headgate figures las-fig9 --runs 5         seven phases with abrupt changes
      headgate figures las-fig7 --quick --json
    """
    drawn = _build(name.replace("-", "_"), runs, quick)
    if as_json:
        print_json(drawn.to_json())
    else:
        _show(drawn)
    folder = output if as_json or output else Path("figures")
    if folder is not None:
        _write(drawn, folder)


def _build(name: str, runs: int | None, quick: bool) -> Any:
    build = late("headgate.figures:build", "sim")
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=Console(stderr=True),
    )  # fmt: skip
    with bar as progress:
        task = progress.add_task(name, total=None)
        return build(name, runs, quick, lambda done, of: progress.update(task, completed=done, total=of))


def _show(drawn: Any) -> None:
    out = console()
    out.print(_rows(drawn))
    claims = table("claims", "<holds", "number", "<claim")
    for claim in drawn.claims:
        claims.add_row("yes" if claim.holds else "no", f"{claim.number:.4g}", claim.claim)
    out.print(claims)


def _rows(drawn: Any) -> Table:
    names = list(dict.fromkeys(name for row in drawn.rows for name in row.metrics))
    made = table(f"{drawn.title}: {drawn.runs} runs a point", "<" + drawn.x_label, "<policy", *names)
    for row in drawn.rows:
        cells = [_cell(row.metrics.get(name)) for name in names]
        made.add_row(f"{row.x:g}" if isinstance(row.x, float) else str(row.x), row.policy, *cells)
    return made


def _cell(spread: Any) -> str:
    return "" if spread is None else f"{spread.mean:.4g} [{spread.min:.4g}, {spread.max:.4g}]"


def _write(drawn: Any, folder: Path) -> None:
    """The numbers first; the picture is an extra."""
    click.echo(f"wrote {drawn.write_csv(folder / f'{drawn.figure}.csv')}", err=True)
    try:
        picture = late("headgate.figures.plot:save_plot", "plot")(drawn, folder / f"{drawn.figure}.png")
    except MissingExtra as error:
        click.echo(f"no picture: {error}", err=True)
    else:
        click.echo(f"wrote {picture}", err=True)
