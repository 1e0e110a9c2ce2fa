"""What ``headgate run`` shows: a line while it runs, what a console sink prints, a sum at the end."""

from __future__ import annotations

import os
import secrets
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from headgate.view.wording import ago_text, count_text, plain, seconds_text, share_text

if TYPE_CHECKING:
    from headgate.job.job import Job
    from headgate.spark.job.running import Figures, Outcome

__all__ = ["Screen", "status_line"]

_STYLES = {
    "idle": "green",
    "shedding": "yellow",
    "min_keep": "yellow",
    "futile": "bold red",
    "fault": "bold red",
}


class Screen:
    """Words go to standard error; rows of a console sink to standard output, unless JSON goes there."""

    def __init__(self, as_json: bool) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._as_json = as_json
        self._live: Live | None = None
        self._name, self._state = "", ""

    def note(self, words: str) -> None:
        """One line of its own."""
        self._console.print(words, soft_wrap=True, markup=False, style="dim")

    @contextmanager
    def following(self, job: Job) -> Iterator[None]:
        """While the query runs: a line at the bottom of a terminal."""
        self._name = job.name
        if not self._console.is_terminal:
            yield
            return
        with Live(
            Text("no batch has ended yet"),
            console=self._console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            refresh_per_second=4,
        ) as self._live:
            yield
        self._live = None

    def show(self, seconds: float, figures: Figures) -> None:
        """What the query does now; in a file or a pipe, only what is new of its state."""
        if self._live is not None:
            self._live.update(status_line(self._name, seconds, figures))
        elif figures.state != self._state:
            self._state = figures.state
            self._console.print(status_line(self._name, seconds, figures), soft_wrap=True)

    @contextmanager
    def printed(self) -> Iterator[int]:
        """A file's number to give to the JVM as its standard output; what it writes there is shown."""
        reading, writing = os.pipe()
        end = f"that was all {secrets.token_hex(16)}\n"  # which no row can know
        reader = threading.Thread(target=self._pass_on, args=(reading, end), daemon=True)
        reader.start()
        try:
            yield writing
        finally:
            # Spark has ended, but its JVM holds the other end for as long as this process lives.
            os.write(writing, end.encode())
            os.close(writing)
            reader.join()

    def _pass_on(self, reading: int, end: str) -> None:
        with open(reading, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.endswith(end):
                    if rest := line.removesuffix(end):  # a last line without its end
                        self._print(f"{rest}\n")
                    return
                self._print(line)

    def _print(self, line: str) -> None:
        line = plain(line)  # rows are anybody's words
        if self._as_json or (self._live is not None and sys.stdout.isatty()):
            self._console.print(Text(line.rstrip("\n")), soft_wrap=True)
        else:
            click.echo(line, nl=False)

    def sum_up(self, job: Job, outcome: Outcome) -> None:
        """Say how the job ended, and what it read, kept and shed."""
        found = outcome.figures
        how = {
            "stopped": "stopped",
            "time": "its time is up",
            "finished": "all that was there has been read",
            "failed": "it failed",
        }[outcome.ended]
        said = f"{job.name}: {how} after {ago_text(outcome.seconds)}. {found.batches:,} batches, "
        said += f"{found.arrived:,} rows arrived"
        if found.kept is not None:
            said += f", {found.kept:,} kept, {found.arrived - found.kept:,} shed"
        self._console.print(f"{said}.", soft_wrap=True, markup=False)
        if outcome.verdict:
            see = f"headgate ledger show {job.control} --gate {job.gate['name']}"
            self._console.print(f"The ledger is {outcome.verdict}: {see}", soft_wrap=True, markup=False)
        if outcome.error:
            self._console.print(f"headgate: {outcome.error}", soft_wrap=True, markup=False)


def status_line(name: str, seconds: float, figures: Figures) -> Text:
    """The run in one line."""
    line = Text.assemble((name, "bold"), f"  {ago_text(seconds)}")
    if figures.last_batch is None:
        return line.append("  the first batch is running", "dim")
    line.append(f"  batch {figures.last_batch:,}")
    if figures.duration_s is not None:
        line.append(f" took {seconds_text(figures.duration_s)}")
    if figures.rows_per_s:
        line.append(f"  {count_text(figures.rows_per_s)} rows/s")
    if figures.kept is not None and figures.arrived:
        line.append(f"  kept {share_text(figures.kept / figures.arrived)}")
    if figures.state:
        line.append("  ").append(figures.state, _STYLES.get(figures.state, ""))
        if figures.state != "idle" and figures.why:
            line.append(f": {figures.why}", "dim")
    return line
