"""``headgate backfill``: process what a gate shed, later, in slices that can be stopped and taken up."""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.text import Text

from headgate.cli.arguments.control_store import ControlCommand, control_argument, gates_there
from headgate.cli.arguments.folders import gate_queries
from headgate.cli.doctor import spark_settings
from headgate.cli.plumbing import json_option, print_json
from headgate.cli.tables import console
from headgate.errors import BadArgument
from headgate.store.folder import used_control_folder

if TYPE_CHECKING:
    from headgate.spark.backfill.repay import Repayment

__all__ = ["backfill"]

#: Open batches that are told one by one.
_SHOWN = 10


@click.command(
    cls=ControlCommand, short_help="Process what a gate shed, later: each row once, in slices."
)
@control_argument
@click.option("--gate", required=True, shell_complete=gates_there, help="Whose shed rows.")
@click.option("--query", help="Of this query; the first characters of its id will do.")
@click.option("--to", required=True, metavar="PLACE", help="A folder for the rows, or a Delta table.")
@click.option(
    "--format",
    "kind",
    default="parquet",
    show_default=True,
    type=click.Choice(["parquet", "orc", "json", "csv", "delta"]),
    help="What is written there.",
)
@click.option(
    "--since", metavar="TIME", help="Batches from then on: 2026-05-01T08:00, or '2 hours' ago."
)
@click.option("--until", metavar="TIME", help="Batches up to then, likewise.")
@click.option("--batches", metavar="LIST", help="These batches: 12,15-20.")
@click.option(
    "--rate", type=float, metavar="ROWS", help="Read so many rows a second at most, on average."
)
@click.option("--slice-rows", type=click.IntRange(1), help="Rows that a slice reads at most.")
@click.option(
    "--slice-batches", type=click.IntRange(1), default=100, show_default=True, help="Batches of a slice."
)
@click.option(
    "--prepare",
    metavar="MODULE:FUNCTION",
    help="What the query does between source and gate, where the gate could not note it.",
)
@click.option("--option", multiple=True, metavar="NAME=VALUE", help="Of the source; may be repeated.")
@click.option(
    "--options-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Options of the source as a JSON object: for passwords, which have no place on a command line.",
)
@click.option("--checkpoint", metavar="PLACE", help="The query's, where it was not noted.")
@click.option("--source", type=click.IntRange(0), help="Which of the query's sources, from 0.")
@click.option("--master", default="local[2]", show_default=True, help="Where it runs.")
@click.option("--memory", default="2g", show_default=True, help="The driver's memory.")
@click.option("--py-files", metavar="ARCHIVE", help="As for spark-submit.")
@click.option(
    "--conf", multiple=True, metavar="NAME=VALUE", help="A setting of Spark's; may be repeated."
)
@json_option
def backfill(
    control: str,
    gate: str,
    query: str | None,
    to: str,
    kind: str,
    batches: str | None,
    rate: float | None,
    prepare: str | None,
    option: tuple[str, ...],
    options_file: Path | None,
    master: str,
    memory: str,
    py_files: str | None,
    conf: tuple[str, ...],
    as_json: bool,
    **more: Any,
) -> None:
    """Read the batches that GATE shed rows of again, and write exactly those rows, each once.

    It goes on where an earlier run ended, however that ended, and two at once share the work. What
    was repaid is marked in the control store (headgate ledger show). Source and plain steps are those
    that the gate has noted; it says what else it needs. Kafka and tables need their connector:
    --conf spark.jars.packages=...

    \b
    Exit code:
      0  all that was asked for is repaid
      3  some batches stay open, each with its reason: the source no longer has them, or they
         are not what the ledger says
      4  the rest is in the hands of another process

    \b
    Examples:
      headgate backfill --control /shared/control --gate rides --to /lake/late-rides
      headgate backfill --control /shared/control --gate rides --to /lake/late-rides --since "2 days"
      headgate backfill --control s3://bucket/c --gate rides --to /lake/late --rate 50000 --json
      headgate backfill --control /shared/control --gate rides --to /lake/late --prepare jobs:parsed
    """
    folder = used_control_folder(control)
    if query is not None:
        (query, *others) = [pair.query for pair in gate_queries(folder, gate, query)]
        if others:
            raise BadArgument(f"--query is the beginning of several: {', '.join([query, *others])}")
    given: dict[str, Any] = {
        **more,
        "query": query,
        "format": kind,
        "batches": None if batches is None else _numbers(batches),
        "rows_per_s": rate,
        "prepare": None if prepare is None else _function(prepare),
        "options": _options(option, options_file),
    }
    done = _repaid(control, gate, to, given, master, memory, spark_settings(py_files, conf))
    if as_json:
        print_json({"control": control, **done.to_json()})
    else:
        _say(done)
    if done.left_open:
        raise SystemExit(3)
    if done.elsewhere:
        raise SystemExit(4)


