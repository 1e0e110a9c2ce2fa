"""The join figures: arithmetic beside the measured table, numbers and verdicts of small runs."""

from __future__ import annotations

import importlib
import json
import pickle

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from headgate_lab.cli.figures import figures
from headgate_lab.figures import SWEEPS, build
from headgate_lab.figures.figure import Samples
from headgate_lab.figures.join import fig7 as join_fig7
from headgate_lab.figures.join.fig5 import LOADS, SIZES, basic_windows, density, mended, phi, policy
from headgate_lab.figures.join.fig17 import utilities
from headgate_lab.figures.join.points import PointRun, run_point
from headgate_lab.figures.join.policies import gain
from headgate_lab.figures.join.schedule import PHASES, phase_gain, phase_mean
from headgate_lab.figures.join.utility import shares

pytestmark = pytest.mark.slow

FIGURES = [name for name in SWEEPS if name.startswith("join")]

#: An independent computation of phi under f_2, kappa 0.8: rows r', columns b / w.
MEASURED = {
    0.01: (0.98, 0.81, 0.72, 0.42, 0.34, 0.15, 0.10),
    0.05: (1.00, 0.97, 0.93, 0.55, 0.45, 0.19, 0.13),
    0.25: (1.00, 1.00, 1.00, 0.97, 0.91, 0.39, 0.26),
    1.0: (1.00, 1.00, 0.99, 0.99, 0.97, 0.93, 0.68),
}
#: The same for kappa 0.6 and r' = 0.01.
LESS_SKEWED = (0.99, 0.88, 0.82, 0.60, 0.52, 0.31, 0.19)


def test_every_figure_of_the_paper_with_runs_or_arithmetic_is_here() -> None:
    assert [f"join_fig{number}" for number in (5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17)] == FIGURES


def test_phi_is_the_measured_one() -> None:
    drawn = build("join_fig5", runs=1)
    for load, row in MEASURED.items():
        found = [drawn.at(size, policy(0.8, load), "optimality").mean for size in SIZES]
        assert found == pytest.approx(row, abs=0.025)
    found = [drawn.at(size, policy(0.6, 0.01), "optimality").mean for size in SIZES]
    assert found == pytest.approx(LESS_SKEWED, abs=0.025)
    assert drawn.at(1.0, policy(0.6, 1.0), "optimality").mean == pytest.approx(0.61, abs=0.02)
    assert [claim.holds for claim in drawn.claims] == [True, True, False, True, True, False, True]


def _naive_areas(f: np.ndarray, size: float) -> list[float]:
    """Section 5.1.1's double integral as sums, one x after another."""
    pieces, found = len(f), []
    for j in range(1, round(1 / size) + 2):
        total = 0.0
        for x in (np.arange(50) + 0.5) / 50:
            begin, end = max(0.0, x * size + (j - 2) * size), min(1.0, x * size + (j - 1) * size)
            points = (np.arange(pieces) + 0.5) / pieces
            total += f[(points >= begin) & (points < end)].sum() / pieces / 50
        found.append(total)
    return found


@given(
    st.lists(st.floats(0.01, 1.0), min_size=3, max_size=12),
    st.sampled_from((0.05, 0.1, 0.25, 0.5, 1.0)),
    st.sampled_from(LOADS),
)
def test_phi_of_any_density(heights: list[float], size: float, load: float) -> None:
    f = np.repeat(heights, 60)
    areas, lengths = basic_windows(f, size)
    assert areas == pytest.approx(_naive_areas(f, size), abs=0.02 * max(heights))
    assert areas.sum() == pytest.approx(f.mean())
    assert lengths.sum() == pytest.approx(1.0)
    assert 0.0 < phi(f, size, load) <= 1.0 + 1e-9
    assert phi(f, size, load) <= mended(f, size, load) + 1e-9 <= 1.0 + 2e-9
    assert mended(f, size, 1.0) == pytest.approx(1.0)


def test_a_flat_density_leaves_nothing_to_choose() -> None:
    flat = np.ones(100)
    assert [mended(flat, size, load) for size in SIZES for load in LOADS] == pytest.approx([1.0] * 28)
    assert phi(flat, 0.25, 1.0) == pytest.approx(0.875)  # one is paid for in full and half full


def test_the_density_peaks_where_the_delay_puts_it() -> None:
    f = density(0.8, seed=0)
    assert np.argmax(f) / len(f) == pytest.approx(0.75, abs=0.01)
    assert f[0] < 0.1 * f.max()
    assert (density(0.8, seed=0) == f).all()


