"""``headgate doctor``: can this cluster run Headgate, and what should be changed before it does?"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.text import Text

from headgate.cli.arguments.control_store import ControlCommand, control_argument
from headgate.cli.plumbing import DURATION, json_option, print_json
from headgate.cli.tables import console
from headgate.errors import BadArgument

if TYPE_CHECKING:
    from headgate.spark.doctor.findings import Diagnosis

__all__ = ["doctor", "spark_settings"]

_STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red"}


@click.command(
    cls=ControlCommand, short_help="Can this cluster run Headgate, and what should be changed first?"
)
@control_argument
@click.option("--master", default="local[2]", show_default=True, help="Where gates will run.")
@click.option(
    "--py-files", metavar="ARCHIVE", help="As for spark-submit: how Headgate reaches executors."
)
@click.option(
    "--conf", multiple=True, metavar="NAME=VALUE", help="A setting of Spark's; may be repeated."
)
@click.option(
    "--within",
    type=DURATION,
    default="45 seconds",
    show_default=True,
    help="How long executors may take.",
)
@json_option
def doctor(
    control: str, master: str, py_files: str | None, conf: tuple[str, ...], within: float, as_json: bool
) -> None:
    """Run a small job, and say whether gates would work: versions, store, clocks, settings.

    It takes less than a minute. Headgate must be importable by the executors' Python; --py-files sends
    an archive along. Credentials are the environment's, here and on the executors. CONTROL is what gates
    will get as control=.

    \b
    Exit code:
      0  nothing keeps gates from working; there may be warnings
      1  there is a problem, and each says the next step

    \b
    Examples:
      headgate doctor --control /shared/control
      headgate doctor --control s3://bucket/path --master spark://host:7077 --py-files headgate.zip
      headgate doctor --control s3://bucket/path --master yarn --conf spark.executor.instances=4 --json
    """
    found = _looked(control, master, spark_settings(py_files, conf), within)
    if as_json:
        print_json({**found.to_json(), "control": control})
    else:
        out = console()
        for one in found.findings:
            level = (f"{one.level:<8}", _STYLES[one.level])
            out.print(Text.assemble(level, f"{one.check}: {one.found}"), soft_wrap=True)
            if one.next_step:
                out.print(
                    Text.assemble("          ", ("->", "dim"), f" {one.next_step}"), soft_wrap=True
                )
        said = ", ".join(f"{len(found.of(level))} {level}" for level in ("ok", "warning", "problem"))
        out.print(f"{said}, in {found.seconds:.0f} s on {found.master}", soft_wrap=True)
    if not found.ok:
        raise SystemExit(1)


def spark_settings(py_files: str | None, conf: tuple[str, ...]) -> dict[str, str]:
    """Spark's settings as a command gets them."""
    given: dict[str, str] = {}
    for item in conf:
        name, equals, value = item.partition("=")
        if not equals or not name.startswith("spark."):
            # Without its value, which may be a secret.
            given_as = f"{name}=..." if equals else name
            raise BadArgument(
                f"--conf {given_as!r}: give a setting of Spark's as NAME=VALUE, spark.x.y=z"
            )
        given[name] = value
    if py_files is not None:
        for path in py_files.split(","):
            if "://" not in path and not Path(path).is_file():
                raise BadArgument(f"--py-files {path!r} is no file: give an archive with Headgate in it")
        given["spark.submit.pyFiles"] = py_files
    return given


def _looked(control: str, master: str, settings: dict[str, str], within: float) -> Diagnosis:
    from headgate.demo.session import quiet_session
    from headgate.spark.doctor.call import doctor as look

    Console(stderr=True, highlight=False).print("starting Spark ...")
    with (
        tempfile.TemporaryDirectory(prefix="headgate-doctor-", ignore_cleanup_errors=True) as scratch,
        quiet_session(
            Path(scratch), "1g", master=master, name="headgate-doctor", more={**settings}
        ) as spark,
    ):
        return look(spark, control, within=within)
