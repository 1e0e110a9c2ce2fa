"""The controller of a gate at a site: the public checks, as far as they fit, and what is its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from headgate.control import Controller
from headgate.core.load import Budget, LoadSample, SicFlow
from headgate.sites.allocator import SiteAllocator
from headgate.sites.controller import SiteShare, SiteShareController, _alike
from headgate.sites.settings import SiteSettings
from headgate.sites.shared import SharedSite
from headgate.testing import contracts


class Alone(SiteShareController):
    """A gate that has its site for itself, in a time that the samples drive."""

    def __init__(self, shedding: str, min_keep: float) -> None:
        self.now = 0.0
        self.allocator = SiteAllocator(SiteSettings("s", cores=2.0, hold_s=1.0, shedding=shedding))
        self.allocator.state.enter("g", query="q", source="s")
        config = SiteShare("g", SharedSite(self.allocator), min_keep, clock=lambda: self.now)
        super().__init__(config)

    def decide(self, sample: LoadSample) -> Any:
        self.now += 1.0
        self.allocator.decide(self.now)
        return super().decide(sample)


@dataclass(frozen=True)
class AloneConfig:
    shedding: str = "mirror"
    min_keep: float = 0.001

    def build(self, snapshot: Mapping[str, Any] | None = None) -> Controller:
        return Alone(self.shedding, self.min_keep)


#: What was learned is the site's to keep, so a controller's own snapshot has nothing in it.
CHECKS = [c for c in contracts.CONTROLLER_CHECKS if c is not contracts.snapshot_continues_exactly]


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("shedding", ["mirror", "balance-sic", "random"])
def test_the_public_checks(check: Any, shedding: str) -> None:
    check(AloneConfig(shedding))


def _overloaded(min_keep: float = 0.0) -> Alone:
    controller = Alone("mirror", min_keep)
    for batch in range(40):
        kept = round(controller.allocator.rate("g", controller.now) * 100_000)
        controller.decide(
            LoadSample(batch, float(batch), 0.5, 100_000, kept, stream="s", interval_s=1.0,
                       work_s=0.05 + 1e-4 * kept)
        )  # fmt: skip
    return controller


def test_it_says_why_and_what_a_row_is_worth() -> None:
    controller = _overloaded()
    budget = controller.revised()
    assert budget is not None
    assert budget.state == "shedding"
    assert 0.05 < budget.keep < 0.3
    assert budget.sic == pytest.approx(1e-6), "1 / (a million rows in ten seconds, one source)"
    assert "query q at SIC" in budget.why


def test_a_budget_is_revised_when_the_site_decides_otherwise_and_only_then() -> None:
    controller = _overloaded()
    first = controller.revised()
    assert controller.revised() is first, "the same one: nothing is published again"
    assert first is not None
    controller.allocator.state.gates["g"].rate *= 1.001
    assert controller.revised() is first, "nor for a thousandth"
    controller.allocator.state.gates["g"].rate *= 0.5
    again = controller.revised()
    assert again is not None
    assert again.keep == pytest.approx(0.5 * first.keep, rel=0.01)


def test_the_floor_holds() -> None:
    controller = _overloaded(min_keep=0.4)
    budget = controller.revised()
    assert budget is not None
    assert budget.keep == 0.4


def test_an_opening_has_what_the_site_knows() -> None:
    controller = Alone("mirror", 0.0)
    assert controller.opening(0.0).keep == 1.0
    assert controller.opening(0.0).sic is None, "nobody knows what a row is worth yet"
    assert _overloaded().opening(0.0).sic == pytest.approx(1e-6)


def test_a_gate_that_has_left_keeps_all() -> None:
    controller = _overloaded()
    controller.allocator.state.leave("g")
    assert controller.opening(0.0).keep == 1.0
    revised = controller.revised()
    assert revised is not None
    assert (revised.keep, revised.sic) == (1.0, None)
    sample = LoadSample(99, 99.0, 0.5, 10, 10, stream="s")
    assert controller.decide(sample).keep == 1.0
    assert controller.allocator.state.streams == {}


def test_derived_rows_bring_their_own_worth() -> None:
    allocator = SiteAllocator(SiteSettings("s", cores=2.0))
    allocator.state.enter("g", query="q", source=None)
    controller = SiteShare("g", SharedSite(allocator), clock=lambda: 1.0).build()
    sample = LoadSample(0, 0.0, 0.5, 10, 10, stream="s", sic=SicFlow(0.1, 0.1))
    assert controller.decide(sample).sic is None


def test_what_has_no_bound_is_unlike_what_has_one() -> None:
    assert not _alike(math.inf, 5.0, 0.02)
    assert _alike(math.inf, math.inf, 0.02)
    assert _alike(5.0, 5.05, 0.02)
    assert not _alike(None, 5.0, 0.02)


def test_it_answers_with_an_amount_that_grows_with_time_and_not_with_a_burst() -> None:
    controller = _overloaded()
    budget = controller.revised()
    assert budget is not None
    assert budget.fits is not None
    assert budget.fits.grant is not None
    usual, burst = (budget.at(rows, 1.0) for rows in (100_000, 1_000_000))
    assert usual.keep == pytest.approx(budget.keep, rel=0.3)
    assert burst.keep * 1_000_000 == pytest.approx(usual.keep * 100_000)
    assert burst.sic is not None
    assert usual.sic is not None
    assert 1 / burst.sic == pytest.approx(1.25e6), "agreed: a quarter more than it usually sends"
    assert 1 / usual.sic == pytest.approx(1e6)


def _beside_another(quiet_from: int, fixed_s: float) -> tuple[Budget, SiteAllocator]:
    """The last budget of a gate without rows since then, in a stream with another's; nothing is shed."""
    now = [0.0]
    allocator = SiteAllocator(SiteSettings("s", cores=2.0, hold_s=2.0))
    shared = SharedSite(allocator)
    gates: dict[str, SiteShareController] = {}
    for name in ("busy", "quiet"):
        allocator.state.enter(name, query=name, source=name)
        gates[name] = SiteShareController(SiteShare(name, shared, clock=lambda: now[0]))
    budget = Budget(1.0, "idle")
    for batch in range(40):
        now[0] += 2.0
        allocator.decide(now[0])
        busy = (1000, 4000)[batch % 2]
        quiet = busy if batch < quiet_from else 0
        work_s = fixed_s + 1e-4 * (busy + quiet)
        for name, rows in (("busy", busy), ("quiet", quiet)):
            budget = gates[name].decide(
                LoadSample(batch, now[0], 1.0, rows, rows, stream="both", interval_s=2.0, work_s=work_s)
            )
    return budget, allocator


def test_a_source_without_rows_so_far_beside_another_in_its_stream_is_not_shed() -> None:
    budget, _ = _beside_another(0, fixed_s=0.2)
    assert budget.keep == 1.0
    assert budget.fits is not None
    assert budget.fits.keep(2000, covers_s=2.0) == 1.0


@pytest.mark.parametrize("quiet_from", [0, 10])
def test_nor_in_a_stream_in_which_fewer_rows_would_not_help(quiet_from: int) -> None:
    """Nothing bounds the rows of such a stream, and no share of that is a number."""
    budget, allocator = _beside_another(quiet_from, fixed_s=3.3)
    assert math.isinf(allocator.state.streams["both"].most_rows(2.0))
    assert budget.fits is not None
    assert budget.fits.keep(2000, covers_s=2.0) > 0.0
