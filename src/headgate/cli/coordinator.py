"""``headgate coordinator``: serve the coordinators of many queries, print tokens, and look at
queries."""

from __future__ import annotations

import logging
import os
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from headgate.cli.plumbing import DURATION, import_or_explain, json_option, print_json
from headgate.cli.tables import console, table
from headgate.errors import BadArgument, ControlFolderError, CoordinatorGone, CoordinatorRefused
from headgate.sites.wire.client import fetch_json
from headgate.sites.wire.http import is_loopback
from headgate.sites.wire.tokens import SECRET_VARIABLE, read_secret, reader_token, site_token

__all__ = ["coordinator"]

#: The environment variable that holds a token for looking.
_TOKEN_VARIABLE = "HEADGATE_TOKEN"

_secret_option = click.option(
    "--secret-file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help=f"The coordinator's secret; without it, the variable {SECRET_VARIABLE}.",
)


@click.group(invoke_without_command=True, short_help="Let several sites share queries fairly.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to serve at.")
@click.option("--port", default=8470, show_default=True, help="Port to serve at; 0 for any free one.")
@click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="What is remembered over restarts; without it, nothing is.",
)
@_secret_option
@click.option("--open", "is_open", is_flag=True, help="No tokens; only on a loopback address.")
@click.option(
    "--lease",
    type=DURATION,
    default="15s",
    show_default=True,
    help="Silence until a site can be replaced.",
)
@click.option(
    "--forget",
    type=DURATION,
    default="10m",
    show_default=True,
    help="Silence until it no longer counts.",
)
@click.option(
    "-v", "--verbose", is_flag=True, help="Log every refusal on standard error, of single queries too."
)
@click.pass_context
def coordinator(
    ctx: click.Context,
    host: str,
    port: int,
    state: Path | None,
    secret_file: str | None,
    is_open: bool,
    lease: float,
    forget: float,
    verbose: bool,
) -> None:
    """Serve the coordinators of many queries until ctrl-C; prints the address once it takes requests.

    Sites report to it about once a second and hear how every query fares. The secret file is made if it
    is not there; `headgate coordinator token SITE` prints what a site needs to speak for itself.

    \b
    Examples:
      headgate coordinator --open                       a trial, on this machine only
      headgate coordinator --state /var/lib/headgate --secret-file /etc/headgate/secret
      headgate coordinator token rome --secret-file /etc/headgate/secret
      headgate coordinator status http://127.0.0.1:8470
    """
    if ctx.invoked_subcommand is not None:
        return
    if is_open and secret_file is not None:
        raise BadArgument("--open and --secret-file: with a secret sites need tokens; give only one")
    secret = None if is_open else _made_secret(secret_file)
    if secret is None and not is_open:
        raise BadArgument(
            f"no secret: give --secret-file (made if it is not there) or {SECRET_VARIABLE}; --open "
            "serves without one, on a loopback address"
        )
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING, format="%(asctime)s %(name)s: %(message)s"
    )
    if (
        not verbose
    ):  # it warns of every request that is none, and strangers could fill the disk with that
        logging.getLogger("uvicorn").setLevel(logging.ERROR)
    server_class: Any = import_or_explain("headgate.coordinator.service:CoordinatorServer", "server")
    registry_class: Any = import_or_explain("headgate.coordinator.registry:Registry", "server")
    settings: Any = import_or_explain("headgate.coordinator.registry:RegistrySettings", "server")(
        lease, forget
    )
    if state is None:
        _serve(server_class, registry_class(settings), secret, host, port, state)
        return
    with closing(import_or_explain("headgate.coordinator.journal:Journal", "server")(state)) as journal:
        _serve(server_class, registry_class(settings, journal=journal), secret, host, port, state)


def _made_secret(file: str | None) -> bytes | None:
    """The secret, made if it is not there; one that is there may be in a folder that is only read."""
    there = False
    with suppress(OSError):  # in a folder that this user may not look into
        there = file is not None and Path(file).exists()
    try:
        return read_secret(file, make=not there)
    except ControlFolderError as error:
        reason = getattr(error.__cause__, "strerror", None) or "no text"
        advice = (
            f"read ({reason}): let this user read it, or give another; one that is not there is made"
            if there
            else f"made ({reason}): give a file in a folder that this user can write"
        )
        raise ControlFolderError(f"--secret-file {file!r} cannot be {advice}") from error


