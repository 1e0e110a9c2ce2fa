"""``headgate serve``: a live page of all gates, and their metrics, read from the control store."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import click

from headgate.cli.arguments.control_store import ControlCommand, control_argument
from headgate.cli.plumbing import DURATION, import_or_explain
from headgate.sites.wire.http import is_loopback
from headgate.sites.wire.tokens import read_secret
from headgate.store.folder import is_used
from headgate.store.places.place import control_place

__all__ = ["serve"]


@click.command(cls=ControlCommand, short_help="A live page of all gates, and their metrics.")
@control_argument
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to serve at.")
@click.option("--port", default=8471, show_default=True, help="Port to serve at; 0 for any free one.")
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="The token for changes, made if it is not there; without it the page is read-only.",
)
@click.option(
    "--refresh",
    type=DURATION,
    help="Time between two looks at the store.  [default: 2 s; 10 s for an object store]",
)
@click.option(
    "--otel",
    is_flag=True,
    help="Also send the metrics to an OpenTelemetry collector; OTEL_EXPORTER_OTLP_ENDPOINT says where.",
)
@click.option("-v", "--verbose", is_flag=True, help="Log changes and refusals on standard error.")
def serve(
    control: str,
    host: str,
    port: int,
    token_file: str | None,
    refresh: float | None,
    otel: bool,
    verbose: bool,
) -> None:
    """Serve a live page of all gates in the store CONTROL until ctrl-C; prints its address.

    The page says whether each job is healthy and why: its delay against its target, what was kept and
    shed, the plan, the books, the sites. /metrics has the same for Prometheus. It only reads, unless
    --token-file is given: whoever has the token may change mode, target and min keep. Looking from other
    machines (--host) needs the token, too, or a reader's. With --otel the metrics also go to a collector
    over OTLP, as the variables OTEL_EXPORTER_OTLP_* and OTEL_METRIC_EXPORT_INTERVAL say.

    \b
    Examples:
      headgate serve --control /shared/headgate
      headgate serve --control s3://bucket/headgate --port 8080
      headgate serve --control /shared/headgate --host 0.0.0.0 --token-file /etc/headgate/page-token
      headgate serve --control /shared/headgate --otel
      headgate coordinator token --reader --secret-file /etc/headgate/page-token
    """
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING, format="%(asctime)s %(name)s: %(message)s"
    )
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # strangers could fill the disk with the rest
    place = control_place(control)
    secret = None if token_file is None else read_secret(token_file, make=True, by="headgate serve")
    server_class: Any = import_or_explain("headgate.page.server:PageServer", "page")
    server = server_class(place, secret=secret, host=host, port=port, refresh_s=refresh)
    exporting: AbstractContextManager[Any] = nullcontext()
    if otel:
        exporting = import_or_explain("headgate.page.otlp:exporting", "otel")(place, refresh)
    if not is_used(place):
        click.echo(f"nothing is in {control!r} yet: the page waits for its first gate", err=True)
    if not is_loopback(host):
        click.echo("tokens go over the line in the clear: put a proxy with TLS in front", err=True)
    click.echo(server.url)
    click.echo("serving; ctrl-C stops it", err=True)
    with suppress(KeyboardInterrupt), exporting:
        server.run()
    click.echo("stopped", err=True)
