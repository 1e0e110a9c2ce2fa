"""``headgate bench hold``, ``outage`` and ``peers``: how a target is held on Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from headgate.cli.plumbing import DURATION, import_or_explain, json_option
from headgate_lab.cli.bench_tables import show

__all__ = ["hold", "outage", "peers"]

_ROOM = "headgate_lab.bench.hold"

_target: Callable[[Any], Any] = click.option(
    "--target",
    "target_s",
    type=DURATION,
    default="2 seconds",
    show_default=True,
    help="The longest a batch may take.",
)
_capacity: Callable[[Any], Any] = click.option(
    "--capacity", type=float, help="Rows a second that count as the capacity, instead of measuring it."
)
_quick: Callable[[Any], Any] = click.option(
    "--quick", is_flag=True, help="A shorter run, with coarser figures."
)
_beside: Callable[[Any], Any] = click.option(
    "--beside",
    metavar="PATH",
    help="Another Headgate to run in turn with this one: its checkout, the folder that has the package "
    "in it, or the Python of an environment.",
)
_trace: Callable[[Any], Any] = click.option(
    "--trace",
    type=click.Choice(["web", "packets", "tasks"]),
    default="web",
    show_default=True,
    help="Whose arrivals --arrivals trace has: a web server's, an Ethernet's, a cluster scheduler's.",
)
_seed: Callable[[Any], Any] = click.option(
    "--seed", default=0, show_default=True, help="Same seed, same bursts."
)


def _loads(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[float, ...] | None:
    """Multiples of the capacity, with commas between them."""
    if value is None:
        return None
    try:
        found = tuple(float(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r}: give multiples of the capacity, as in 0.9,2,5") from None
    if min(found) <= 0:
        raise click.BadParameter(f"{value!r}: each load is above 0")
    return found


@click.command(
    short_help="How well a gate holds its target, beside the same query without one. "
    "17 minutes; quick: 4."
)
@click.option(
    "--loads",
    callback=_loads,
    metavar="LOADS",
    help="Multiples of the capacity; by default 0.9,1,2,5,10.",
)
@click.option(
    "--arrivals",
    default="steady",
    show_default=True,
    help="How rows come at the high load: steady, bursts, trace, or some of them with commas.",
)
@click.option(
    "--source",
    type=click.Choice(["rate", "kafka", "files"]),
    default="rate",
    show_default=True,
    help="Where rows come from; without a broker's artifacts, files stand in for kafka.",
)
@click.option("--minutes", type=float, help="The whole table in so many minutes.")
@click.option("--gated-only", is_flag=True, help="Leave out the runs without a gate.")
@_trace
@_beside
@_seed
@_target
@_capacity
@_quick
@json_option
def hold(
    loads: tuple[float, ...] | None,
    arrivals: str,
    source: str,
    minutes: float | None,
    gated_only: bool,
    trace: str,
    beside: str | None,
    seed: int,
    target_s: float,
    capacity: float | None,
    quick: bool,
    as_json: bool,
) -> None:
    """How well a gate holds its target, against the same query without one.

    Half of the capacity, then the load, then half again. Each run lasts 90 s unless --minutes says
    otherwise: 17 minutes for the five loads, without and with a gate; quick: the load 5, 4 minutes.

    \b
    Inside, longest and delays are of the high load's batches after the tenth.
    Of best: rows kept by those that the best constant row budget would have kept of the same batches,
    with 95 % of them inside. Hopeless: batches whose rows take 80 % of the target before any is kept.

    \b
    Examples:
      headgate bench hold --quick
      headgate bench hold --source kafka --arrivals steady,bursts,trace --loads 2,5 --minutes 30
      headgate bench hold --source kafka --arrivals bursts --beside ../before --gated-only
    """
    plan = import_or_explain(f"{_ROOM}.hold:HoldPlan", "spark")
    given: dict[str, Any] = {"loads": loads} if loads else {"loads": (5.0,)} if quick else {}
    made = plan(
        arrivals=tuple(arrivals.split(",")),
        source=source,
        trace=trace,
        beside=beside,
        ungated=not gated_only,
        minutes=minutes,
        seed=seed,
        target_s=target_s,
        capacity=capacity,
        **given,
    )
    show(import_or_explain(f"{_ROOM}.hold:run", "spark")(plan=made), as_json)


@click.command(
    short_help="The first batch after an outage, and that of a cold start. 17 minutes; quick: 5."
)
@click.option(
    "--loads", callback=_loads, metavar="LOADS", help="Multiples of the capacity; by default 2,5."
)
@click.option("--down", "down_s", type=DURATION, help="How long the outage lasts; 60 s, quick: 20 s.")
@click.option(
    "--backlog",
    type=float,
    help="What a cold start finds, of ten minutes at capacity; 0.1, quick: 0.02.",
)
@click.option("--no-cold", is_flag=True, help="Leave out the cold starts.")
@_beside
@_target
@_capacity
@_quick
@json_option
def outage(
    loads: tuple[float, ...] | None,
    down_s: float | None,
    backlog: float | None,
    no_cold: bool,
    beside: str | None,
    target_s: float,
    capacity: float | None,
    quick: bool,
    as_json: bool,
) -> None:
    """The first batch after an outage at full load, and the first of a topic with a backlog, on Kafka.

    Nothing kept: a filter that keeps no row in place of the gate; what it takes is the reading alone.
    17 minutes at most, half as long again and more with another release beside; quick: 5.

    \b
    Examples:
      headgate bench outage
      headgate bench outage --loads 2 --down 60 --beside ../before
    """
    from dataclasses import replace

    plan = import_or_explain(f"{_ROOM}.outage:OutagePlan", "spark")
    made = plan.quick(beside) if quick else plan(beside=beside)
    given = {"loads": loads, "down_s": down_s, "backlog": backlog, "capacity": capacity}
    given["target_s"] = target_s
    made = replace(made, cold=not no_cold, **{k: v for k, v in given.items() if v is not None})
    show(import_or_explain(f"{_ROOM}.outage:run", "spark")(plan=made), as_json)


@click.command(short_help="A gate beside a cap, a filter by hand, and nothing. 16 minutes; quick: 5.")
@click.option(
    "--loads",
    callback=_loads,
    metavar="LOADS",
    help="Multiples of the capacity; by default 2,5; quick: 5.",
)
@click.option(
    "--arrivals",
    type=click.Choice(["steady", "bursts", "trace"]),
    default="bursts",
    show_default=True,
    help="How rows come.",
)
@click.option("--minutes", type=float, help="The whole table in so many minutes.")
@click.option(
    "--source",
    type=click.Choice(["kafka", "files"]),
    default="kafka",
    show_default=True,
    help="Where rows come from; without a broker's artifacts, files stand in for kafka.",
)
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="A picture, too.")
@_trace
@_seed
@_target
@_capacity
@_quick
@json_option
def peers(
    loads: tuple[float, ...] | None,
    arrivals: str,
    minutes: float | None,
    source: str,
    plot: Path | None,
    trace: str,
    seed: int,
    target_s: float,
    capacity: float | None,
    quick: bool,
    as_json: bool,
) -> None:
    """The same overload through what one would do instead: nothing, a cap, a filter by hand, a gate.

    Delays are of all rows that arrived, those that wait at the end with their delay so far. Mean off and
    median off: mean relative error of the windows and groups that have an answer; answered: their share.
    16 minutes, quick: 5.

    \b
    Examples:
      headgate bench peers
      headgate bench peers --loads 5 --arrivals trace --trace packets --minutes 10 --plot peers.png
    """
    plan = import_or_explain(f"{_ROOM}.peers:PeerPlan", "spark")
    given: dict[str, Any] = {"arrivals": arrivals, "trace": trace, "seed": seed, "source": source}
    given |= {"target_s": target_s, "capacity": capacity}
    if loads:
        given["loads"] = loads
    if minutes is not None:
        made = plan.of_minutes(minutes, **({"loads": (5.0,)} | given if quick else given))
    else:
        made = plan.quick(**given) if quick else plan(**given)
    show(import_or_explain(f"{_ROOM}.peers:run", "spark")(plan=made, plot=plot), as_json)
