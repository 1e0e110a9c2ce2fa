"""``headgate top``: all gates in a table that follows them, for whoever has no browser at hand."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from headgate.cli.arguments.control_store import ControlCommand, control_argument
from headgate.cli.plumbing import DURATION, import_or_explain
from headgate.cli.tables import console, table
from headgate.errors import HeadgateError
from headgate.store.folder import used_control_folder
from headgate.view.wording import clock_text, count_text, seconds_text, share_text

if TYPE_CHECKING:
    from headgate.view.job import Job
    from headgate.view.observer import View

__all__ = ["top"]

_STYLES = {"healthy": "green", "shedding": "yellow", "attention": "yellow", "trouble": "bold red"}


@click.command(cls=ControlCommand, short_help="All gates in a table that follows them.")
@control_argument
@click.option(
    "--refresh",
    type=DURATION,
    default="2 seconds",
    show_default=True,
    help="Time between two looks.",
)
@click.option("--looks", type=click.IntRange(min=1), help="End after so many looks; else at ctrl-C.")
def top(control: str, refresh: float, looks: int | None) -> None:
    """Every gate in the store CONTROL in one table, until ctrl-C: the page's verdicts in a terminal.

    \b
    Examples:
      headgate top /shared/control
      headgate top s3://bucket/control --refresh "10 seconds"
      headgate top /shared/control --looks 1          once, as for a log
    """
    folder = used_control_folder(control)
    observer: Any = import_or_explain("headgate.view.observer:Observer", "page")(folder)
    out, shown = console(), 0
    with suppress(KeyboardInterrupt), Live(console=out, auto_refresh=False) as live:
        while True:
            live.update(_looked(observer), refresh=True)
            shown += 1
            if looks is not None and shown >= looks:
                return
            time.sleep(refresh)


def _looked(observer: Any) -> RenderableType:
    try:
        return screen(observer.look())
    except (OSError, HeadgateError) as error:
        return Text(f"the control store cannot be read: {error}", style="bold red")


def screen(view: View) -> RenderableType:
    """The verdict, and a line for each gate in each query."""
    made = table(
        None,
        "<gate",
        "<query",
        "<verdict",
        "<state",
        "measured",
        "target",
        "inside",
        "in/s",
        "kept",
        "shed",
    )
    for job in view.jobs:
        style = _STYLES.get(job.verdict.level, "dim")
        made.add_row(
            job.name,
            job.facts.query[:8],
            Text(job.verdict.level, style=style),
            job.state.word,
            *_figures(job),
        )
    heading = Text.assemble(
        (view.verdict.level, _STYLES.get(view.verdict.level, "dim")),
        f"  {view.verdict.sentence}  ",
        (clock_text(view.at, view.at), "dim"),
    )
    if view.more:
        return Group(heading, made, Text(f"{len(view.more)} more that run are not shown", style="dim"))
    return Group(heading, made)


def _figures(job: Job) -> tuple[str, ...]:
    target_s = job.facts.asked.target_s
    return (
        "" if job.measured_s is None else seconds_text(job.measured_s),
        "" if target_s is None else seconds_text(target_s),
        "" if job.inside is None else share_text(job.inside),
        "" if job.arrived_per_s is None else count_text(job.arrived_per_s),
        "" if job.kept_share is None else share_text(job.kept_share),
        count_text(job.books.shed),
    )
