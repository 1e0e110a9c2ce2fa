"""``headgate kafka``: a real broker and a bursty producer from the command line."""

from __future__ import annotations

import json
import signal
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path

import click

from headgate.errors import HeadgateError
from headgate.testing import broker as brokers
from headgate.testing.bursts import Bursts
from headgate.testing.bursts import produce as send

__all__ = ["kafka"]


@click.group()
def kafka() -> None:
    """A real Kafka broker for trials, and a producer that makes bursts.

    \b
    Examples:
      headgate kafka start --port 9092 --topic rides
      headgate kafka produce --topic rides --base-rate 500 --factor 10 --total 50000
    """


@kafka.command()
@click.option("--port", default=9092, show_default=True, help="Port on 127.0.0.1; 0 for any.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to keep the data in; without it, a temporary one, deleted at the end.",
)
@click.option("--topic", "topics", multiple=True, help="Topic to create; may be repeated.")
@click.option("--partitions", default=1, show_default=True, help="Partitions of those topics.")
def start(port: int, data: Path | None, topics: tuple[str, ...], partitions: int) -> None:
    """Run one broker until ctrl-C; prints its address once it takes requests.

    The first start fetches about 45 MB of jars with Spark's own resolver; later ones fetch nothing.

    \b
    Examples:
      headgate kafka start
      headgate kafka start --port 0 --topic rides --topic rides.kept --partitions 2
    """
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    with ExitStack() as stack:
        folder = data or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        click.echo("starting a broker (the first time, fetching its jars) ...", err=True)
        try:
            broker = stack.enter_context(brokers.Broker.start(folder, port))
            for topic in topics:
                if not broker.create_topic(topic, partitions):
                    click.echo(f"topic {topic} is there already, and is left as it is", err=True)
        except HeadgateError as error:
            raise click.ClickException(str(error)) from None
        click.echo(broker.bootstrap)
        click.echo("running; ctrl-C stops it", err=True)
        while broker.running and not over.wait(0.5):
            pass
        if not over.is_set():
            raise click.ClickException(f"the broker ended by itself: see {broker.log}")
        click.echo("stopping ...", err=True)


@kafka.command()
@click.option("--bootstrap", default="127.0.0.1:9092", show_default=True, help="Broker address.")
@click.option("--topic", required=True, help="Topic to write to; it must exist.")
@click.option("--base-rate", default=500.0, show_default=True, help="Rows per second when calm.")
@click.option("--factor", default=10.0, show_default=True, help="Burst rate / calm rate.")
@click.option("--every", "every_s", default=20.0, show_default=True, help="Seconds between bursts.")
@click.option("--length", "length_s", default=5.0, show_default=True, help="Seconds of a burst.")
@click.option("--total", default=50_000, show_default=True, help="Rows to send, exactly.")
@click.option("--seed", default=0, show_default=True, help="Same seed, same rows and counts.")
@click.option("--first-id", default=0, show_default=True, help="Id of the first row.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object on standard output, nothing else."
)
def produce(
    bootstrap: str,
    topic: str,
    base_rate: float,
    factor: float,
    every_s: float,
    length_s: float,
    total: int,
    seed: int,
    first_id: int,
    as_json: bool,
) -> None:
    """Send rides in bursts: JSON with id, route, fare, priority ('high' or 'low') and sent (ms).

    \b
    Examples:
      headgate kafka produce --topic rides
      headgate kafka produce --topic rides --base-rate 200 --factor 25 --every 10 --length 2
    """
    try:
        schedule = Bursts(base_rate, factor, every_s, length_s, total, seed)
        count = send(bootstrap, topic, schedule, first_id=first_id)
    except HeadgateError as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        click.echo(json.dumps({"bootstrap": bootstrap, "topic": topic, "rows": count}, indent=2))
    else:
        click.echo(f"{count} rows sent to {topic} at {bootstrap}")


if __name__ == "__main__":
    kafka()
