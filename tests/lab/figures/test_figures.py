"""The figures command: one JSON object of the promised shape, a CSV, a picture."""

from __future__ import annotations

import csv
import importlib
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from headgate.errors import BadArgument
from headgate_lab.cli.figures import figures
from headgate_lab.figures import SWEEPS, Drawn, build
from tests.lab.figures.quick_figures import quick_figure

pytestmark = pytest.mark.slow

#: The metrics that each paper's axes have, by the paper.
METRICS = {
    "las": {"average_queueing_latency_s", "dropped_ratio", "shedding_ratio"},
    "cod": {
        "relative_error", "relative_error_p95", "kept_share", "missing_share", "share_for_uniform_error",
        "concept_overlap", "concept_distance", "total_variation", "hellinger_distance",
    },
    "joi": {
        "output_rate", "output_utility", "dropped_ratio", "improvement", "optimality",
        "optimality_mended", "stream_rate", "fraction_1", "fraction_2",
    },
    "the": {
        "avg_error", "count_error", "max_error", "top_5_error", "cov_error", "avg_all_error",
        "result_sic", "jain", "jain_instant", "jain_log_rates", "mean_sic", "min_sic", "std_sic",
        "oscillation", "waste", "distance", "full_queries", "empty_queries",
    },
}  # fmt: skip


#: Four to ten seconds of a core each in their smallest size; others of the same paper are by its side.
LONG = {
    *("join_fig10", "join_fig13", "join_fig14", "join_fig15", "join_fig16", "join_fig17"),
    *("themis_fig8", "themis_fig11", "themis_fig12", "themis_fig13"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name in LONG else name for name in SWEEPS]
)
def test_a_figure_prints_one_object_of_the_promised_shape(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drawn(name: str, runs: int, quick: bool, *_: object) -> Drawn:
        assert (runs, quick) == (1, True)
        return quick_figure(name)

    monkeypatch.setattr("headgate_lab.cli.figures.build", drawn)
    result = CliRunner().invoke(figures, [name, "--quick", "--runs", "1", "--json"])
    assert result.exit_code == 0, result.output
    value = json.loads(result.stdout)
    assert list(value) == ["figure", "runs", "rows", "claims"]
    assert (value["figure"], value["runs"]) == (name, 1)
    for row in value["rows"]:
        assert list(row)[:2] == ["x", "policy"]
        for metric in list(row)[2:]:
            assert metric in METRICS[name[:3]]
            assert list(row[metric]) == ["mean", "min", "max"]
            assert row[metric]["min"] <= row[metric]["mean"] <= row[metric]["max"]
    if name.startswith("las"):
        assert {"LAS", "Full Knowledge"} <= {row["policy"] for row in value["rows"]}
    for claim in value["claims"]:
        assert list(claim) == ["claim", "holds", "number"]
        assert isinstance(claim["holds"], bool)


def test_a_figure_is_shown_and_written(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        figures, ["las_fig9", "--quick", "--runs", "1", "--output", str(tmp_path / "new")]
    )
    assert result.exit_code == 0, result.output
    assert "balanced price" in result.stdout
    assert "claims" in result.stdout
    rows = list(csv.DictReader((tmp_path / "new" / "las_fig9.csv").open()))
    assert {row["metric"] for row in rows} == {"average_queueing_latency_s", "dropped_ratio"}
    assert (tmp_path / "new" / "las_fig9.png").stat().st_size > 10_000


def test_the_papers_claims_get_the_verdicts_that_were_measured() -> None:
    drawn = build("las_fig4", runs=12, quick=True)
    assert [claim.holds for claim in drawn.claims[:7]] == [True, True, True, True, False, False, True]
    *ours, far = drawn.claims[7:]
    assert all(claim.holds for claim in ours)
    assert not far.holds  # at 90 % too few tuples are executed to learn 4,096 costs
    assert far.number < 0.16
    assert drawn.at(0.25, "Full Knowledge", "dropped_ratio").mean == pytest.approx(0.2525, rel=0.01)


def test_figures_that_do_not_exist_are_refused() -> None:
    with pytest.raises(BadArgument, match="las_fig4"):
        build("las_fig99")
    with pytest.raises(BadArgument, match="at least 1"):
        build("las_fig4", runs=0)


@pytest.mark.parametrize("name", SWEEPS)
def test_a_figures_work_can_be_sent_to_another_process(name: str) -> None:
    sweep = importlib.import_module(SWEEPS[name]).sweep(2, True)
    _, items = pickle.loads(pickle.dumps((sweep.run, sweep.items)))
    assert items == sweep.items  # that workers find the same: tests/lab/spark/test_figures_on_spark.py


def test_progress_counts_the_items() -> None:
    told: list[tuple[int, int]] = []
    build("las_fig9", runs=2, quick=True, progress=lambda *values: told.append(values))
    assert told == [(1, 2), (2, 2)]


WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = None
from headgate.cli import main
main(sys.argv[1:])
"""


def _without_spark(*options: str) -> subprocess.CompletedProcess[str]:
    command = ["figures", "las-fig9", "--quick", "--runs", "1", "--json", *options]
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_SPARK, *command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_only_a_master_needs_spark() -> None:
    assert json.loads(_without_spark().stdout)["figure"] == "las_fig9"
    refused = _without_spark("--master", "local[2]")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "pip install 'headgate[spark]'" in refused.stderr


def test_a_measured_figure_takes_no_master() -> None:
    result = CliRunner().invoke(figures, ["las-fig11", "--master", "local[2]"])
    assert result.exit_code != 0
    assert "leave --master out" in str(result.exception) + result.output
