"""The `headgate` command; one subcommand a file. Nothing here imports Spark before it is needed."""

from __future__ import annotations

import click

from headgate import __version__
from headgate.cli.backfill import backfill
from headgate.cli.coordinator import coordinator
from headgate.cli.demo import demo
from headgate.cli.doctor import doctor
from headgate.cli.federation import federation
from headgate.cli.ledger import ledger
from headgate.cli.plumbing import CommandsOfOthers, LazyGroup
from headgate.cli.serve import serve
from headgate.cli.set import set_
from headgate.cli.status import status
from headgate.cli.top import top

__all__ = ["main"]


@click.group(cls=CommandsOfOthers, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="headgate")
def main() -> None:
    """Load shedding for Spark Structured Streaming: hold a latency target, and keep the books.

    \b
    Examples:
      headgate demo                                  a stream at 5 times capacity, twice
      headgate doctor --control /shared/control      would gates work here?
      headgate status /shared/control                what every gate does now
      headgate serve --control /shared/control       the same as a live page
      headgate set /shared/control rides --mode monitor
      headgate ledger verify /shared/control         does every row add up?
      headgate backfill --control /shared/control --gate rides --to /lake/late
    """


main.add_command(demo)
main.add_command(doctor)
main.add_command(status)
main.add_command(serve)
main.add_command(top)
main.add_command(set_)
main.add_command(ledger)
main.add_command(backfill)
main.add_command(coordinator)
main.add_command(federation)
main.add_command(
    LazyGroup(
        "kafka",
        "headgate.testing.kafka_cli:kafka",
        extra="kafka",
        short_help="A real Kafka broker for trials, and a producer that makes bursts.",
    )
)
