"""``headgate init``: a commented job file that runs as it is."""

from __future__ import annotations

from pathlib import Path

import click

from headgate.errors import BadArgument
from headgate.job.examples import SOURCES, example

__all__ = ["init"]

#: What must be there before it runs.
_FIRST = {
    "kafka": (
        "headgate kafka start --topic rides --topic rides.kept    # a broker, in another terminal",
        "headgate kafka produce --topic rides                     # rows for it, in a third",
    ),
    "files": ("mkdir -p {folder}",),
}


@click.command(short_help="Write a commented job file for `headgate run`.")
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
    text = example(source).replace("job.toml", job_file.name)
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
