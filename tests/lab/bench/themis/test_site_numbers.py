"""The sweep over a site's tuned numbers, in its smallest size."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.sites.tuning import CapacityTuning, SiteTuning
from headgate_lab.bench.themis import site_sizes
from headgate_lab.bench.themis.site_numbers import numbers, scaled, sweep, tuned, watch
from headgate_lab.sim.themis.site_kinds import KINDS
from headgate_lab.sim.themis.virtual_site import VirtualSite

SHORT = {"mixed": replace(KINDS["mixed"], seconds=40.0, warm_s=20.0)}


def test_every_number_can_be_changed_alone() -> None:
    found = numbers()
    assert found["capacity.late"] == CapacityTuning().late
    assert found["caught_up"] == SiteTuning().caught_up
    for name, value in found.items():
        changed = numbers(tuned(name, scaled(value, 2.0)))
        assert [other for other in found if changed[other] != found[other]] == [name]


@pytest.mark.parametrize(
    ("value", "factor", "expected"), [(0.5, 0.7, 0.35), (3, 0.1, 1), (0.8, 0.5, 0.9), (15.0, 2.0, 30.0)]
)
def test_what_half_and_twice_mean(value: float, factor: float, expected: float) -> None:
    assert scaled(value, factor) == pytest.approx(expected)
    assert type(scaled(value, factor)) is type(value)


def test_a_number_that_matters_is_not_flat_and_one_that_is_not_reached_has_no_effect() -> None:
    rows = {
        row["number"]: row for row in sweep(["capacity.most_trim", "capacity.aim"], SHORT, (0.3, 3.0), 1)
    }
    assert rows["capacity.most_trim"]["verdict"] == "no effect"
    aim = rows["capacity.aim"]
    assert aim["default"] == CapacityTuning().aim
    assert aim["verdict"] == "not flat"
    assert aim["least_x3"] < aim["least_x0.3"], "batches that are to be shorter have fewer rows"


def test_the_same_seed_runs_the_same_site() -> None:
    kind = replace(KINDS["stalls"], seconds=20.0, warm_s=5.0)
    assert watch(kind, seed=3) == watch(kind, seed=3)
    assert watch(kind, seed=3) != watch(kind, seed=4)


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_site_runs_and_counts_its_rows(name: str) -> None:
    kind = KINDS[name]
    site = VirtualSite(kind.streams(), kind.cores, **kind.settings)
    site.run(20.0)
    batches = [batch for stream in site.streams for batch in stream.history]
    assert all(0.0 <= kept <= arrived for _, arrived, kept in batches)
    arrived, kept = (sum(batch[i] for batch in batches) for i in (1, 2))
    assert 0.0 < kept <= arrived
    assert site.now == pytest.approx(20.0)


def test_what_known_sizes_change_is_counted_alike_and_counts_what_has_not_ended() -> None:
    kind = replace(KINDS["outages"], seconds=150.0)
    before, after = (site_sizes.watch(kind, 0, sizes_known=known) for known in (False, True))
    assert before.longest > 5.0 > 2.0 > after.longest
    assert 0.0 < after.least_sic < 1.0
    assert 0.0 < after.kept < 1.0
    assert 0.5 < after.in_time <= 1.0
