"""``headgate init``: a commented job file that runs as it is."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path

import click

from headgate.errors import BadArgument
from headgate.job import schema
from headgate.job.examples import SOURCES, example

__all__ = ["init"]

#: What must be there before it runs.
_FIRST = {
    "kafka": (
        "headgate kafka start --topic rides --topic rides.kept    # a broker, in another terminal",
    ),
    "files": ("mkdir -p {folder}",),
}
#: What comes once it runs.
_THEN = {
    "kafka": (
        "headgate kafka produce --topic rides --base-rate 1000 --factor 20 --total 400000"
        "    # in a third, once it runs",
    ),
}


def _keys() -> Iterator[str]:
    """Every table and key of a job file, as the help shows them."""
    yield "Tables and keys of a job file:"
    for name, keys in (
        *_by_format("source", schema.SOURCES),
        ("[sql]", (*schema.SQL, "watermark")),
        ("[gate]", (*schema.GATE,)),
        ('[gate.policy] kind = "concept-driven"', (*schema.CONCEPT_DRIVEN, "accuracy")),
        ("[gate.policy.accuracy]", (*schema.ACCURACY,)),
        ('[gate.policy] kind = "group-rates"', (*schema.GROUP_RATES, "rates")),
        *_by_format("sink", schema.SINKS),
        ("[spark]", (*schema.SPARK,)),
    ):
        yield f"  {name}"
        yield from textwrap.wrap(", ".join(keys), 74, initial_indent="    ", subsequent_indent="    ")


def _by_format(table: str, formats: Mapping[str, schema.Keys]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Formats that take the same keys stand in one line."""
    for keys, same in groupby(formats, lambda name: (*formats[name],)):
        yield f"[{table}] format = {', '.join(same)}", keys


@click.command(
    short_help="Write a commented job file for `headgate run`.", epilog="\b\n" + "\n".join(_keys())
)
@click.argument(
    "job_file", metavar="[JOB]", default="job.toml", type=click.Path(dir_okay=False, path_type=Path)
)
@click.option(
    "--source",
    type=click.Choice(SOURCES),
    default="rate",
    show_default=True,
    help="What it reads: rows that Spark makes up, a topic, or a folder of files.",
)
def init(job_file: Path, source: str) -> None:
    """Write a commented job file, JOB or job.toml, that runs as it is; a file that is there stays.

    \b
    Examples:
      headgate init
      headgate init --source kafka rides.toml
    """
    text = example(source, job_file.name)
    try:
        with job_file.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise BadArgument(
            f"{job_file} is there already, and is left as it is: name another file"
        ) from None
    except OSError as error:
        raise BadArgument(
            f"{job_file} cannot be written ({error.strerror or error}): name a file in a folder that is "
            "there"
        ) from error
    click.echo(f"{job_file} is written. Next:")
    for line in _FIRST.get(source, ()):
        click.echo(f"  {line.format(folder=job_file.parent / 'in')}")
    click.echo(f"  headgate run {job_file}")
    for line in _THEN.get(source, ()):
        click.echo(f"  {line}")
