"""``headgate bench``: what Headgate costs and what it holds, as ratios from one run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from headgate.cli.plumbing import import_or_explain, json_option
from headgate_lab.cli.bench_hold import hold, outage, peers
from headgate_lab.cli.bench_kills import kills
from headgate_lab.cli.bench_tables import show

__all__ = ["bench"]


@click.group()
def bench() -> None:
    """What Headgate costs and what it holds, as ratios from one run.

    The times are rough, of two cores that do nothing else; what compiles takes half a minute more when
    it runs for the first time.

    \b
    Examples:
      headgate bench gate            what the gate costs a query that it does not shed
      headgate bench hold --json     how well a target is held
      headgate bench outage          the first batch after an outage, and that of a cold start
      headgate bench peers           a gate beside a cap, a filter by hand, and nothing
      headgate bench hold-virtual    the same in virtual time: several jobs, bursts, outages
      headgate bench hold-sweep      whether that is flat around the controller's numbers
      headgate bench guard           a guarded function under overload, by policy
      headgate bench kills           SIGKILL again and again: what is lost, doubled, kept otherwise
      headgate bench rescue          a batch that dies at every restart, with and without rescue
      headgate bench backfill        repaying shed rows beside a plain query, and beside a live one
      headgate bench cod             shedding by group in front of Spark's aggregates
      headgate bench coverage        do 95 % intervals hold the truth on real data?
      headgate bench earlier-windows what a group's earlier windows add to its error bars
      headgate bench error-bars      what error bars cost an aggregate
      headgate bench cod-data        shedding by group on real data: every allocation, bursts, promises
      headgate bench join            kernels on one core, and a stream join under overload
      headgate bench join-rules      which comparisons first: every rule, on a virtual CPU
      headgate bench join-rows       which rows a join leaves out, and what it says of their pairs
      headgate bench join-numbers    every tuned number of a join, at half to twice its default
      headgate bench guard-numbers   the same of a guard
      headgate bench themis-deployments   fairness of four shedders, in virtual time
      headgate bench themis-decision      how long a node takes to decide
      headgate bench themis-speed         how much faster than time the simulator is
      headgate bench store-year      a year of the control folder: time, memory, bytes at start and end
      headgate bench places          a gate's batch in the control store: a folder, S3, S3 far away
      headgate bench scale           500 gates, 100 queries, 10,000 exceptions, 200 readers of a pin
      headgate bench scale-queries   100 real queries of one application, a gate each
      headgate bench page            what an open page costs, however long the ledgers are
      headgate bench loop-year       a year of batches through the control loop, in virtual time
      headgate bench site            what a site's gate costs beside a uniform one; a noisy neighbour
      headgate bench site-sizes      what a site gains by knowing a batch's size, in virtual time
      headgate bench site-numbers    whether a site depends on its tuned numbers, in virtual time
    """


def _benchmark(
    name: str, text: str, extra: str = "spark", module: str | None = None, *, takes: str = ""
) -> None:
    text = f"{text} {takes}".rstrip()
    help_text = (
        f"{text}\n\n\b\nExamples:\n  headgate bench {name}\n  headgate bench {name} --quick --json"
    )

    @bench.command(name, help=help_text, short_help=text)
    @click.option("--quick", is_flag=True, help="A shorter run, with coarser figures.")
    @json_option
    def command(quick: bool, as_json: bool) -> None:
        result: dict[str, Any] = import_or_explain(f"headgate_lab.bench.{module or name}:run", extra)(
            quick=quick
        )
        show(result, as_json)


_benchmark("gate", "What a gate costs a query that it does not shed.")
for _command in (hold, outage, peers):
    bench.add_command(_command)
_benchmark(
    "hold-virtual",
    "How the controller holds a target in virtual time, over several jobs and kinds of arrivals.",
    "",
    module="hold_virtual",
    takes="3 minutes; quick: 15 seconds.",
)
_benchmark(
    "hold-sweep",
    "Whether the result is flat around the controller's numbers.",
    "",
    module="hold_sweep",
    takes="3 minutes; quick: 10 seconds.",
)
_benchmark(
    "guard",
    "How a guarded function fares under overload, and what a guard costs a row.",
    takes="13 minutes; quick: 3.",
)
_benchmark(
    "las",
    "LAS, Full Knowledge and the default price, in virtual time.",
    takes="10 seconds; quick: 5.",
)
bench.add_command(kills)
_benchmark(
    "rescue",
    "A batch that outgrew a worker's memory in an outage: every start, with and without rescue.",
    takes="A minute.",
)
_benchmark(
    "backfill",
    "How fast shed rows are repaid beside a plain query over the same rows, and what a live query "
    "feels.",
    takes="5 minutes; quick: 2.",
)
_benchmark("cod", "What shedding by group saves in front of Spark's aggregates.", module="cod.cod")
_benchmark(
    "error-bars",
    "What an aggregate costs with error bars, beside the same without.",
    module="coverage.cost",
    takes="2 minutes; quick: 1.",
)
_benchmark("cod-data", "Shedding by group on real data.", module="cod.data")
_benchmark(
    "join",
    "Kernels of a stream join, and a join under overload on Spark.",
    "join",
    module="join.join",
    takes="15 minutes; quick: 4.",
)
_benchmark(
    "themis-deployments",
    "How fair four shedders are, in virtual time.",
    module="themis.deployments",
    takes="2 minutes; quick: 5 seconds.",
)
_benchmark(
    "themis-decision",
    "How long a node takes to decide.",
    module="themis.decision",
    takes="10 seconds; quick: 5.",
)
_benchmark(
    "themis-speed",
    "How fast the simulator of federations is.",
    module="themis.speed",
    takes="A minute.",
)
_benchmark(
    "site",
    "What a site's gate costs, and what a noisy neighbour costs the others.",
    module="themis.site",
    takes="12 minutes; quick: 7.",
)
_benchmark(
    "site-numbers",
    "Whether what a site achieves depends on its tuned numbers, in virtual time.",
    module="themis.site_numbers",
    takes="10 to 20 minutes; quick: 4.",
)
_benchmark(
    "site-sizes",
    "What a site gains by knowing a batch's size when its plan is pinned, in virtual time.",
    module="themis.site_sizes",
    takes="4 minutes; quick: 2.",
)
_benchmark(
    "join-rules",
    "Which comparisons a join makes first, by rule.",
    module="join.rules",
    takes="2 minutes; quick: 15 seconds.",
)
_benchmark(
    "join-rows",
    "Which rows a join leaves out where they alone do not fit, in virtual time.",
    "join",
    module="join.rows",
    takes="1 minute; quick: 20 seconds.",
)
_benchmark(
    "join-numbers",
    "What half and twice of every tuned number of a join would do, in virtual time.",
    "join",
    module="join.numbers",
    takes="3 minutes; quick: 1.",
)
_benchmark(
    "guard-numbers",
    "What half and twice of every tuned number of a guard would do, in virtual time.",
    module="guard_numbers",
    takes="3 minutes; quick: 10 seconds.",
)
_benchmark(
    "store-year",
    "What a year of batches does to the control folder, and what a long ledger costs.",
    "",
    module="year.store",
    takes="5 minutes; quick: 1.",
)

_benchmark(
    "places",
    "What a gate's batch costs in the control store, in a folder and on an S3 server near and far.",
    "objects",
    takes="2 minutes; quick: half of one.",
)
_benchmark(
    "scale",
    "How pins, driver and store fare with many gates, queries, exceptions and readers.",
    "objects",
    module="scale.scale",
    takes="15 minutes; quick: 4.",
)
_benchmark(
    "scale-queries",
    "A hundred streaming queries of one application with a gate each, beside the same without.",
    module="scale.spark_queries",
    takes="20 minutes; quick: 2.",
)
_benchmark(
    "page",
    "What an open page costs: CPU of a refresh, beside reading the ledgers.",
    "page",
    takes="Half a minute; quick: 10 seconds.",
)


@bench.command("loop-year", short_help="A year of batches through the control loop, in virtual time.")
@click.option(
    "--batches",
    default=365 * 1440,
    show_default="525,600, one a minute",
    type=click.IntRange(min=1000),
    help="The batches of the year.",
)
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where the control folder is made; one in memory leaves out the time that a disk takes.",
)
@json_option
def loop_year(batches: int, folder: Path | None, as_json: bool) -> None:
    """A year of batches through the control loop and its store, in virtual time and without Spark.

    What a batch costs the loop, and what process and control folder hold, when the first records have
    expired, in the middle of the year and at its end. Up to an hour in memory; on a disk three fsyncs a
    batch more.

    \b
    Examples:
      headgate bench loop-year --folder /dev/shm
      headgate bench loop-year --batches 20000 --json
    """
    result = import_or_explain("headgate_lab.bench.year.loop:run", "spark")(
        batches=batches, folder=folder
    )
    show(result, as_json)


@bench.command("coverage", short_help="Whether 95 % intervals hold the truth on real data.")
@click.option("--data", help="One data set instead of all, such as 'green taxis'.")
@click.option("--quick", is_flag=True, help="10 draws instead of 200, with coarser figures.")
@click.option("--markdown", "as_page", is_flag=True, help="The table of docs/estimates.md alone.")
@json_option
def coverage(data: str | None, quick: bool, as_page: bool, as_json: bool) -> None:
    """How often 95 % intervals hold the truth on real data, and how wide they are.

    Every data set with a number in it, several queries of each, 1 to 10 % kept, by coins and by fixed
    draws of a concept-driven gate: plain t, what hg.mean and hg.sum say, and hg.pooled. Without Spark,
    by the same formulas; and differences, totals, and rows that share an identity. 3 minutes; quick: a
    quarter of one.

    \b
    Examples:
      headgate bench coverage
      headgate bench coverage --quick --json
      headgate bench coverage --data "green taxis"
      headgate bench coverage --markdown
    """
    result = import_or_explain("headgate_lab.bench.coverage.coverage:run", "spark")(
        quick=quick, data=data
    )
    if as_page:
        click.echo(import_or_explain("headgate_lab.bench.coverage.page:markdown", "")(result))
    else:
        show(result, as_json)


@bench.command("earlier-windows", short_help="What a group's earlier windows add to its error bars.")
@click.option("--quick", is_flag=True, help="2 draws instead of 12, with coarser figures.")
@click.option("--markdown", "as_page", is_flag=True, help="The table of docs/estimates.md alone.")
@json_option
def earlier_windows(quick: bool, as_page: bool, as_json: bool) -> None:
    """What a group's earlier windows add to its error bars, on real data.

    The queries of ``bench coverage`` with windows to look back on: what hg.mean and
    hg.pooled("window") say, and the same with the group's ten windows before. Without Spark, by the
    same formulas. 5 minutes; quick: one.

    \b
    Examples:
      headgate bench earlier-windows
      headgate bench earlier-windows --quick --json
      headgate bench earlier-windows --markdown
    """
    result = import_or_explain("headgate_lab.bench.coverage.earlier_windows:run", "spark")(quick=quick)
    if as_page:
        click.echo(import_or_explain("headgate_lab.bench.coverage.earlier_windows:markdown", "")(result))
    else:
        show(result, as_json)
