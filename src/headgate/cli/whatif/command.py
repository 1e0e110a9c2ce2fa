"""``headgate whatif``: what a target would have done, from what is recorded already; without Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from headgate.cli.arguments.control_store import ControlCommand, gates_there
from headgate.cli.arguments.instants import instant
from headgate.cli.plumbing import DURATION, json_option, print_json
from headgate.cli.whatif import telling
from headgate.cli.whatif.input import Selection, WhatIfInput, read_input
from headgate.cli.whatif.plot import check_plot, save_plot
from headgate.errors import BadArgument
from headgate.settings import GateSettings
from headgate.whatif.answer import ask, targets_to_try
from headgate.whatif.costs import Costs, fitted, given
from headgate.whatif.forecast import Replay
from headgate.whatif.recording import Recording

__all__ = ["whatif"]

_FIRST_GUESS = 0.03  # of a kept row's price: what a row costs that is shed, where nobody knows


@click.command(
    cls=ControlCommand, short_help="What a target would have done, from what is recorded already."
)
@click.argument("input_", metavar="INPUT")
@click.option("--hold", type=DURATION, help="The longest that a batch may take.")
@click.option("--delay", type=DURATION, help="Instead: the longest from a row's arrival to its result.")
@click.option(
    "--sweep",
    metavar="auto|TARGETS",
    help="Several targets, such as 1s,2s,4s; auto chooses some. The default without --hold and --delay.",
)
@click.option("--min-keep", type=float, help="The least share that is ever kept, in (0, 1].")
@click.option("--inside", type=float, help="The share of batches that should end within the target.")
@click.option(
    "--gate",
    shell_complete=gates_there,
    help="Of a control store or a query with several gates: which one.",
)
@click.option("--query", help="Of several queries: the first characters of its id, or its name.")
@click.option("--since", metavar="TIME", help="From then on: 2026-05-01T08:00, or '2 hours' ago.")
@click.option("--until", metavar="TIME", help="Up to then, likewise.")
@click.option("--last", type=click.IntRange(1), help="Only the latest so many batches.")
@click.option("--was", type=DURATION, help="The target that held, for the check; a ledger knows it.")
@click.option("--trigger", type=DURATION, help="The trigger's interval, where it does not show.")
@click.option("--cap", type=click.IntRange(1), help="Rows that the source hands out at most in a batch.")
@click.option(
    "--keep", "first", multiple=True, metavar="GROUP",
    help="Of a trace with groups: one that is shed last; may be repeated, most valuable first.",
)  # fmt: skip
@click.option("--fixed", type=DURATION, help="For a trace: what a batch takes before its first row.")
@click.option("--per-row", type=DURATION, help="For a trace: what a kept row takes, such as '20 us'.")
@click.option("--per-shed-row", type=DURATION, help="What a shed row takes.  [default: 3 % of it]")
@click.option("--noise", type=float, help="For a trace: how far batches miss that.  [default: 0.1]")
@click.option("--runs", type=click.IntRange(2), help="Virtual runs for each target; more where quick.")
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Draw the answer into this file (PNG, SVG or PDF).",
)
@json_option
def whatif(
    input_: str,
    hold: float | None,
    delay: float | None,
    sweep: str | None,
    first: tuple[str, ...],
    plot: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """What a target would have done with the rows of INPUT: shed, from which groups, how late.

    INPUT is a file of saved StreamingQueryProgress (`query.lastProgress.json`, one a line or an array;
    Spark's event log will do), a control store with its ledger, or a trace: CSV or Parquet with time,
    rows and, if you like, group. The rows come once more in virtual time, what batches cost is fitted
    to the recorded ones, and the controllers and policies of gates decide. No Spark is needed.

    \b
    Examples:
      headgate whatif progress.json --hold 2s
      headgate whatif progress.json --sweep 1s,2s,4s --plot targets.png
      headgate whatif /shared/control --gate rides --hold 2s --since "24 hours"
      headgate whatif trace.csv --hold 2s --fixed "300 ms" --per-row "20 us" --keep vip --json
    """
    if plot is not None:
        check_plot(plot)
    now = time.time()
    which = Selection(
        options["gate"], options["query"], instant("since", options["since"], now),
        instant("until", options["until"], now), options["last"],
    )  # fmt: skip
    read = read_input(input_, which, first)
    kind, wanted = _wanted(hold, delay, sweep, read)
    recording = read.recording.told(told_trigger_s=options["trigger"], told_cap=options["cap"])
    base = read.settings or _settings(kind, 1.0)
    changes = {name: options[name] for name in ("min_keep", "inside") if options[name] is not None}
    was = _was(read, kind, options["was"])
    costs = _costs(recording, wanted, was, options)
    targets = wanted or targets_to_try(recording, costs)
    asked = [base.changed({**changes, kind: target, "mode": "shed"}) for target in targets]
    with _bar(recording, costs, len(asked), options["runs"]) as tell:
        answer = ask(recording, asked, costs=costs, was=was, runs=options["runs"], tell=tell)
    picture = None
    if plot is not None:
        picture = str(save_plot(answer, plot))
    if as_json:
        print_json(telling.as_json(input_, read, answer, picture))
        return
    telling.tell(input_, read, answer)
    if picture is not None:
        click.echo(f"The picture: {picture}")


def _wanted(
    hold: float | None, delay: float | None, sweep: str | None, read: WhatIfInput
) -> tuple[str, list[float]]:
    """Which kind of target, and which ones; none: choose some."""
    if hold is not None and delay is not None:
        raise BadArgument("--hold and --delay: a gate holds one of them; give only one")
    of_gate = "delay" if read.settings is not None and read.settings.delay is not None else "hold"
    kind = "delay" if delay is not None else "hold" if hold is not None else of_gate
    many = "" if sweep in (None, "auto") else str(sweep)
    targets = [DURATION.convert(part, None, None) for part in many.split(",")] if many else []
    one = delay if delay is not None else hold
    if one is not None:
        if sweep == "auto":
            raise BadArgument("--sweep auto chooses targets itself: leave out --hold and --delay")
        targets.insert(0, one)
    return kind, list(dict.fromkeys(targets))


def _settings(kind: str, target_s: float) -> GateSettings:
    return GateSettings(delay=target_s) if kind == "delay" else GateSettings(hold=target_s)


def _was(read: WhatIfInput, kind: str, told: float | None) -> GateSettings | None:
    """The settings under which it was recorded, where rows were shed."""
    if told is not None:
        return _settings(kind, told)
    return read.settings if read.shed_by_them else None


def _costs(
    recording: Recording, wanted: Sequence[float], was: GateSettings | None, options: dict[str, Any]
) -> Costs:
    """As they were given, else as the batches show them."""
    names = ("fixed", "per_row", "per_shed_row", "noise")
    said = [name for name in names if options[name] is not None]
    if not said and recording.batched:
        reference = was.target_s if was is not None else max(wanted, default=None)
        return fitted(recording) if reference is None else fitted(recording, reference)
    if options["fixed"] is None or options["per_row"] is None:
        raise BadArgument(
            "what batches cost is not in a trace: give --fixed, what a batch takes before its first "
            "row, and --per-row, such as --fixed '300 ms' --per-row '20 us'"
        )
    per_row, per_shed = options["per_row"], options["per_shed_row"]
    per_shed = _FIRST_GUESS * per_row if per_shed is None else per_shed
    noise = 0.1 if options["noise"] is None else float(options["noise"])
    return given(options["fixed"], max(1e-12, per_row - per_shed), per_shed, noise)


@contextmanager
def _bar(
    recording: Recording, costs: Costs, questions: int, runs: int | None
) -> Iterator[Callable[[int], object]]:
    """A bar over all virtual runs, on a terminal."""
    shown = Console(stderr=True)
    total = (questions + 1) * (runs or Replay(recording, costs).usual_runs(questions + 1))
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(),
        console=shown, transient=True, disable=not shown.is_terminal,
    ) as progress:  # fmt: skip
        task = progress.add_task(f"{len(recording.batches):,} batches in virtual time", total=total)
        yield lambda batches: progress.advance(task)
