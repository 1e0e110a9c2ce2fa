"""A figure as a Spark job: the numbers of one process, and errors that say what the workers lack."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import headgate
from headgate.errors import MissingExtra, WorkerError
from headgate_lab.cli.figures import figures
from headgate_lab.figures import SWEEPS, build
from headgate_lab.spark.item_job import run_items

Work = Callable[[Any], Any]


def silent(done: int, of: int) -> None:
    pass


#: The items of a figure that are worked out twice, here and on Spark; all of them in the long run.
SAMPLE = 3


class Enough(Exception):
    """The sample is compared; the rest of the figure has tests of its own."""


@pytest.mark.parametrize("name", SWEEPS)
def test_a_figures_work_and_items_can_be_sent_to_workers(name: str) -> None:
    def sent(work: Work, items: Sequence[Any], progress: object) -> list[Any]:
        there, those = cloudpickle.loads(cloudpickle.dumps((work, list(items))))
        assert callable(there)
        assert those == list(items)
        raise Enough

    with pytest.raises(Enough):
        build(name, runs=1, quick=True, runner=sent)


@pytest.mark.long  # that all items of las_fig9 are, test_the_command_prints_the_same shows
@pytest.mark.parametrize("name", ["las_fig9", "cod_fig9", "join_fig9", "themis_fig9"])
def test_a_figures_items_are_the_same(spark: SparkSession, name: str) -> None:
    def both(work: Work, items: Sequence[Any], progress: object) -> list[Any]:
        sample = items[:: max(1, len(items) // SAMPLE)][:SAMPLE]
        assert run_items(spark, work, sample, silent) == [work(item) for item in sample]
        raise Enough

    with pytest.raises(Enough):
        build(name, runs=1, quick=True, runner=both)


@pytest.mark.long
@pytest.mark.parametrize("name", SWEEPS)
def test_the_figure_is_the_same(spark: SparkSession, name: str) -> None:
    runs = 2 if name.startswith("las") else 1  # of the others one run is a dozen items, and takes longer
    there = build(name, runs=runs, quick=True, runner=partial(run_items, spark))
    assert there == build(name, runs=runs, quick=True)


def test_the_command_prints_the_same(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}

    def session(scratch, **options):
        asked.update(options)
        return contextlib.nullcontext(spark)

    monkeypatch.setattr("headgate.demo.session.quiet_session", session)
    options = ["las-fig9", "--quick", "--runs", "2", "--json"]
    here, there = (
        CliRunner().invoke(figures, [*options, *more]) for more in ([], ["--master", "local[2]"])
    )
    assert (here.exit_code, there.exit_code, asked["master"]) == (0, 0, "local[2]")
    assert there.stdout == here.stdout


def test_results_come_in_the_order_of_the_items(spark: SparkSession) -> None:
    told: list[tuple[int, int]] = []

    def slow_first(item: int) -> int:
        import time

        time.sleep(1.0 if item == 0 else 0.0)
        return item * item

    found = run_items(spark, slow_first, range(8), lambda *values: told.append(values))
    assert found == [item * item for item in range(8)]
    assert told == sorted(told)
    assert any(0 < done < 8 for done, _ in told)
    assert told[-1] == (8, 8)


def test_a_worker_without_an_extra_says_which(spark: SparkSession) -> None:
    def needs_numba(item: int) -> int:
        raise MissingExtra("numba", "join")

    with pytest.raises(WorkerError, match=r"'numba'.*headgate\[join\].*every worker"):
        run_items(spark, needs_numba, [1, 2], silent)


def test_a_worker_without_the_package_says_so(spark: SparkSession) -> None:
    def elsewhere(item: int) -> int:
        import no_such_package

        return int(no_such_package.value)

    with pytest.raises(WorkerError, match="No module named 'no_such_package'"):
        run_items(spark, elsewhere, [1], silent)


def test_a_worker_of_another_version_is_refused(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(headgate, "__version__", "0.0.1")
    with pytest.raises(WorkerError, match=r"the driver 0\.0\.1"):
        run_items(spark, abs, [1], silent)


def test_a_job_that_is_broken_off_is_cancelled(spark: SparkSession) -> None:
    def slow(item: int) -> None:
        import time

        time.sleep(60)

    def stop(done: int, of: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_items(spark, slow, [1, 2], stop)
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()


def test_a_master_that_does_not_exist_is_named() -> None:
    code = "from headgate.cli import main; main()"
    command = ["figures", "las-fig9", "--quick", "--master", "nowhere"]
    done = subprocess.run(
        [sys.executable, "-c", code, *command], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "master='nowhere'" in done.stderr
    assert "Master must either be yarn or start with spark, k8s, or local" in done.stderr
    assert "Traceback" not in done.stderr
