"""The figures command: one JSON object of the promised shape, a CSV, a picture."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from headgate.cli.figures import figures
from headgate.errors import BadArgument
from headgate.figures import NAMES, build


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_prints_one_object_of_the_promised_shape(name: str) -> None:
    result = CliRunner().invoke(figures, [name, "--quick", "--runs", "1", "--json"])
    assert result.exit_code == 0, result.output
    value = json.loads(result.stdout)
    assert list(value) == ["figure", "runs", "rows", "claims"]
    assert (value["figure"], value["runs"]) == (name, 1)
    for row in value["rows"]:
        assert list(row)[:2] == ["x", "policy"]
        for metric in list(row)[2:]:
            assert metric in ("average_queueing_latency_s", "dropped_ratio", "shedding_ratio")
            assert list(row[metric]) == ["mean", "min", "max"]
            assert row[metric]["min"] <= row[metric]["mean"] <= row[metric]["max"]
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
