"""``python -m tests.soak.executors``: executors and drivers of a cluster killed, round after round.

`headgate bench kills` kills a driver in local mode, which has no executors. Exit code 1 if a row was
lost or doubled, a record does not balance, or a batch that ran again kept other rows.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from tests.testing.cluster.bench import machines_in, trials_on
from tests.testing.cluster.rounds import Line, run_rounds

_ERR = Console(stderr=True)


@click.command()
@click.option("--rounds", default=20, show_default=True, type=click.IntRange(min=1))
@click.option("--seed", default=7, show_default=True)
@click.option("--out", default="out/soak", type=click.Path(path_type=Path), show_default=True)
def main(rounds: int, seed: int, out: Path) -> None:
    """Kill executors on one or both workers and then the driver, ROUNDS times; a line for each gate.

    \b
    Examples:
      python -m tests.soak.executors --rounds 5
    """
    out.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="headgate-kills-", ignore_cleanup_errors=True) as folder,
        machines_in(Path(folder)) as machines,
        trials_on(machines) as trial,
    ):
        lines = run_rounds(trial(), rounds, seed)
    rows = [line.to_json() for line in lines]
    table = Table(*rows[0], title=f"{rounds} rounds of kills on a cluster of two workers")
    for row in rows:
        table.add_row(*("" if value is None else str(value) for value in row.values()))
    _ERR.print(table)
    (out / "executors.json").write_text(json.dumps(rows, indent=1))
    sys.exit(not all(map(_well, lines)))


def _well(line: Line) -> bool:
    bad = (line.lost, line.doubled, line.wrong, line.unbalanced, line.unsettled)
    return not any(bad) and line.jaccard in (None, 1.0)


if __name__ == "__main__":
    main()
