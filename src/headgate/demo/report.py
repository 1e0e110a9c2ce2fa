"""The demo on a terminal: a line for each batch, the one that is running, and a table at the end."""

from __future__ import annotations

import time
from types import TracebackType

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headgate.demo.batches import Batch, Side
from headgate.demo.run import DemoResult

__all__ = ["LiveReport", "batch_line", "doubt", "headline", "result_table"]

#: Characters that stand for the target, and for the longest bar.
_TARGET, _LONGEST = 10, 32
#: Blue and orange can be told apart by everyone; green and red cannot.
_INSIDE, _OUTSIDE = "dodger_blue2", "dark_orange"


def batch_line(batch: Batch, target_s: float) -> Text:
    """One batch: a bar against the target (the mark), and its figures."""
    filled = round(_TARGET * batch.duration_s / target_s)
    style = _INSIDE if batch.duration_s <= target_s else _OUTSIDE
    line = Text(f"  {batch.number:>4}  ")
    for i in range(_LONGEST):
        last = i == _LONGEST - 1 and filled > _LONGEST
        if i < filled:
            line.append("▶" if last else "█", style)
        else:
            line.append("│" if i == _TARGET else " ", "bold")
    line.append(f" {batch.duration_s:6.1f} s", style)
    line.append(f"   delay {batch.delay_s:5.1f} s")
    if batch.running:
        return line.append("   still running", style)
    share = batch.kept / batch.arrived if batch.arrived else 1.0
    return line.append(f"   kept {share:6.1%}")


class LiveReport:
    """Follows a run on a console: bars that grow on a terminal, plain lines in a file."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, transient=True, auto_refresh=False)
        self._target_s = 1.0
        self._stage, self._began, self._length = "", 0.0, 0.0

    def __enter__(self) -> LiveReport:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._live.stop()

    def stage(self, text: str, seconds: float, target_s: float) -> None:
        """Print a heading, and begin to count this part's seconds."""
        self._stage, self._began, self._length = text, time.monotonic(), seconds
        self._target_s = target_s
        if self._console.is_terminal:
            self._live.update(Text(), refresh=True)
        self._console.print(Text(f"\n{text}", "bold"), soft_wrap=True)

    def note(self, text: str) -> None:
        """A line of text."""
        self._console.print(text, highlight=False)

    def batch(self, batch: Batch) -> None:
        """A line that stays."""
        self._console.print(batch_line(batch, self._target_s), soft_wrap=True)

    def tick(self, running: Batch | None) -> None:
        """The line at the bottom, which changes."""
        if not self._console.is_terminal:
            return
        passed = time.monotonic() - self._began
        clock = Text(f"        {self._stage}: {passed:.0f} of about {self._length:.0f} s", "dim")
        lines = Text() if running is None else batch_line(running, self._target_s).append("\n")
        self._live.update(lines.append(clock), refresh=True)


def headline(result: DemoResult) -> Text:
    """What was compared, in a line."""
    return Text(
        f"\n{result.rows_per_second:,} rows/s into a query that sustains "
        f"{result.capacity_rows_s:,.0f} ({result.load:.1f} times), target {result.target_s:g} s a batch",
        "bold",
    )


def doubt(result: DemoResult) -> str | None:
    """Why this run shows less than it says; None where it shows it."""
    if result.load < 2.0 or result.ungated.rising:
        return None
    return (
        "Without a gate the query did not fall behind to the end, so this was no "
        f"{result.load:.1f} times what the machine sustains: it was busier while that was measured. Run "
        "the demo again with nothing beside it."
    )


def result_table(result: DemoResult) -> Table:
    """Both sides beside each other."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    table.add_column("without a gate", justify="right")
    table.add_column("with a gate", justify="right")
    sides = (result.ungated, result.gated)
    table.add_row("batches", *(f"{len(s.batches):,}" for s in sides))
    table.add_row("inside the target", *(_share_inside(s) for s in sides))
    table.add_row("longest batch", *(_longest(s) for s in sides))
    for name, share in (("delay, median", 0.5), ("delay, 95th percentile", 0.95), ("delay, most", 1.0)):
        table.add_row(name, *(f"{s.delay(share):.1f} s" for s in sides))
    table.add_row("rows kept", *(f"{s.kept:.1%}" for s in sides))
    table.add_row("rows kept after ten batches", *(f"{s.kept_settled:.1%}" for s in sides))
    table.add_row("every row accounted for", *("yes" if s.ledger_balanced else "NO" for s in sides))
    return table


def _share_inside(side: Side) -> Text:
    good = side.inside_target >= 0.9
    return Text(f"{side.inside_target:.0%}", f"bold {_INSIDE if good else _OUTSIDE}")


def _longest(side: Side) -> str:
    if not side.batches:
        return "none ended"
    longest = max(side.batches, key=lambda b: b.duration_s)
    return f"{longest.duration_s:.1f} s" + (" so far" if longest.running else "")
