"""The `headgate` command; one subcommand a file. Nothing here imports Spark before it is needed."""

from __future__ import annotations

import click

from headgate import __version__
from headgate.cli.backfill import backfill
from headgate.cli.completion import completion
from headgate.cli.coordinator import coordinator
from headgate.cli.demo import demo
from headgate.cli.doctor import doctor
from headgate.cli.federation import federation
from headgate.cli.job.init import init
from headgate.cli.job.run import run
from headgate.cli.ledger import ledger
from headgate.cli.plumbing import CommandsOfOthers, LazyGroup
from headgate.cli.serve import serve
from headgate.cli.set import set_
from headgate.cli.status import status
from headgate.cli.top import top
from headgate.cli.whatif.command import whatif

__all__ = ["main"]


@click.group(cls=CommandsOfOthers, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="headgate")
def main() -> None:
    """Load shedding for Spark Structured Streaming: hold a latency target, and keep the books.

    CONTROL, the control store that gates were given as control=, is the first argument of the commands
    that look at one; --control says the same anywhere on the line.

    \b
    Examples:
      headgate demo                                  a stream at 5 times capacity, twice
      headgate whatif progress.json --hold 2s        what would a gate have shed?
      headgate init                                  a job file: a gated pipeline without code
      headgate run job.toml                          runs it
      headgate doctor /shared/control                would gates work here?
      headgate status /shared/control                what every gate does now
      headgate serve /shared/control                 the same as a live page
      headgate set /shared/control rides --mode monitor
      headgate ledger verify /shared/control         does every row add up?
      headgate backfill --control /shared/control --gate rides --to /lake/late

    \b
    Exit code:
      0  done
      1  it ran, and says no: problems (doctor), books that do not balance (ledger verify)
      2  it was asked wrongly, or something it needs is not there: one line says what to do
      3, 4  of ledger verify: doubtful, missing; of backfill: open, in other hands
    """


main.add_command(demo)
main.add_command(init)
main.add_command(run)
main.add_command(doctor)
main.add_command(status)
main.add_command(serve)
main.add_command(top)
main.add_command(set_)
main.add_command(whatif)
main.add_command(ledger)
main.add_command(backfill)
main.add_command(coordinator)
main.add_command(federation)
main.add_command(completion)
main.add_command(
    LazyGroup(
        "kafka",
        "headgate.testing.kafka_cli:kafka",
        extra="kafka",
        short_help="A real Kafka broker for trials, and a producer that makes bursts.",
    )
)
