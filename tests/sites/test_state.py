"""A site's books: clocks that jump, hostile samples, queries and their sources, bad use."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.load import LoadSample, SicFlow
from headgate.errors import BadArgument
from headgate.sites.accounts import CoordinatorUpdate
from headgate.sites.allocator import SiteAllocator
from headgate.sites.settings import SiteSettings
from headgate_lab.sim.themis.virtual_site import Stream, VirtualSite, mixed


class TestClocks:
    def test_a_wall_clock_that_jumps_a_day_forth_and_back(self) -> None:
        site = VirtualSite([Stream("a", lambda t: 20_000), Stream("b", lambda t: 20_000)])
        site.run(60)
        before = site.kept_share(site.streams[0], since=30)
        for jump in (86_400.0, -86_400.0):
            site.wall_jump = jump
            begun = site.now
            site.run(40)
            assert site.kept_share(site.streams[0], since=begun) == pytest.approx(before, rel=0.1)
            assert site.inside(site.streams[0], since=begun) > 0.9

    def test_a_clock_that_stands_still_decides_nothing_twice(self) -> None:
        site = VirtualSite(mixed())
        site.run(60.5)
        before = {name: gate.rate for name, gate in site.allocator.state.gates.items()}
        for _ in range(50):
            site.allocator.decide(site.now)
        assert {name: gate.rate for name, gate in site.allocator.state.gates.items()} == before

    @pytest.mark.parametrize("every", [0.3, 1.4, 3.0])
    def test_ticks_that_come_early_or_late_change_little(self, every: float) -> None:
        def level(every: float) -> float:
            site = VirtualSite(mixed())
            decide, last = site.allocator.decide, 0.0

            def seldom(now: float) -> None:
                nonlocal last
                if now - last >= every - 1e-6:
                    last = now
                    decide(now)

            site.allocator.decide = seldom  # type: ignore[assignment, method-assign]
            site.run(180)
            return sum(site.mean_sic(since=60).values()) / 3

        assert level(every) == pytest.approx(level(1.0), rel=0.2)

    def test_a_suspended_machine_catches_up_in_bounded_time(self) -> None:
        site = VirtualSite(mixed())
        site.run(30)
        site.now += 1e7
        site.allocator.decide(site.now)
        site.run(60)
        assert site.kept_share(site.streams[0], since=site.now - 30) > 0.05


def _allocator(**given_: object) -> SiteAllocator:
    values = {"cores": 2.0} | given_
    allocator = SiteAllocator(SiteSettings("s", **values))  # type: ignore[arg-type]
    allocator.state.enter("g", query="q", source="s")
    return allocator


def _sample(batch: int, **changed: object) -> LoadSample:
    values: dict[str, object] = {
        "started_at": float(batch), "duration_s": 0.5, "arrived": 1000, "kept": 1000, "stream": "one",
        "work_s": 0.2, "interval_s": 1.0, "sic": SicFlow(kept=0.1),
    }  # fmt: skip
    return LoadSample(batch, **(values | changed))  # type: ignore[arg-type]


_ODD = st.sampled_from([math.nan, math.inf, -math.inf, -1.0, 0.0, 1e-300, 1e300, 0.5, 1000.0])


@pytest.mark.slow
class TestHostileSamples:
    @given(
        st.lists(
            st.builds(
                _sample,
                st.integers(-1, 5),
                started_at=_ODD.filter(lambda at: at != 1e-300),
                duration_s=_ODD,
                arrived=_ODD,
                kept=_ODD,
                work_s=st.none() | _ODD,
                interval_s=st.none() | _ODD.filter(lambda every: every != 1000.0),
                sic=st.builds(SicFlow, _ODD, _ODD),
            ),
            max_size=20,
        )
    )
    @settings(max_examples=150, deadline=None)
    def test_rates_stay_rates_and_it_recovers(self, samples: list[LoadSample]) -> None:
        allocator = _allocator()
        allocator.state.enter("d", query="q", source=None)
        now = 0.0
        for number, sample in enumerate(samples):
            now += 0.5
            allocator.on_batch("gd"[number % 2], sample, now)
            allocator.decide(now)
            for gate in "gd":
                assert 0.0 <= allocator.rate(gate, now) <= 1.0
            assert 0.0 <= allocator.state.gates["g"].sic < math.inf
            view = allocator.state.view("q", now)
            assert 0.0 <= view.accepted < math.inf
        for batch in range(100, 160):
            now += 1.0
            allocator.on_batch("g", _sample(batch, started_at=1e6 + batch), now)
            allocator.on_batch("d", _sample(batch, started_at=1e6 + batch, sic=SicFlow(0.1)), now)
            allocator.decide(now)
        assert allocator.state.gates["g"].sic == pytest.approx(1e-4, rel=0.01)
        assert allocator.rate("g", now) == 1.0

    def test_a_gate_that_nobody_knows_is_passed_over(self) -> None:
        allocator = _allocator()
        allocator.on_batch("nobody", _sample(0), 1.0)
        allocator.state.results("nobody", _sample(0), 1.0)
        assert allocator.state.streams == {}
        assert allocator.state.queries == ("q",)

    def test_empty_batches_shed_nothing_and_do_not_divide_by_zero(self) -> None:
        allocator = _allocator()
        for batch in range(30):
            allocator.on_batch(
                "g", _sample(batch, arrived=0, kept=0, sic=SicFlow(kept=0.0)), float(batch)
            )
            allocator.decide(float(batch))
        assert allocator.rate("g", 30.0) == 1.0
        assert allocator.state.gates["g"].sic == 0.0
        assert allocator.state.accepted("q", 30.0) == 0.0

    def test_a_first_batch_says_what_a_row_is_worth_before_the_next_tick(self) -> None:
        allocator = _allocator()
        allocator.on_batch("g", _sample(0, interval_s=2.0), 1.0)
        assert allocator.state.gates["g"].sic == pytest.approx(1 / 5000), (
            "1000 in 2 s are 5000 in a window"
        )


class TestQueries:
    def test_the_value_of_a_row_counts_the_sources_of_the_whole_query(self) -> None:
        allocator = _allocator()
        allocator.state.declare("q", of=("s", "t", "elsewhere"))
        allocator.on_batch("g", _sample(0), 1.0)
        assert allocator.state.gates["g"].sic == pytest.approx(1 / (10_000 * 3))
        allocator.state.apply_updates({"q": CoordinatorUpdate(None, 5, 1.0)})
        allocator.on_batch("g", _sample(1), 2.0)
        assert allocator.state.gates["g"].sic == pytest.approx(1 / (10_000 * 5))
        assert allocator.state.view("q", 2.0).share == pytest.approx(0.2)

    def test_who_says_how_a_query_fares(self) -> None:
        allocator = _allocator(stale_s=10.0)
        allocator.state.will_measure("q")
        for batch in range(12):
            allocator.on_batch("g", _sample(batch, sic=SicFlow(kept=0.03)), float(batch))
        assert allocator.state.view("q", 11.0).told_by == "site"
        assert allocator.state.view("q", 11.0).sic == pytest.approx(0.3)
        for batch in range(12):
            allocator.state.results("q", _sample(batch, sic=SicFlow(0.02)), 11.0)
        assert allocator.state.view("q", 11.0).told_by == "result"
        assert allocator.state.view("q", 11.0).sic == pytest.approx(0.2)
        allocator.state.apply_updates(
            {"q": CoordinatorUpdate(0.7, 2, 11.0), "other": CoordinatorUpdate(0.1, 1, 11.0)}
        )
        assert (allocator.state.view("q", 12.0).told_by, allocator.state.view("q", 12.0).sic) == (
            "coordinator",
            0.7,
        )
        assert allocator.state.view("q", 22.0).told_by == "result", "its word is stale"
        assert "other" not in allocator.state.queries

    @pytest.mark.parametrize("sic", [math.nan, -0.1, math.inf])
    def test_a_coordinator_that_says_what_is_no_sic_is_not_believed(self, sic: float) -> None:
        allocator = _allocator()
        allocator.state.apply_updates({"q": CoordinatorUpdate(sic, 1, 0.0)})
        assert allocator.state.view("q", 0.0).told_by == "site"

    def test_a_query_that_others_serve_well_gets_less_here(self) -> None:
        """Half of `far` is elsewhere, and its coordinator says that it fares well."""

        def kept(told: float) -> float:
            site = VirtualSite([Stream(q, lambda t: 20_000) for q in ("far", "near", "nearer")])
            decide = site.allocator.decide

            def heard(now: float) -> None:
                site.allocator.state.apply_updates({"far": CoordinatorUpdate(told, 2, now)})
                decide(now)

            site.allocator.decide = heard  # type: ignore[assignment, method-assign]
            site.run(60)
            return site.kept_share(site.streams[0], since=30)

        assert kept(0.9) < 0.05
        assert kept(0.05) > 0.4

    def test_a_query_that_has_ended_is_forgotten(self) -> None:
        allocator = _allocator()
        allocator.state.enter("h", query="q", source="t")
        allocator.state.will_measure("r")
        allocator.on_batch("g", _sample(0), 1.0)
        allocator.state.leave("g")
        assert allocator.state.queries == ("q", "r")
        allocator.state.end("q")
        allocator.state.end("r")
        allocator.state.end("never was")
        assert not allocator.state.queries
        assert not allocator.state.gates
        assert not allocator.state.streams
        allocator.state.results("r", _sample(1), 2.0)
        assert not allocator.state.queries, "a late report does not bring it back"

    def test_a_gate_that_changes_its_query_leaves_the_old_one(self) -> None:
        allocator = _allocator()
        allocator.state.enter("g", query="other", source="s")
        assert allocator.state.queries == ("other",)

    def test_a_gate_that_enters_again_goes_on(self) -> None:
        allocator = _allocator()
        for batch in range(100):
            allocator.on_batch("g", _sample(batch), float(batch))
        usual = allocator.state.gates["g"].agreed.usual
        allocator.state.enter("g", query="q", source="s", hold_s=7.0)
        assert allocator.state.gates["g"].agreed.usual == usual, (
            "a restart is no way to become a new source"
        )
        assert allocator.state.gates["g"].hold_s == 7.0
        assert allocator.state.gates["g"].batches == 100

    def test_a_stream_with_a_new_checkpoint_replaces_the_old_one(self) -> None:
        allocator = _allocator()
        for batch in range(5):
            allocator.on_batch("g", _sample(batch), float(batch))
        for batch in range(60):
            allocator.on_batch("g", _sample(batch, stream="two", started_at=5.0 + batch), 5.0 + batch)
            allocator.decide(5.0 + batch)
        assert set(allocator.state.streams) == {"two"}
        assert not allocator.state.gates["g"].runs_in.two

    def test_a_gate_in_two_streams_counts_its_rows_once_and_says_so(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        alone, allocator = _allocator(), _allocator()
        for batch in range(40):
            alone.on_batch("g", _sample(batch), float(batch))
            allocator.on_batch("g", _sample(batch), float(batch))
            allocator.on_batch("g", _sample(batch, stream="two"), float(batch))
            allocator.decide(float(batch))
        assert allocator.state.gates["g"].offered.per_window(40.0) == pytest.approx(
            alone.state.gates["g"].offered.per_window(40.0), rel=0.1
        )
        assert len(allocator.state.streams) == 2, "both take time"
        said = [r.message for r in caplog.records if "two streams at once" in r.message]
        assert said == [
            "gate 'g' is in two streams at once, and only the rows of one count: give each stream a "
            "gate and a query of its own, or write to both sinks in one foreachBatch"
        ]

    def test_a_stream_that_comes_back_counts_again(self, caplog: pytest.LogCaptureFixture) -> None:
        """A notebook: one checkpoint, another, and the first again."""
        allocator = _allocator()
        for turn, stream in enumerate(("one", "two", "one")):
            for batch in range(30):
                now = 30.0 * turn + batch
                of = _sample(30 * turn + batch, stream=stream, started_at=now)
                allocator.on_batch("g", of, now)
                allocator.decide(now)
        assert allocator.state.gates["g"].stream == "one"
        assert allocator.state.gates["g"].offered.per_second(90.0) == pytest.approx(1000.0, rel=0.05)
        assert not caplog.records

    def test_a_batch_that_runs_again_is_counted_once(self) -> None:
        once, twice = _allocator(), _allocator()
        for batch in range(20):
            for _ in range(2):
                twice.on_batch("g", _sample(batch), float(batch))
            once.on_batch("g", _sample(batch), float(batch))
        assert twice.state.accepted("q", 20.0) == once.state.accepted("q", 20.0)
        twice.state.declare("q", of=("s", "t", "u"))
        twice.on_batch("g", _sample(19), 20.0)
        assert twice.state.gates["g"].sic == pytest.approx(once.state.gates["g"].sic / 3, rel=0.05), (
            "what is new counts"
        )

    def test_windows_that_are_still_open_are_no_sic_of_nothing(self) -> None:
        """Results come out after 8 batches without any, and then for all the time that they took."""
        allocator = _allocator()
        allocator.state.will_measure("q")
        for batch in range(8):
            allocator.on_batch("g", _sample(batch), float(batch))
            allocator.state.results(
                "q", _sample(batch, arrived=0, kept=0, sic=SicFlow(0.0)), float(batch)
            )
            assert allocator.state.result_sic("q", float(batch)) is None
        allocator.state.results("q", _sample(8, sic=SicFlow(0.8)), 8.0)
        assert allocator.state.result_sic("q", 8.0) == pytest.approx(0.8 * 10 / 9)

    def test_results_in_two_streams_count_once(self, caplog: pytest.LogCaptureFixture) -> None:
        allocator = _allocator()
        allocator.state.will_measure("q")
        for batch in range(40):
            allocator.on_batch("g", _sample(batch), float(batch))
            for stream in ("one", "two"):
                allocator.state.results(
                    "q", _sample(batch, stream=stream, sic=SicFlow(0.05)), float(batch)
                )
        assert allocator.state.result_sic("q", 40.0) == pytest.approx(0.5, rel=0.1), "of ten batches"
        assert sum("the result of query 'q' is in two streams" in r.message for r in caplog.records) == 1


class TestBadUse:
    def test_one_source_twice(self) -> None:
        with pytest.raises(BadArgument, match="already comes through gate 'g'"):
            _allocator().state.enter("h", query="q", source="s")

    def test_an_unknown_source(self) -> None:
        allocator = _allocator()
        allocator.state.declare("q", of=("s", "t"))
        with pytest.raises(BadArgument, match="source 'u' is not one of"):
            allocator.state.enter("h", query="q", source="u")
        assert set(allocator.state.gates) == {"g"}
        with pytest.raises(BadArgument, match="declare them once"):
            allocator.state.declare("q", of=("s", "x"))

    @pytest.mark.parametrize("weight", [0.0, -1.0, math.nan, math.inf])
    def test_a_weight_that_is_none(self, weight: float) -> None:
        with pytest.raises(BadArgument, match="weight"):
            _allocator().state.declare("q", weight=weight)

    @pytest.mark.parametrize(
        "changed",
        [
            {"cores": 0.0}, {"cores": math.nan}, {"stw_s": -1.0}, {"stw_s": math.inf},
            {"hold_s": 0.0}, {"headroom": 0.0}, {"headroom": 1.5}, {"headroom": "all"},
            {"interval_s": 20.0}, {"delay_s": -1.0}, {"shedding": "best"}, {"stale_s": 0.0},
        ],
        ids=str,
    )  # fmt: skip
    def test_settings_that_cannot_be(self, changed: dict[str, object]) -> None:
        with pytest.raises(BadArgument):
            SiteSettings("s", **({"cores": 2.0} | changed))  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        "value",
        [
            {}, {"trim": 1.0}, {"usual": {}}, {"usual": {}, "trim": 1.0},
            {"usual": [1], "trim": 1, "prices": {}}, {"usual": {}, "trim": math.nan, "prices": {}},
            {"usual": {}, "trim": 1.0, "prices": {"s": {"per_row": 1.0}}},
        ],
        ids=str,
    )  # fmt: skip
    def test_a_snapshot_that_is_none_changes_nothing(self, value: dict[str, object]) -> None:
        allocator = _allocator()
        with pytest.raises((KeyError, TypeError, ValueError)):
            allocator.restore(value)
        assert allocator.trim == 0.8
