"""``headgate bench kills``: SIGKILL to a driver under load, again and again."""

from __future__ import annotations

from pathlib import Path

import click

from headgate.cli.plumbing import import_or_explain, json_option
from headgate_lab.cli.bench_tables import show

__all__ = ["kills"]


@click.command("kills", short_help="What SIGKILLs lose, double and change: nothing, it is hoped.")
@click.option(
    "--kills",
    "count",
    default=100,
    show_default=True,
    type=click.IntRange(min=1),
    help="How many kills.",
)
@click.option("--seed", default=1, show_default=True, help="Chooses the instants, and the join's rows.")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where all is kept, so that it can go on later; by default a folder that is removed.",
)
@click.option(
    "--minutes",
    type=click.FloatRange(min=0.1),
    help="End after so long; with --folder, the same command goes on.",
)
@click.option("--executors", is_flag=True, help="On a cluster of processes, and kill executors besides.")
@click.option("--quick", is_flag=True, help="5 kills.")
@json_option
def kills(
    count: int,
    seed: int,
    folder: Path | None,
    minutes: float | None,
    executors: bool,
    quick: bool,
    as_json: bool,
) -> None:
    """Kill a driver under load with SIGKILL at random instants, and tell what became of the rows.

    It runs a gate, a rand(7) filter by hand, and in turn a guard, a join and a site's gate, each with
    an idempotent sink. At the end what is unsettled is counted again, shed rows are repaid, and each
    query has a line: rows arrived, kept, repaid, lost and doubled, unbalanced records, the likeness of
    replayed batches.
    With --executors the drivers run on a master and two workers, processes of this machine, and one to
    four executors are killed before each driver is.
    Half an hour on two cores; quick: 3 minutes; with --executors twice as long.

    \b
    Examples:
      headgate bench kills
      headgate bench kills --quick --json
      headgate bench kills --executors --kills 10
      headgate bench kills --folder /tmp/soak --minutes 10    a part of it; again, to go on
    """
    if minutes is not None and folder is None:
        raise click.UsageError("--minutes ends a soak in its middle: give --folder, to go on from there")
    result = import_or_explain("headgate_lab.bench.kills.kills:run", "spark")(
        kills=5 if quick else count, seed=seed, folder=folder, minutes=minutes, executors=executors
    )
    show(result, as_json)