def test_dropping_depends_on_the_load_over_the_cpu_alone() -> None:
    """Figure 7's indexed runs are made at a lower rate, with the square of it less CPU."""
    found = []
    for slower in (1.0, 2.0):
        ((_, name, values),) = run_point(PointRun(join_fig7._point(25.0, 200.0, False, slower), seed=3))
        assert name == "random drop, 200/s"
        found.append(values["dropped_ratio"])
    assert found[0] == pytest.approx(0.45, abs=0.05)  # 1 - sqrt(C / (2 rate^2 w))
    assert found[1] == pytest.approx(found[0], abs=0.05)


def test_types_are_as_frequent_and_as_worthy_as_the_paper_says() -> None:
    assert utilities(5, 50.0)[-1] == pytest.approx(1 / 50)
    assert utilities(2, 10.0) == pytest.approx((1.0, 0.1))
    assert shares((1.0, 0.5, 0.25), 0.0) == pytest.approx((1 / 3,) * 3)
    assert shares((1.0, 0.5, 0.25), -1.0) == pytest.approx((1 / 7, 2 / 7, 4 / 7))
    assert shares((1.0, 0.5, 0.25), 1.0) == pytest.approx((4 / 7, 2 / 7, 1 / 7))


def test_gains_are_of_means_and_phases_of_their_steps() -> None:
    samples = Samples()
    for end in np.arange(5.0, 166.0, 5.0).tolist():
        burst = 60 < end <= 75
        samples.add(end, "rate", {"output_rate": 30.0 if burst else 10.0})
        samples.add(end, "random drop", {"output_rate": 10.0})
    assert phase_gain(samples, "500", "rate", "random drop") == pytest.approx(2.0)
    assert phase_mean(samples, "before", "rate") == 10.0
    assert phase_mean(samples, "after", "rate") == 10.0
    assert gain(samples, 70.0, "rate", "random drop") == pytest.approx(2.0)
    assert gain(samples, 70.0, "rate", "rate", at=80.0) == pytest.approx(2.0)
    assert PHASES["500 settled"] == (70.0, 75.0)


@pytest.mark.parametrize("name", FIGURES)
def test_a_figures_work_can_be_sent_to_another_process(name: str) -> None:
    sweep = importlib.import_module(SWEEPS[name]).sweep(1, True)
    run, items = pickle.loads(pickle.dumps((sweep.run, sweep.items)))
    assert items == sweep.items
    assert run is sweep.run


def test_the_command_draws_one() -> None:
    result = CliRunner().invoke(figures, ["join-fig9", "--quick", "--runs", "1", "--json"])
    assert result.exit_code == 0, result.output
    value = json.loads(result.stdout)
    assert (value["figure"], value["runs"]) == ("join_fig9", 1)
    assert {row["policy"] for row in value["rows"]} == {
        "random drop", "rate", "cells", "content", "bound",
    }  # fmt: skip
    assert {row["x"] for row in value["rows"]} == set(np.arange(5.0, 166.0, 5.0).tolist())


def test_figure_9_has_the_measured_gains_and_verdicts() -> None:
    drawn = build("join_fig9", runs=3, quick=True)
    numbers = {claim.claim.split(" (")[0]: claim for claim in drawn.claims}
    assert numbers["about +100 % at 500 tuples/s, settled"].number == pytest.approx(0.89, abs=0.25)
    assert numbers["about +50 % at 300 tuples/s, settled"].number == pytest.approx(0.58, abs=0.15)
    assert numbers["about +100 % over the whole phase at 500"].number == pytest.approx(0.41, abs=0.15)
    assert not numbers["over whole phases, too, 500 gains more than 300"].holds
    assert not numbers["back at 100 tuples/s rate adaptation is as good as random drop"].holds
    assert all(claim.holds for text, claim in numbers.items() if text.startswith("ours"))
    for row in drawn.rows:
        assert set(row.metrics) <= {"output_rate", "dropped_ratio"}


def test_figure_11_sheds_the_window_without_matches_first() -> None:
    drawn = build("join_fig11", runs=1)
    assert [claim.holds for claim in drawn.claims[:3]] == [True, True, False]
    for end in (75.0, 105.0):
        first, second = (drawn.at(end, "rate+time+direction", f"fraction_{i}").mean for i in (1, 2))
        assert first < 0.1 < second
    assert drawn.at(75.0, "rate+time+direction", "stream_rate").mean == 500.0
