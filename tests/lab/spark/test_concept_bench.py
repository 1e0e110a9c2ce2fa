"""The benches of concept-driven shedding in their smallest form: what they say is true of the rows."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import Progress

from headgate_lab.bench.cod import cod as concept
from headgate_lab.bench.cod import data as concept_data
from headgate_lab.bench.cod.bursts import Events, job_events, replay_bursts
from headgate_lab.bench.cod.designs import AGGREGATES, DESIGNS, Found, Rounds
from headgate_lab.bench.cod.promises import coverage, reached
from headgate_lab.bench.cod.trips import BEGIN_S, PANE_S, Trips
from headgate_lab.cli.bench import bench
from headgate_lab.figures.cod.streams import GroupLaw
from headgate_lab.figures.measured_spark import conf, heard
from headgate_lab.papers.cod import allocate

ROUTES = GroupLaw(100, 30_000, 3, power=1.05, shift=3.0)
SMALL = concept.Size(
    Trips(ROUTES, 4),
    Trips(GroupLaw(9_000, 6_000, 3), 4),
    routes_rounds=Rounds(1, 0, ("mean", "median")),
    crowded_rounds=Rounds(1, 0, ("median",)),
    stream=Trips(ROUTES, 4),
    batches=4,
)


@pytest.fixture
def progress() -> Progress:
    return Progress(console=Console(quiet=True))


@pytest.fixture
def no_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HEADGATE_DATA", raising=False)
    monkeypatch.chdir(tmp_path)


def test_rides_are_the_same_for_a_seed_and_end_in_their_panes(tmp_path: Path) -> None:
    trips = Trips(ROUTES, 4)
    table = trips.table()
    assert table.equals(trips.table())
    assert not table["route"].equals(Trips(ROUTES, 4, seed=2).table()["route"])
    assert len(table) == trips.rows == 40_000
    seconds = table["dropoff"].to_numpy().astype("datetime64[us]").astype(np.int64) / 1e6
    assert (np.diff(seconds) >= 0).all()
    assert np.bincount(((seconds - BEGIN_S) // PANE_S).astype(int)).tolist() == [10_000] * 4
    assert trips.complete == (BEGIN_S, BEGIN_S + PANE_S)  # of two windows all panes are there
    folder = trips.write(tmp_path / "rides", 3)
    parts = [pq.read_table(path) for path in sorted(folder.iterdir())]
    assert [len(part) for part in parts] == [13_333, 13_333, 13_334]
    assert np.concatenate([part["id"].to_numpy() for part in parts]).tolist() == list(range(40_000))


def test_a_round_is_compared_with_itself() -> None:
    seconds = {(a, d): [1.0, 1.0, 1.0] for a in AGGREGATES for d in DESIGNS}
    seconds["median", "none"] = [10.0, 100.0, 30.0]  # other work on the machine, in the second round
    seconds["median", "fixed"] = [1.0, 10.0, 2.0]
    shares = dict.fromkeys(DESIGNS[1:], 0.1)
    found = Found(seconds, shares, shares, shares | {"fixed": 0.02}, shares, 7.0)
    assert found.speed_up("median", "fixed") == 10.0
    assert found.ratios()["error_vs_uniform"] == pytest.approx(0.2)


@pytest.fixture(scope="module")
def small(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("cod")
    return concept.measure(spark, folder, SMALL, Progress(console=Console(quiet=True)))


@pytest.mark.long  # the whole bench, small
def test_the_bench_prints_every_ratio(small: dict[str, Any]) -> None:
    assert json.loads(json.dumps(small)) == small
    assert small["bench"] == "cod"
    ratios = small["ratios"]
    for name in ("mean", "median", "crowded_median"):
        for design in DESIGNS[1:]:
            assert 0 < ratios[f"{name}_{design}"] < math.inf
    assert small["context"]["routes"]["rows"] == 40_000
    assert set(small["context"]["routes"]["seconds"]["median"]) == set(DESIGNS)


@pytest.mark.long  # the whole bench, small
def test_2_percent_are_kept_and_fixed_draws_miss_no_group(small: dict[str, Any]) -> None:
    ratios = small["ratios"]
    for design in DESIGNS[1:]:
        assert ratios[f"kept_{design}"] == pytest.approx(0.02, abs=0.003)
    assert small["context"]["routes"]["groups_per_window"] == pytest.approx(100, abs=1)
    assert (ratios["missing_fixed"], ratios["crowded_missing_fixed"]) == (0.0, 0.0)
    assert ratios["missing_coin"] < 0.03  # six rows a group and window: e^-6 of the large ones
    # a spread of 20 % from six rows: 0.8 * 0.2 / sqrt(6)
    assert ratios["fixed_error"] == pytest.approx(0.065, abs=0.015)
    assert ratios["fixed_error"] < ratios["coin_error"] < ratios["uniform_error"]
    assert ratios["error_vs_uniform"] == ratios["fixed_error"] / ratios["uniform_error"]
    assert ratios["fixed_median_error"] < ratios["uniform_median_error"]


@pytest.mark.long  # the whole bench, small
def test_a_crowd_keeps_a_row_of_each_and_people_are_warned(small: dict[str, Any]) -> None:
    ratios, context = small["ratios"], small["context"]
    assert context["routes"]["warnings"] == []
    (warning,) = context["crowded"]["warnings"]
    assert "as many groups as rows" in warning
    floor = context["crowded"]["groups_per_row"]
    assert floor > 0.3
    assert ratios["crowded_kept_fixed"] > floor  # a row of each group in each pane of its windows
    assert ratios["crowded_missing_uniform"] > 0.9
    assert ratios["crowded_error_vs_uniform"] < 0.1
    assert any("uniformly" in remark and "%" in remark for remark in context["remarks"])


@pytest.mark.long  # the whole bench, small
def test_the_stream_keeps_its_share_too(small: dict[str, Any]) -> None:
    stream = small["context"]["stream"]
    assert stream["balanced"] is True
    assert set(stream["batch_s"]) == {"none", "uniform", "batch", "partition"}
    for design in ("uniform", "batch", "partition"):
        assert small["ratios"][f"stream_kept_{design}"] == pytest.approx(0.02, abs=0.006)
        assert small["ratios"][f"stream_median_{design}"] > 0


def test_settings_and_the_log_are_given_back(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    name, log = "spark.sql.adaptive.enabled", logging.getLogger("headgate")
    before = spark.conf.get(name)
    with conf(spark, {name: "false"}), heard() as said:
        assert spark.conf.get(name) == "false"
        for _ in range(2):
            log.warning("gate %r: %s", "rides", "many groups: very many")
        log.info("gate %r: %s", "rides", "fine")
    assert spark.conf.get(name) == before
    assert said == ["many groups: very many"]
    assert not caplog.records
    log.warning("again")
    assert [record.message for record in caplog.records] == ["again"]


# The data.


def _burst(rows: int = 6000) -> Events:
    """A job a minute, with all of its tasks in that minute."""
    rng = np.random.default_rng(3)
    jobs = np.repeat(np.arange(rows // 100), 100)
    return Events("made", np.sort(jobs * 60.0 + rng.uniform(0, 60, rows)), jobs)


def test_a_job_never_seen_before_is_capped_where_it_is_counted() -> None:
    found = replay_bursts(_burst(), 60.0)
    assert found.ideal == 0.05  # 5 of 100
    assert found.same_batch == pytest.approx(0.05, rel=0.05)
    assert found.missing_same_batch == 0.0
    # all rows of the minute before were one job's; the new one meets the rate of those not named
    assert found.history > 0.9


def test_batches_hold_every_event_once() -> None:
    events = _burst(600)
    rows = [r for part in events.batches(150.0) for r in range(part.start, part.stop)]
    assert rows == list(range(600))
    assert events.first(10).jobs.tolist() == events.jobs[:10].tolist()


@pytest.mark.usefixtures("no_files")
def test_made_events_come_in_bursts() -> None:
    events = job_events()
    assert events.name == "gcm_job"
    assert (np.diff(events.instants) >= 0).all()
    found = replay_bursts(events.first(100_000), 60.0)
    assert found.same_batch < 1.3 * found.ideal
    assert found.history > 2 * found.ideal


def test_an_accuracy_asked_for_is_reached() -> None:
    found = reached("debs_few", 0.05, draws=1)
    assert found is not None
    assert 0.7 < found.ratio < 1.25
    assert found.groups_within > 0.93
    assert found.windows_near == 1.0
    assert 0.1 < found.kept < 0.3
    tighter = reached("debs_few", 0.02, draws=1)
    assert tighter is not None
    assert tighter.kept > found.kept
    assert tighter.realised < found.realised


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    found = coverage("debs_few", 0.25, draws=1)
    assert found is not None
    assert found.intervals > 1000
    assert found.covered == pytest.approx(0.95, abs=0.02)
    assert coverage("debs100k", 0.02, draws=1) is None  # a row of each group says nothing of its spread


@pytest.mark.usefixtures("no_files")
def test_the_data_bench_says_who_yielded(spark: SparkSession, progress: Progress) -> None:
    size = concept_data.Size(
        ("debs10k",), (0.02,), ("debs_few",), (0.1,), (0.25,), 1, batches_s=(300.0,), events=60_000
    )
    found = concept_data.measure(spark, size, progress)
    assert json.loads(json.dumps(found)) == found
    ratios, tables = found["ratios"], found["context"]["tables"]
    floor = ratios["routes_floor"]
    assert floor > 0.5
    assert ratios["routes_kept_exceed"] == pytest.approx(floor, abs=0.001)
    assert ratios["routes_yielded_exceed"] == 0.0
    for overflow in ("smallest", "random"):
        assert ratios[f"routes_kept_{overflow}"] == pytest.approx(0.02, abs=0.001)
        assert ratios[f"routes_yielded_{overflow}"] == pytest.approx(1 - 0.02 / floor, abs=0.01)
    assert ratios["coverage_debs_few"] == pytest.approx(0.95, abs=0.02)
    assert ratios["accuracy_10pct_debs_few"] < 1.25
    assert ratios["burst_300s_kept_vs_ideal"] < ratios["burst_300s_history_vs_ideal"]
    (row,) = [r for r in tables["allocations"] if r["allocation"] == "senate"]
    assert row["missing"] == 0.0
    assert row["kept"] == pytest.approx(tables["more groups than budget"][0]["floor"], rel=0.03)
    assert "groups as rows" in found["context"]["warnings"][0]


def test_the_smallest_routes_yield_first() -> None:
    """What the table of overflows says of rows is what `allocate` says of groups."""
    sizes = np.array([5, 4, 3, 2, 1])
    assert allocate(sizes, 2, overflow="smallest").yielded.tolist() == [2, 3, 4]


@pytest.mark.parametrize(("name", "module"), [("cod", "cod.cod"), ("cod-data", "cod.data")])
def test_the_command_shows_tables_and_remarks(
    name: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"data": "debs_real", "kept": 0.75812, "groups": 4828}]
    result = {
        "bench": name,
        "ratios": {"median_fixed": 11.13579},
        "context": {"tables": {"routes": rows}, "remarks": ["mean: shed uniformly"]},
    }
    asked: list[bool] = []
    monkeypatch.setattr(
        f"headgate_lab.bench.{module}.run", lambda *, quick: asked.append(quick) or result
    )
    printed = CliRunner().invoke(bench, [name, "--quick"])
    assert printed.exit_code == 0, printed.output
    assert asked == [True]
    for text in ("debs_real", "0.7581", "4828", "median_fixed", "11.14", "mean: shed uniformly"):
        assert text in printed.stdout
    assert json.loads(CliRunner().invoke(bench, [name, "--json"]).stdout) == result
