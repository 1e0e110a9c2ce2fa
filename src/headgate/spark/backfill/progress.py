"""A bar on standard error that says how far a backfill is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["Bar", "no_bar", "progress_bar"]

#: Rows that were read, and batches that they were of.
Bar = Callable[[int, int], None]


@contextmanager
def no_bar() -> Iterator[Bar]:
    """A bar that shows nothing, for programs."""
    yield lambda rows, batches: None


@contextmanager
def progress_bar(gate: str, rows: int) -> Iterator[Bar]:
    """Counts rows that were read, of all that are to be."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(f"repaying {gate}: rows read", total=max(1, rows))
        yield lambda read, batches: progress.advance(task, read)