def _say(done: Repayment) -> None:
    out = console()
    out.print(
        f"gate {done.gate}, query {done.query}: {done.rows:,} rows of {done.batches:,} batches repaid "
        f"to {done.to} in {done.slices:,} slices ({done.rows_read:,} rows read, "
        f"{done.seconds:.0f} s); {done.before:,} batches had been repaid before",
        soft_wrap=True,
    )
    if done.elsewhere:
        out.print(f"{len(done.elsewhere)} batches are in the hands of another process", soft_wrap=True)
    for batch, why in list(done.left_open.items())[:_SHOWN]:
        out.print(Text.assemble(("open", "yellow"), f"  batch {batch} {why}"), soft_wrap=True)
    if len(done.left_open) > _SHOWN:
        out.print(f"and {len(done.left_open) - _SHOWN} more (--json has all)", soft_wrap=True)


def _numbers(text: str) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise BadArgument(f"--batches {text!r}: write batches and spans of them, 12,15-20")
        span = range(int(first), int(last or first) + 1)
        if len(span) > 1_000_000:
            raise BadArgument(
                f"--batches {text!r}: a million batches at most; or give --since and --until"
            )
        found += span
    return found


def _options(pairs: tuple[str, ...], file: Path | None) -> dict[str, str] | None:
    found: dict[str, str] = {}
    if file is not None:
        try:
            value = json.loads(file.read_text())
            found |= {str(name): str(one) for name, one in value.items()}
        except (AttributeError, OSError, ValueError) as error:
            raise BadArgument(f"--options-file {str(file)!r} is no JSON object: {error}") from error
    for pair in pairs:
        name, equals, one = pair.partition("=")
        if not equals or not name:
            raise BadArgument(f"--option {name!r}: write NAME=VALUE")
        found[name] = one
    return found or None


def _function(text: str) -> Any:
    module, colon, name = text.partition(":")
    try:
        if not colon:
            raise ValueError("there is no colon in it")
        sys.path.insert(0, "")  # the folder that the command is given in
        found = getattr(importlib.import_module(module), name)
    except (AttributeError, ImportError, TypeError, ValueError) as error:
        raise BadArgument(
            f"--prepare {text!r}: {error}; write MODULE:FUNCTION, a function of a DataFrame that can be "
            "imported from here"
        ) from error
    if not callable(found):
        raise BadArgument(f"--prepare {text!r} is no function")
    return found


def _repaid(
    control: str,
    gate: str,
    to: str,
    given: dict[str, Any],
    master: str,
    memory: str,
    settings: dict[str, str],
) -> Repayment:
    from headgate.demo.session import quiet_session
    from headgate.spark.backfill.repay import repay
    from headgate.spark.recipe.batches import settings_of

    folder = used_control_folder(control)
    noted = settings_of(folder, gate, given["query"])
    Console(stderr=True, highlight=False).print("starting Spark ...")
    with (
        tempfile.TemporaryDirectory(prefix="headgate-backfill-", ignore_cleanup_errors=True) as scratch,
        quiet_session(
            Path(scratch), memory, master=master, name=f"headgate-backfill-{gate}",
            more={**noted, **settings},
        ) as spark,
    ):  # fmt: skip
        return repay(spark, gate, control, to, progress=True, **given)
