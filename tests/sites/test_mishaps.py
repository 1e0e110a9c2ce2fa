"""What goes wrong with one query, stream or report, and must not reach the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from headgate.core.load import LoadSample
from headgate.errors import BadArgument
from headgate.sites.allocator import SiteAllocator
from headgate.sites.service.exchange import Exchange
from headgate.sites.settings import SiteSettings
from headgate.sites.shared import SharedSite
from headgate.sites.shedders import Entitled, Offer, shedder
from headgate.sites.wire.protocol import QueryReport, QueryUpdate, Reply
from headgate_lab.sim.themis.virtual_site import Stream, VirtualSite


def _allocator() -> SiteAllocator:
    allocator = SiteAllocator(SiteSettings(name="s", cores=2.0))
    allocator.state.enter("g", query="q", source="a")
    allocator.state.enter("h", query="other", source="b")
    return allocator


class _Coordinator:
    def __init__(self) -> None:
        self.heard: list[Mapping[str, QueryReport]] = []
        self.weight = 1.0

    def exchange(self, queries: Mapping[str, QueryReport]) -> Reply:
        self.heard.append(queries)
        return Reply({q: QueryUpdate(None, None, 1, self.weight, 0) for q in queries}, {})

    def leave(self, queries: Iterable[str] | None = None) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    "given", [{"of": ("z",)}, {"weight": 2e6}, {"weight": float("nan")}, {"priority": 10**7}]
)
def test_what_a_query_is_refused_leaves_nothing_behind(given: dict[str, object]) -> None:
    allocator, coordinator = _allocator(), _Coordinator()
    exchange = Exchange(SharedSite(allocator), coordinator, 1.0, clock=lambda: 1.0)
    with pytest.raises(BadArgument):
        allocator.state.declare("q", **given)  # type: ignore[arg-type]
    exchange.once()
    assert set(coordinator.heard[-1]) == {"q", "other"}
    allocator.state.declare("q", of=("a", "b"), weight=2.0)
    assert allocator.state.declared("q") == ("a", "b")


def test_a_gate_that_goes_leaves_what_was_declared() -> None:
    allocator = _allocator()
    allocator.state.declare("q", weight=2.0, of=("a", "c"))
    allocator.state.will_measure("q")
    allocator.state.enter("g", query="q", source="c")
    assert (allocator.state.weight("q"), allocator.state.declared("q")) == (2.0, ("a", "c"))
    assert allocator.state.measures_results("q")
    allocator.state.withdraw("g")
    assert allocator.state.weight("q") == 2.0


def test_a_weight_set_during_an_exchange_is_not_put_back() -> None:
    allocator = _allocator()

    class Slow(_Coordinator):
        def exchange(self, queries: Mapping[str, QueryReport]) -> Reply:
            allocator.state.declare("q", weight=3.0)
            return super().exchange(queries)

    Exchange(SharedSite(allocator), Slow(), 1.0, clock=lambda: 1.0).once()
    assert allocator.state.weight("q") == 3.0
    elsewhere = _Coordinator()
    elsewhere.weight = 5.0
    Exchange(SharedSite(allocator), elsewhere, 1.0, clock=lambda: 1.0).once()
    assert allocator.state.weight("q") == 5.0


def test_derived_rows_worth_nothing_are_not_shed_before_sources() -> None:
    allocator = SiteAllocator(SiteSettings(name="s", cores=2.0, rows_per_s=100.0))
    allocator.state.enter("own", query="q", source="a")
    allocator.state.enter("came", query="q", source=None)
    for batch in range(4):
        for gate, rows in (("own", 1000), ("came", 10)):
            sample = LoadSample(
                batch, float(batch), 0.5, rows, rows, stream="one", work_s=0.5, interval_s=1.0
            )
            allocator.on_batch(gate, sample, float(batch))
    allocator.decide(4.0)
    assert allocator.rate("came", 4.0) == 1.0
    assert allocator.rate("own", 4.0) < 0.2


def test_tuples_that_cost_next_to_nothing_do_not_hold_up_a_decision() -> None:
    kind = shedder("mirror", SiteSettings(name="s", cores=1.0).mirror(), 0)
    kind.queries({"a": Entitled(1.0), "b": Entitled(1.0)})
    offers = [
        Offer("a", False, 50_000.0, 1e-5, 1e-13),
        Offer("b", False, 50_000.0, 1e-5, 1e-3),
    ]
    kept = kind.keep(offers, 1.0, {})
    assert all(0.0 <= share <= 1.0 for share in kept)


def test_eight_streams_that_are_late_together_do_not_starve_each_other() -> None:
    streams = [Stream(f"q{i}", lambda t: 1000.0 if t < 60 else 3000.0, per_row_s=2e-4) for i in range(8)]
    site = VirtualSite(streams)
    site.run(150)
    assert site.allocator.trim > 0.2


def test_a_stream_whose_fixed_price_is_longer_than_its_target_keeps_rows() -> None:
    site = VirtualSite([Stream("q", lambda t: 100.0 + 50 * (t % 7), trigger_s=6.0, fixed_task_s=4.5)])
    site.run(120)
    (stream,) = site.streams
    assert site.kept_share(stream, since=60) > 0.5
