"""``headgate run``: a gated pipeline from a job file."""

from __future__ import annotations

import contextlib
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headgate.cli.job.job_screen import Screen
from headgate.cli.plumbing import import_or_explain, json_option, print_json
from headgate.durations import seconds
from headgate.errors import BadArgument
from headgate.job.problems import JobProblems
from headgate.job.reading import read_job

if TYPE_CHECKING:
    from headgate.job.job import Job
    from headgate.spark.job.running import Outcome, RunningJob

__all__ = ["run"]

#: How often the query is looked at.
_LOOK_S = 0.25


@click.command(short_help="A gated pipeline from a job file, without code.")
@click.argument("job_file", metavar="JOB", type=click.Path(path_type=Path))
@click.option("--check", is_flag=True, help="Only say what is wrong with the file; starts no Spark.")
@click.option("--for", "for_", metavar="DURATION", help="End after so long, for instance 30s.")
@click.option("--once", is_flag=True, help="End when all that is there now has been read.")
@click.option(
    "--log",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where Spark's own words go.  [default: JOB with the ending .log]",
)
@json_option
def run(
    job_file: Path, check: bool, for_: str | None, once: bool, log: Path | None, as_json: bool
) -> None:
    """Run the pipeline of the file JOB: source, SQL, gate, SQL, sink; ctrl-C ends it between batches.

    `headgate init` writes an example with comments; `headgate init --help` lists every key.

    \b
    Exit code:
      0  it ran, and its ledger is balanced; with --check: the file is right
      1  the query failed, or its ledger is not in order
      2  something is wrong with the file, each with its line; or Spark did not start

    \b
    Examples:
      headgate run job.toml --check
      headgate run job.toml
      headgate run job.toml --for 30s --json
      headgate run job.toml --once
    """
    limit_s = None if for_ is None else seconds(for_, "--for")
    if once and for_ is not None:
        raise BadArgument("give --once or --for, not both: --once ends when all has been read")
    screen = Screen(as_json)
    try:
        job = read_job(job_file)
        if check:
            outcome = None
        else:
            outcome = _run(job, log or job_file.with_suffix(".log"), limit_s, once, screen)
    except JobProblems as error:
        _refuse(error, job_file, as_json)
    if as_json:
        print_json(_answer(job_file, job, outcome))
    elif outcome is None:
        click.echo(f"{job_file} is right: {job.words}")
    else:
        screen.sum_up(job, outcome)
    if outcome is not None and not outcome.ok:
        raise SystemExit(1)


def _answer(file: Path, job: Job | None, outcome: Outcome | None, problems: Any = ()) -> dict[str, Any]:
    return {
        "job": str(file),
        "ok": not problems and (outcome is None or outcome.ok),
        "problems": [problem.to_json() for problem in problems],
        "pipeline": None if job is None else job.to_json(),
        "run": None if outcome is None else outcome.to_json(),
    }


def _refuse(error: JobProblems, file: Path, as_json: bool) -> None:
    if as_json:
        print_json(_answer(file, None, None, error.problems))
    else:
        for line in error.lines:
            click.echo(line, err=True)
        count = len(error.problems)
        many = "1 problem" if count == 1 else f"{count} problems"
        click.echo(f"headgate: {many} in {file}; `headgate init --help` lists every key", err=True)
    raise SystemExit(2)


def _run(job: Job, log: Path, limit_s: float | None, once: bool, screen: Screen) -> Outcome:
    quiet_session: Any = import_or_explain("headgate.demo.session:quiet_session", "spark")
    from headgate.cli.job.job_settings import session_settings
    from headgate.spark.job.build import start_job
    from headgate.spark.job.running import RunningJob

    settings = session_settings(job, screen.note)
    _check_log(log)
    screen.note(f"starting Spark on {job.spark.master}; its own words go to {log} ...")
    with (
        tempfile.TemporaryDirectory(prefix="headgate-run-", ignore_cleanup_errors=True) as scratch,
        screen.printed() as prints,
        quiet_session(
            Path(scratch),
            job.spark.memory,
            master=job.spark.master,
            name=job.name,
            more={**settings},
            log=log,
            prints=prints,
        ) as spark,
        _asked_to_end() as asked,
    ):
        query = start_job(spark, job, Path(scratch), once=once)
        screen.note(job.words)
        running = RunningJob(spark, job, query)
        with screen.following(job):
            ended = _follow(running, asked, limit_s, screen)
            running.stop(hurry=asked.again.is_set)
            return running.outcome(ended)


def _follow(running: RunningJob, asked: _EndAsked, limit_s: float | None, screen: Screen) -> str:
    while running.active:
        screen.show(running.seconds, running.look())
        if asked.once.is_set():
            return "stopped"
        if limit_s is not None and running.seconds >= limit_s:
            return "time"
        asked.once.wait(_LOOK_S)
    return "finished"


class _EndAsked:
    """Whether somebody said to end, and said it again."""

    def __init__(self) -> None:
        self.once, self.again = threading.Event(), threading.Event()

    def on_signal(self, *_: object) -> None:
        (self.again if self.once.is_set() else self.once).set()


@contextlib.contextmanager
def _asked_to_end() -> Iterator[_EndAsked]:
    """Take ctrl-C and SIGTERM as a wish to end. Spark, which came first, would end at once."""
    asked = _EndAsked()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, asked.on_signal) for number in numbers]
    try:
        yield asked
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _check_log(log: Path) -> None:
    try:
        with log.open("a") as file:
            file.write(f"-- headgate run, {time.strftime('%Y-%m-%d %H:%M:%S')}\n")
    except OSError as error:
        raise BadArgument(
            f"the log {log} cannot be written ({error.strerror or error}): give --log FILE"
        ) from error
