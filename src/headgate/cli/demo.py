"""``headgate demo``: the same overload twice, without and with a gate."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from headgate.cli.arguments.control_store import ControlCommand
from headgate.cli.plumbing import DURATION, import_or_explain, json_option, print_json
from headgate.errors import BadArgument, MissingExtra

if TYPE_CHECKING:
    from headgate.demo.run import Demo, DemoResult

__all__ = ["demo"]


@click.command(cls=ControlCommand, short_help="The same overload twice: without a gate, and with one.")
@click.argument(
    "control",
    default="out/demo-control",
    type=click.Path(file_okay=False, path_type=Path),
)
@click.option("--seconds", default=45.0, show_default=True, help="How long each of the two runs takes.")
@click.option(
    "--rate",
    default="auto",
    show_default=True,
    metavar="auto|ROWS",
    help="Rows per second that arrive; auto takes --load times what this machine sustains.",
)
@click.option("--load", type=float, help="Times what this machine sustains.  [default: 5]")
@click.option(
    "--target",
    type=DURATION,
    default="2 seconds",
    show_default=True,
    help="The longest a batch may take.",
)
@click.option(
    "--trigger",
    type=DURATION,
    default="1 second",
    show_default=True,
    help="Interval between batches.",
)
@click.option(
    "--plot",
    "--out",
    "out",
    default="out/demo.png",
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The picture of both runs.",
)
@click.option("--page", is_flag=True, help="A live page of the gate, until ctrl-C; prints its address.")
@json_option
def demo(
    seconds: float,
    rate: str,
    load: float | None,
    target: float,
    trigger: float,
    out: Path,
    control: Path,
    page: bool,
    as_json: bool,
) -> None:
    """A stream at several times what this machine sustains, without a gate and then with one.

    Median speeds of 300 roads, over the last 10 seconds, every 2 seconds: first the rate that this
    machine sustains is measured, then the same overload runs twice. Takes two to three minutes. The
    gate's control folder is CONTROL, out/demo-control unless told; its ledger stays there.

    In the figures, inside_target is the share of the batches after the tenth that ended within the
    target (of all batches, where a run has ten or fewer); kept is the share of all rows of the run, and
    kept_settled that of the same later batches. A delay is a batch's: from the arrival
    of its oldest row to its end. A batch that is over the target when the time is up is cut short;
    it counts as outside, with its duration and delay so far. The side without a gate has no ledger:
    its ledger_balanced says that each batch held exactly the rows that the source's offsets name. With
    a gate it says, besides, that the ledger has the same counts and arrived = kept + shed.

    \b
    Examples:
      headgate demo
      headgate demo --load 10 --target "3 seconds" --seconds 60
      headgate demo --rate 200000 --out demo.png --json
      headgate demo --page                           with a live page in the browser
    """
    console = Console(stderr=True, highlight=False)
    plan = _plan(seconds, rate, load, target, trigger)
    with _page(control, console, page) as wait:
        result = _run(plan, control, console)
        picture = _picture(result, out, console)
        if as_json:
            print_json({**result.to_json(), "plot": picture, "control": str(control)})
            return
        _tell(result, picture, control)
        wait()


@contextmanager
def _page(control: Path, console: Console, wanted: bool) -> Iterator[Any]:
    """The live page while the demo runs; what is yielded waits for ctrl-C where there is one."""
    if not wanted:
        yield lambda: None
        return
    server_class: Any = import_or_explain("headgate.page.server:PageServer", "page")
    with server_class(control.absolute(), port=0) as server:
        console.print(f"The page: {server.url} (the gate is on it in the second run)")

        def wait() -> None:
            console.print(f"The page stays at {server.url}; ctrl-C ends it")
            with suppress(KeyboardInterrupt):
                threading.Event().wait()

        yield wait


def _tell(result: DemoResult, picture: str | None, control: Path) -> None:
    from headgate.demo.report import doubt, headline, result_table

    out_console = Console(highlight=False)
    out_console.print(headline(result), soft_wrap=True)
    out_console.print(result_table(result))
    if (doubtful := doubt(result)) is not None:
        out_console.print(doubtful, style="dark_orange", highlight=False)
    if picture:
        click.echo(f"The picture: {picture}")
    click.echo(f"Every batch: headgate ledger show {control} --gate demo")


def _plan(seconds: float, rate: str, load: float | None, target: float, trigger: float) -> Demo:
    from headgate.demo.run import Demo
    from headgate.demo.workload import Workload

    rows: int | None = None
    if rate != "auto":
        if load is not None:
            raise BadArgument("give --rate ROWS or --load, not both: --load is for --rate auto")
        try:
            rows = int(rate.replace(",", "").replace("_", ""))
        except ValueError:
            raise BadArgument(
                f"--rate {rate!r} is neither 'auto' nor a number of rows per second, such as 200000"
            ) from None
    return Demo(
        target=target,
        seconds=seconds,
        load=5.0 if load is None else load,
        rows_per_second=rows,
        workload=Workload(trigger=trigger),
    )


def _run(plan: Demo, control: Path, console: Console) -> DemoResult:
    from headgate.demo.report import LiveReport
    from headgate.demo.session import quiet_session

    with (
        tempfile.TemporaryDirectory(prefix="headgate-demo-", ignore_cleanup_errors=True) as scratch,
        LiveReport(console) as report,
    ):
        report.note("starting Spark ...")
        with quiet_session(Path(scratch)) as spark:
            return plan.run(spark, control, Path(scratch), report)


def _picture(result: DemoResult, out: Path, console: Console) -> str | None:
    from headgate.demo.plot import save_plot

    try:
        return str(save_plot(result, out))
    except MissingExtra as error:
        console.print(f"no picture: {error}")
        return None
