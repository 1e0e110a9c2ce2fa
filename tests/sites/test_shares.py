"""A site's account and its decision: streams on shared cores in virtual time, and hostile samples."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import BadArgument
from headgate.load import LoadSample
from headgate.sites.shares import SiteSettings, SiteShares, Told
from tests.sites.virtual_site import Stream, VirtualSite


def _mixed() -> list[Stream]:
    """Together four times what two cores can do; triggers, targets and prices differ."""
    return [
        Stream("a", lambda t: 20_000, trigger_s=1.0, per_row_s=1e-4),
        Stream("b", lambda t: 5000, trigger_s=2.0, per_row_s=4e-4, hold_s=2.0),
        Stream("c", lambda t: 10_000, trigger_s=0.5, per_row_s=2e-4, hold_s=0.8),
    ]


def _jain(values: list[float]) -> float:
    return sum(values) ** 2 / (len(values) * sum(v * v for v in values))


class TestInOverload:
    def test_streams_of_all_kinds_have_the_same_sic_and_keep_their_targets(self) -> None:
        site = VirtualSite(_mixed())
        site.run(180)
        sics = site.mean_sic(since=60)
        assert max(sics.values()) / min(sics.values()) < 1.12
        assert 0.15 < min(sics.values()) < 0.28
        assert all(site.inside(stream, since=60) >= 0.85 for stream in site.streams)
        assert all(max(d for at, d in s.durations if at > 60) < 2.6 for s in site.streams)

    def test_a_long_trigger_gets_as_much_as_short_ones(self) -> None:
        site = VirtualSite(
            [
                Stream("slow", lambda t: 8000, trigger_s=5.0, hold_s=4.0),
                Stream("dear", lambda t: 3000, trigger_s=2.0, hold_s=2.0, per_row_s=4e-4),
                Stream("fast", lambda t: 10_000),
                Stream("small", lambda t: 2000),
            ]
        )
        site.run(240)
        sics = site.mean_sic(since=60)
        assert max(sics.values()) / min(sics.values()) < 1.15

    @pytest.mark.parametrize(("shedding", "fair"), [("balance-sic", 0.85), ("random", 0.98)])
    def test_the_published_shedders_run_on_the_same_path(self, shedding: str, fair: float) -> None:
        site = VirtualSite(_mixed(), shedding=shedding)
        site.run(180)
        kept = [site.kept_share(stream, since=60) for stream in site.streams]
        assert all(0.05 < share < 0.5 for share in kept)
        assert _jain(kept) > fair
        assert math.isnan(site.shares.level)

    def test_weights(self) -> None:
        site = VirtualSite([Stream("a", lambda t: 20_000), Stream("b", lambda t: 20_000, weight=2.0)])
        site.run(120)
        sics = site.mean_sic(since=60)
        assert sics["b"] / sics["a"] == pytest.approx(2.0, rel=0.05)

    def test_a_higher_priority_is_served_whole_first(self) -> None:
        site = VirtualSite([Stream("a", lambda t: 20_000), Stream("b", lambda t: 8000, priority=1)])
        site.run(120)
        first, second = site.streams[1], site.streams[0]
        assert site.kept_share(first, since=60) > 0.98
        assert 0.05 < site.kept_share(second, since=60) < 0.4

    def test_a_weight_may_change_while_it_runs(self) -> None:
        site = VirtualSite([Stream("a", lambda t: 20_000), Stream("b", lambda t: 20_000)])
        site.run(60)
        site.shares.declare("a", weight=3.0)
        site.run(60)
        sics = site.mean_sic(since=90)
        assert sics["a"] / sics["b"] == pytest.approx(3.0, rel=0.1)

    def test_a_batch_follows_a_long_one_with_fewer_rows_at_once(self) -> None:
        """Ten times more than fits from the first row: the backlog is gone after a few batches."""
        site = VirtualSite([Stream("a", lambda t: 200_000, hold_s=1.0)], cores=2.0)
        site.run(90)
        (stream,) = site.streams
        assert max(d for at, d in stream.durations if at > 45) <= 1.3
        assert site.kept_share(stream, since=45) == pytest.approx(0.07, abs=0.03)


class TestIdle:
    def test_nothing_is_shed(self) -> None:
        streams = [
            Stream("a", lambda t: 2000),
            Stream("b", lambda t: 3000, trigger_s=2.0, hold_s=2.0),
            Stream("c", lambda t: 40.0, trigger_s=0.5),
        ]
        site = VirtualSite(streams)
        site.run(60)
        assert all(site.kept_share(stream, since=0) == 1.0 for stream in streams)
        assert site.shares.level == math.inf
        assert not site.shares.overloaded
        assert site.shares.trim == 1.0
        sics = site.mean_sic(since=20)
        assert all(sic == pytest.approx(1.0, abs=0.01) for sic in sics.values())

    def test_after_an_overload_all_is_kept_again(self) -> None:
        site = VirtualSite([Stream("a", lambda t: 40_000 if t < 60 else 3000)])
        site.run(60)
        assert site.kept_share(site.streams[0], since=30) < 0.6
        site.run(60)
        assert site.kept_share(site.streams[0], since=80) == 1.0


class TestNeighbours:
    @staticmethod
    def _noisy(agreed: float | None) -> tuple[float, float, VirtualSite]:
        """Kept share of the others before and while one sends ten times as much."""
        noisy = Stream("noisy", lambda t: 5000 if t < 100 else 50_000, agreed=agreed)
        others = [Stream(f"q{i}", lambda t: 5000) for i in range(3)]
        site = VirtualSite([noisy, *others])
        site.run(160)
        before = site.kept_share(others[0], since=60, until=100)
        return before, site.kept_share(others[0], since=110), site

    def test_ten_times_the_rate_earns_a_source_little_more(self) -> None:
        before, during, site = self._noisy(None)
        assert during > 0.88 * before
        assert all(site.inside(stream, since=120) > 0.9 for stream in site.streams)

    def test_a_given_agreement_holds_too(self) -> None:
        before, during, _ = self._noisy(5000.0)
        assert during > 0.88 * before

    def test_as_published_the_others_pay(self) -> None:
        before, during, _ = self._noisy(math.inf)
        assert during < 0.5 * before

    def test_one_that_is_slow_by_itself_does_not_starve_the_others(self) -> None:
        own = Stream("own", lambda t: 50_000, hold_s=0.5, trigger_s=0.5, parallel=1.0)
        others = [
            Stream("x", lambda t: 9000, trigger_s=1.1),
            Stream("y", lambda t: 500, trigger_s=1.1),
        ]
        site = VirtualSite([own, *others], cores=4.0)
        site.run(180)
        assert all(site.kept_share(stream, since=60) > 0.95 for stream in others)
        assert site.inside(own, since=60) > 0.9
        assert site.kept_share(own, since=60) > 0.04

    def test_one_whose_batches_are_late_without_any_rows_does_not_take_the_others_share(self) -> None:
        hopeless = Stream("hopeless", lambda t: 100, fixed_wall_s=3.0)
        site = VirtualSite([hopeless, Stream("a", lambda t: 12_000)])
        site.run(120)
        assert site.kept_share(site.streams[1], since=60) > 0.9

    def test_where_fixed_prices_are_more_than_there_is_rows_still_get_a_share(self) -> None:
        streams = [Stream(f"q{i}", lambda t: 3000, fixed_task_s=0.9) for i in range(4)]
        site = VirtualSite(streams)
        site.run(180)
        assert site.shares.capacity(site.now) >= 0.25 * 2.0 * 0.85 * site.shares.trim
        kept = [site.kept_share(stream, since=60) for stream in streams]
        assert min(kept) > 0.2, "and not a hundredth now and then"


class TestComingAndGoing:
    def test_who_goes_leaves_its_share_to_the_others_and_who_comes_gets_one(self) -> None:
        stays = Stream("stays", lambda t: 20_000)
        site = VirtualSite([stays, Stream("goes", lambda t: 20_000 if t < 60 else 0)])
        site.run(60)
        both = site.kept_share(stays, since=30)
        site.run(60)
        alone = site.kept_share(stays, since=100)
        assert alone > 1.6 * both
        assert "goes" not in site.shares.views(site.now)
        comes = site.join(Stream("comes", lambda t: 20_000))
        site.run(60)
        sics = site.mean_sic(since=150)
        assert sics["comes"] == pytest.approx(sics["stays"], rel=0.06)
        assert comes.durations[0][1] < 2.0

    def test_who_comes_while_others_shed_begins_at_their_level(self) -> None:
        site = VirtualSite([Stream(q, lambda t: 20_000) for q in "ab"])
        site.run(60)
        level = site.shares.level
        comes = site.join(Stream("c", lambda t: 20_000))
        assert comes.keep == pytest.approx(level, rel=0.01)
        heavy = site.join(Stream("d", lambda t: 20_000, weight=2.0))
        assert heavy.keep == pytest.approx(2.0 * level, rel=0.01)
        asked = site.join(Stream("e", lambda t: 0, start=0.9))
        assert asked.keep == 0.9
        sent = site.join(Stream("f", lambda t: 0, brings=1e-4))
        assert sent.keep == 1.0, "derived rows"

    def test_who_comes_while_nobody_sheds_keeps_all(self) -> None:
        site = VirtualSite([Stream("a", lambda t: 1000)])
        site.run(10)
        assert site.join(Stream("b", lambda t: 1000)).keep == 1.0

    def test_a_quiet_stream_does_not_come_back_to_a_rate_of_long_ago(self) -> None:
        rests = Stream("rests", lambda t: 20_000 if t < 60 or t > 200 else 0)
        busy = Stream("busy", lambda t: 20_000 if t < 60 else 500)
        site = VirtualSite([rests, busy])
        site.run(60)
        assert rests.keep < 0.5
        site.run(139)
        assert rests.keep == 1.0

    def test_a_long_batch_is_not_taken_for_silence(self) -> None:
        """A commit of 60 seconds: what waits behind it does not come in whole."""
        slow = Stream("slow", lambda t: 20_000)
        site = VirtualSite([slow, Stream("other", lambda t: 20_000)])
        site.run(30)
        slow.fixed_wall_s = 60.0
        site.run(5)
        slow.fixed_wall_s = 0.2
        site.run(20)
        assert slow.keep < 0.1, "while it runs: half a million rows wait"
        site.run(15)
        assert slow.keep < 0.1
        site.run(115)
        after = next(i for i, (_, d) in enumerate(slow.durations) if d > 60.0) + 1
        assert slow.durations[after][1] < 3.0, "1.2 million rows waited"
        assert site.inside(slow, since=120) > 0.9

    def test_what_was_learned_outlasts_a_restart(self) -> None:
        site = VirtualSite([Stream("noisy", lambda t: 5000, gate="n"), *_mixed()])
        site.run(120)
        learned = json.loads(json.dumps(site.shares.snapshot()))
        again = VirtualSite([])
        again.shares.remember(learned)
        assert again.shares.trim == pytest.approx(site.shares.trim)
        again.join(Stream("noisy", lambda t: 50_000, gate="n"))
        again.run(30)
        assert again.shares.gates["n"].agreed.limit < 1.1 * 1.25 * 50_000, "5000 a second, ten seconds"


class TestDerivedRows:
    def test_they_are_kept_before_any_source(self) -> None:
        site = VirtualSite(
            [Stream("a", lambda t: 40_000), Stream("b", lambda t: 2000, brings=1e-5)], hold_s=1.0
        )
        site.run(90)
        source, derived = site.streams
        assert site.kept_share(derived, since=10) > 0.999
        assert site.kept_share(source, since=30) < 0.6

    def test_they_are_shed_when_they_alone_are_too_many(self) -> None:
        site = VirtualSite(
            [Stream("a", lambda t: 5000), Stream("b", lambda t: 60_000, brings=1e-6)], hold_s=1.0
        )
        site.run(180)
        source, derived = site.streams
        assert site.kept_share(derived, since=60) == pytest.approx(0.22, abs=0.04)
        assert site.kept_share(source, since=60) < 0.4, "what the derived ones cannot use in their time"
        assert site.inside(derived, since=60) > 0.8

    def test_in_one_stream_the_source_gets_what_they_leave(self) -> None:
        shares = SiteShares(SiteSettings("s", cores=2.0, hold_s=1.0))
        shares.enter("source", query="q", source="s")
        shares.enter("derived", query="q", source=None)
        now = 0.0
        for batch in range(30):
            now += 1.0
            rates = {name: shares.rate(name, now) for name in shares.gates}
            kept = {"source": round(100_000 * rates["source"]), "derived": 5000}
            if batch > 3:
                assert rates["derived"] > 0.999
            work = 0.05 + 1e-4 * sum(kept.values())
            for name, arrived in (("source", 100_000), ("derived", 5000)):
                shares.hear(
                    name,
                    LoadSample(batch, now, work / 2, arrived, kept[name], stream="one", work_s=work,
                               interval_s=1.0, sic_arrived=5e-3 if name == "derived" else 0.0),
                    now,
                )  # fmt: skip
            shares.decide(now)
        assert 0.02 < shares.rate("source", now) < 0.2


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
        site = VirtualSite(_mixed())
        site.run(60.5)
        before = {name: gate.rate for name, gate in site.shares.gates.items()}
        for _ in range(50):
            site.shares.decide(site.now)
        assert {name: gate.rate for name, gate in site.shares.gates.items()} == before

    @pytest.mark.parametrize("every", [0.3, 1.4, 3.0])
    def test_ticks_that_come_early_or_late_change_little(self, every: float) -> None:
        def level(every: float) -> float:
            site = VirtualSite(_mixed())
            decide, last = site.shares.decide, 0.0

            def seldom(now: float) -> None:
                nonlocal last
                if now - last >= every - 1e-6:
                    last = now
                    decide(now)

            site.shares.decide = seldom  # type: ignore[assignment, method-assign]
            site.run(120)
            return sum(site.mean_sic(since=60).values()) / 3

        assert level(every) == pytest.approx(level(1.0), rel=0.2)

    def test_a_suspended_machine_catches_up_in_bounded_time(self) -> None:
        site = VirtualSite(_mixed())
        site.run(30)
        site.now += 1e7
        site.shares.decide(site.now)
        site.run(60)
        assert site.kept_share(site.streams[0], since=site.now - 30) > 0.05


def _shares(**given_: object) -> SiteShares:
    values = {"cores": 2.0} | given_
    shares = SiteShares(SiteSettings("s", **values))  # type: ignore[arg-type]
    shares.enter("g", query="q", source="s")
    return shares


def _sample(batch: int, **changed: object) -> LoadSample:
    values: dict[str, object] = {
        "started_at": float(batch), "duration_s": 0.5, "arrived": 1000, "kept": 1000, "stream": "one",
        "work_s": 0.2, "interval_s": 1.0, "sic_kept": 0.1,
    }  # fmt: skip
    return LoadSample(batch, **(values | changed))  # type: ignore[arg-type]


_ODD = st.sampled_from([math.nan, math.inf, -math.inf, -1.0, 0.0, 1e-300, 1e300, 0.5, 1000.0])


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
                sic_kept=_ODD,
                sic_arrived=_ODD,
            ),
            max_size=20,
        )
    )
    @settings(max_examples=150, deadline=None)
    def test_rates_stay_rates_and_it_recovers(self, samples: list[LoadSample]) -> None:
        shares = _shares()
        shares.enter("d", query="q", source=None)
        now = 0.0
        for number, sample in enumerate(samples):
            now += 0.5
            shares.hear("gd"[number % 2], sample, now)
            shares.decide(now)
            for gate in "gd":
                assert 0.0 <= shares.rate(gate, now) <= 1.0
            assert 0.0 <= shares.gates["g"].sic < math.inf
            view = shares.view("q", now)
            assert 0.0 <= view.accepted < math.inf
        for batch in range(100, 160):
            now += 1.0
            shares.hear("g", _sample(batch, started_at=1e6 + batch), now)
            shares.hear("d", _sample(batch, started_at=1e6 + batch, sic_arrived=0.1), now)
            shares.decide(now)
        assert shares.gates["g"].sic == pytest.approx(1e-4, rel=0.01)
        assert shares.rate("g", now) == 1.0

    def test_a_gate_that_nobody_knows_is_passed_over(self) -> None:
        shares = _shares()
        shares.hear("nobody", _sample(0), 1.0)
        shares.results("nobody", _sample(0), 1.0)
        assert shares.streams == {}
        assert shares.queries == ("q",)

    def test_empty_batches_shed_nothing_and_do_not_divide_by_zero(self) -> None:
        shares = _shares()
        for batch in range(30):
            shares.hear("g", _sample(batch, arrived=0, kept=0, sic_kept=0.0), float(batch))
            shares.decide(float(batch))
        assert shares.rate("g", 30.0) == 1.0
        assert shares.gates["g"].sic == 0.0
        assert shares.accepted("q", 30.0) == 0.0

    def test_a_first_batch_says_what_a_row_is_worth_before_the_next_tick(self) -> None:
        shares = _shares()
        shares.hear("g", _sample(0, interval_s=2.0), 1.0)
        assert shares.gates["g"].sic == pytest.approx(1 / 5000), "1000 in 2 s are 5000 in a window"


class TestQueries:
    def test_the_value_of_a_row_counts_the_sources_of_the_whole_query(self) -> None:
        shares = _shares()
        shares.declare("q", of=("s", "t", "elsewhere"))
        shares.hear("g", _sample(0), 1.0)
        assert shares.gates["g"].sic == pytest.approx(1 / (10_000 * 3))
        shares.hear_coordinator({"q": Told(None, 5, 1.0)})
        shares.hear("g", _sample(1), 2.0)
        assert shares.gates["g"].sic == pytest.approx(1 / (10_000 * 5))
        assert shares.view("q", 2.0).share == pytest.approx(0.2)

    def test_who_says_how_a_query_fares(self) -> None:
        shares = _shares(stale_s=10.0)
        shares.will_measure("q")
        for batch in range(12):
            shares.hear("g", _sample(batch, sic_kept=0.03), float(batch))
        assert shares.view("q", 11.0).told_by == "site"
        assert shares.view("q", 11.0).sic == pytest.approx(0.3)
        for batch in range(12):
            shares.results("q", _sample(batch, sic_arrived=0.02), 11.0)
        assert shares.view("q", 11.0).told_by == "result"
        assert shares.view("q", 11.0).sic == pytest.approx(0.2)
        shares.hear_coordinator({"q": Told(0.7, 2, 11.0), "other": Told(0.1, 1, 11.0)})
        assert (shares.view("q", 12.0).told_by, shares.view("q", 12.0).sic) == ("coordinator", 0.7)
        assert shares.view("q", 22.0).told_by == "result", "its word is stale"
        assert "other" not in shares.queries

    @pytest.mark.parametrize("sic", [math.nan, -0.1, math.inf])
    def test_a_coordinator_that_says_what_is_no_sic_is_not_believed(self, sic: float) -> None:
        shares = _shares()
        shares.hear_coordinator({"q": Told(sic, 1, 0.0)})
        assert shares.view("q", 0.0).told_by == "site"

    def test_a_query_that_others_serve_well_gets_less_here(self) -> None:
        """Half of `far` is elsewhere, and its coordinator says that it fares well."""

        def kept(told: float) -> float:
            site = VirtualSite([Stream(q, lambda t: 20_000) for q in ("far", "near", "nearer")])
            decide = site.shares.decide

            def heard(now: float) -> None:
                site.shares.hear_coordinator({"far": Told(told, 2, now)})
                decide(now)

            site.shares.decide = heard  # type: ignore[assignment, method-assign]
            site.run(60)
            return site.kept_share(site.streams[0], since=30)

        assert kept(0.9) < 0.05
        assert kept(0.05) > 0.4

    def test_a_query_that_has_ended_is_forgotten(self) -> None:
        shares = _shares()
        shares.enter("h", query="q", source="t")
        shares.will_measure("r")
        shares.hear("g", _sample(0), 1.0)
        shares.leave("g")
        assert shares.queries == ("q", "r")
        shares.end("q")
        shares.end("r")
        shares.end("never was")
        assert not shares.queries
        assert not shares.gates
        assert not shares.streams
        shares.results("r", _sample(1), 2.0)
        assert not shares.queries, "a late report does not bring it back"

    def test_a_gate_that_changes_its_query_leaves_the_old_one(self) -> None:
        shares = _shares()
        shares.enter("g", query="other", source="s")
        assert shares.queries == ("other",)

    def test_a_gate_that_enters_again_goes_on(self) -> None:
        shares = _shares()
        for batch in range(100):
            shares.hear("g", _sample(batch), float(batch))
        usual = shares.gates["g"].agreed.usual
        shares.enter("g", query="q", source="s", hold_s=7.0)
        assert shares.gates["g"].agreed.usual == usual, "a restart is no way to become a new source"
        assert shares.gates["g"].hold_s == 7.0
        assert shares.gates["g"].batches == 100

    def test_a_stream_with_a_new_checkpoint_replaces_the_old_one(self) -> None:
        shares = _shares()
        for batch in range(5):
            shares.hear("g", _sample(batch), float(batch))
        for batch in range(60):
            shares.hear("g", _sample(batch, stream="two", started_at=5.0 + batch), 5.0 + batch)
            shares.decide(5.0 + batch)
        assert set(shares.streams) == {"two"}


class TestBadUse:
    def test_one_source_twice(self) -> None:
        with pytest.raises(BadArgument, match="already comes through gate 'g'"):
            _shares().enter("h", query="q", source="s")

    def test_an_unknown_source(self) -> None:
        shares = _shares()
        shares.declare("q", of=("s", "t"))
        with pytest.raises(BadArgument, match="source 'u' is not one of"):
            shares.enter("h", query="q", source="u")
        assert set(shares.gates) == {"g"}
        with pytest.raises(BadArgument, match="declare them once"):
            shares.declare("q", of=("s", "x"))

    @pytest.mark.parametrize("weight", [0.0, -1.0, math.nan, math.inf])
    def test_a_weight_that_is_none(self, weight: float) -> None:
        with pytest.raises(BadArgument, match="weight"):
            _shares().declare("q", weight=weight)

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
        [{}, {"trim": 1.0}, {"usual": {}}, {"usual": [1], "trim": 1}, {"usual": {}, "trim": math.nan}],
        ids=str,
    )
    def test_a_snapshot_that_is_none_changes_nothing(self, value: dict[str, object]) -> None:
        shares = _shares()
        with pytest.raises((KeyError, TypeError, ValueError)):
            shares.remember(value)
        assert shares.trim == 0.8