def _serve(
    server_class: Any, registry: Any, secret: bytes | None, host: str, port: int, state: Path | None
) -> None:
    server = server_class(registry, secret=secret, host=host, port=port)
    if state is None:
        click.echo("without --state a restart forgets which sites there are", err=True)
    if secret is None:
        click.echo("open: whoever is on this machine can speak for any site", err=True)
    elif not is_loopback(host):
        click.echo("tokens go over the line in the clear: put a proxy with TLS in front", err=True)
    click.echo(server.url)
    click.echo("coordinating; ctrl-C stops it", err=True)
    with suppress(KeyboardInterrupt):
        server.run()
    click.echo("stopped", err=True)


@coordinator.command(short_help="Print a site's token.")
@click.argument("site", required=False)
@click.option("--reader", is_flag=True, help="A token that may look and not report.")
@_secret_option
def token(site: str | None, reader: bool, secret_file: str | None) -> None:
    """Print the token with which SITE, and no other, may report.

    \b
    Examples:
      headgate coordinator token rome --secret-file /etc/headgate/secret > rome.token
      headgate coordinator token --reader --secret-file /etc/headgate/secret
    """
    if (site is None) != reader:
        raise BadArgument("a token is of one site or of a reader: give SITE or --reader")
    secret = read_secret(secret_file)
    if secret is None:
        raise BadArgument(f"no secret: give the coordinator's --secret-file, or {SECRET_VARIABLE}")
    click.echo(reader_token(secret) if site is None else site_token(secret, site))


@coordinator.command(short_help="How every query and every site fares.")
@click.argument("url")
@_secret_option
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help=f"A site's or a reader's token; without it, the variable {_TOKEN_VARIABLE}.",
)
@json_option
def status(url: str, secret_file: str | None, token_file: Path | None, as_json: bool) -> None:
    """How every query and every site of the coordinator at URL fares.

    \b
    Examples:
      headgate coordinator status http://127.0.0.1:8470
      headgate coordinator status http://127.0.0.1:8470 --secret-file /etc/headgate/secret --json
    """
    given = _token(secret_file, token_file)
    try:
        found = fetch_json(url, "/v1/queries", given, timeout_s=5.0)
    except CoordinatorRefused as error:
        if error.code != "bad-token":
            raise
        raise BadArgument(_token_advice(bool(given))) from None
    if as_json:
        print_json(found)
        return
    try:
        shown = (_queries(found["queries"]), _sites(found["sites"]))
        summary = _summary(found)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise CoordinatorGone(f"what answers at {url} is no coordinator: check the address") from None
    out = console()
    out.print(summary)
    for one in shown:
        if one.row_count:
            out.print(one)


def _token(secret_file: str | None, token_file: Path | None) -> str | None:
    if token_file is not None:
        try:
            return token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise BadArgument(f"--token-file {str(token_file)!r} cannot be read ({error})") from None
    secret = read_secret(secret_file)
    return os.environ.get(_TOKEN_VARIABLE) if secret is None else reader_token(secret)


def _token_advice(given: bool) -> str:
    what = (
        "the token that was given was not made with this coordinator's secret"
        if given
        else "this coordinator asks for a token"
    )
    return (
        f"{what}: give its secret (--secret-file or {SECRET_VARIABLE}), or a site's or a reader's token "
        f"(--token-file or {_TOKEN_VARIABLE})"
    )


def _summary(found: dict[str, Any]) -> str:
    queries = found["queries"]
    text = f"{len(queries):,} {'query' if len(queries) == 1 else 'queries'}"
    known = [query["sic"] for query in queries.values() if query["sic"] is not None]
    if not known:
        return f"{text}, no SIC reported"
    mean = sum(known) / len(known)
    return f"{text}; SIC {min(known):.3f} at least, {mean:.3f} on average; Jain {found['jain']:.4f}"


def _queries(queries: dict[str, Any]) -> Table:
    made = table(None, "<query", "SIC", "age", "sources", "weight", "<root", "<sites")
    for name, q in queries.items():
        missing = f" ({len(q['missing'])} missing)" if q["missing"] else ""
        made.add_row(
            Text(name),
            "" if q["sic"] is None else f"{q['sic']:.3f}",
            "" if q["age_s"] is None else f"{q['age_s']:.1f} s",
            f"{q['sources']:,}{missing}",
            f"{q['weight']:g}",
            Text(q["root"] or ""),
            Text(", ".join(f"{site} {len(part['sources'])}" for site, part in q["sites"].items())),
        )
    return made


def _sites(sites: dict[str, Any]) -> Table:
    made = table(None, "<site", "<state", "heard", "queries", "<incarnation")
    for name, site in sites.items():
        heard = f"{site['heard_s']:.1f} s ago"
        made.add_row(
            Text(name), Text(site["state"]), heard, f"{site['queries']:,}", Text(site["incarnation"])
        )
    return made
