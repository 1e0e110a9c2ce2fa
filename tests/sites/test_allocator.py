"""A site's account and its decision: streams on shared cores in virtual time, and hostile samples."""

from __future__ import annotations

import json
import math

import pytest

from headgate.core.load import LoadSample, SicFlow
from headgate.sites.allocator import SiteAllocator
from headgate.sites.settings import SiteSettings
from headgate_lab.sim.themis.virtual_site import Stream, VirtualSite, mixed


def _jain(values: list[float]) -> float:
    return sum(values) ** 2 / (len(values) * sum(v * v for v in values))


class TestInOverload:
    def test_streams_of_all_kinds_have_the_same_sic_and_keep_their_targets(self) -> None:
        site = VirtualSite(mixed())
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
        site = VirtualSite(mixed(), shedding=shedding)
        site.run(180)
        kept = [site.kept_share(stream, since=60) for stream in site.streams]
        assert all(0.05 < share < 0.5 for share in kept)
        assert _jain(kept) > fair
        assert math.isnan(site.allocator.level)

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
        site.allocator.state.declare("a", weight=3.0)
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
        assert site.allocator.level == math.inf
        assert not site.allocator.overloaded
        assert site.allocator.trim == 1.0
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
        assert site.allocator.capacity(site.now) >= 0.25 * 2.0 * 0.85 * site.allocator.trim
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
        assert "goes" not in site.allocator.state.views(site.now)
        comes = site.join(Stream("comes", lambda t: 20_000))
        site.run(60)
        sics = site.mean_sic(since=150)
        assert sics["comes"] == pytest.approx(sics["stays"], rel=0.06)
        assert comes.durations[0][1] < 2.0

    def test_who_comes_while_others_shed_begins_at_their_level(self) -> None:
        site = VirtualSite([Stream(q, lambda t: 20_000) for q in "ab"])
        site.run(60)
        level = site.allocator.level
        comes = site.join(Stream("c", lambda t: 20_000))
        assert comes.budget.keep == pytest.approx(level, rel=0.01)
        heavy = site.join(Stream("d", lambda t: 20_000, weight=2.0))
        assert heavy.budget.keep == pytest.approx(2.0 * level, rel=0.01)
        asked = site.join(Stream("e", lambda t: 0, start=0.9))
        assert asked.budget.keep == 0.9
        sent = site.join(Stream("f", lambda t: 0, brings=1e-4))
        assert sent.budget.keep == 1.0, "derived rows"

    def test_who_comes_while_nobody_sheds_keeps_all(self) -> None:
        site = VirtualSite([Stream("a", lambda t: 1000)])
        site.run(10)
        assert site.join(Stream("b", lambda t: 1000)).budget.keep == 1.0

    def test_a_quiet_stream_does_not_come_back_to_a_rate_of_long_ago(self) -> None:
        rests = Stream("rests", lambda t: 20_000 if t < 60 or t > 200 else 0)
        busy = Stream("busy", lambda t: 20_000 if t < 60 else 500)
        site = VirtualSite([rests, busy])
        site.run(60)
        assert rests.budget.keep < 0.5
        site.run(139)
        assert rests.budget.keep == 1.0

    def test_a_long_batch_is_not_taken_for_silence(self) -> None:
        """A commit of 60 seconds: what waits behind it does not come in whole."""
        slow = Stream("slow", lambda t: 20_000)
        site = VirtualSite([slow, Stream("other", lambda t: 20_000)])
        site.run(30)
        slow.fixed_wall_s = 60.0
        site.run(5)
        slow.fixed_wall_s = 0.2
        site.run(20)
        assert slow.budget.keep < 0.1, "while it runs: half a million rows wait"
        site.run(15)
        assert slow.budget.keep < 0.1
        site.run(115)
        after = next(i for i, (_, d) in enumerate(slow.durations) if d > 60.0) + 1
        assert slow.durations[after][1] < 3.0, "1.2 million rows waited"
        assert site.inside(slow, since=120) > 0.9

    def test_what_was_learned_outlasts_a_restart(self) -> None:
        site = VirtualSite([Stream("noisy", lambda t: 5000, gate="n"), *mixed()])
        site.run(120)
        learned = json.loads(json.dumps(site.allocator.snapshot()))
        again = VirtualSite([])
        again.allocator.restore(learned)
        assert again.allocator.trim == pytest.approx(site.allocator.trim)
        again.join(Stream("noisy", lambda t: 50_000, gate="n"))
        again.run(30)
        assert again.allocator.state.gates["n"].agreed.limit < 1.1 * 1.25 * 50_000, (
            "5000 a second, ten seconds"
        )

        second = VirtualSite([])
        second.allocator.restore(json.loads(json.dumps(learned)))
        kept = json.loads(json.dumps(second.allocator.snapshot()))
        assert kept["usual"]["n"] == learned["usual"]["n"], "a second restart, before its gate is built"

    @pytest.mark.parametrize(("on_s", "off_s"), [(10, 10), (10, 30), (20, 60)])
    def test_a_source_that_pauses_is_worth_no_more_for_it(self, on_s: int, off_s: int) -> None:
        def rate(t: float) -> float:
            return 2000.0 if t % (on_s + off_s) < on_s else 0.0

        alone = VirtualSite([Stream("pauses", rate)])
        most = 0.0
        for _ in range(240):
            alone.run(1)
            most = max(most, alone.allocator.state.accepted("pauses", alone.now))
        assert most < 1.3, "nothing is shed"
        busy = VirtualSite([Stream("pauses", lambda t: 10 * rate(t)), *mixed()])
        busy.run(400)
        pauses, *others = (busy.kept_share(s, since=120) for s in busy.streams)
        assert 0.5 < pauses / (sum(others) / len(others)) < 2.0

    def test_a_source_that_always_sends_little_and_seldom_is_no_pause(self) -> None:
        site = VirtualSite([Stream("seldom", lambda t: 40.0 if t % 7 < 0.3 else 0.0)])
        site.run(120)
        seen = []
        for _ in range(28):
            site.run(1)
            seen.append(site.allocator.state.accepted("seldom", site.now))
        assert sum(seen) / len(seen) == pytest.approx(1.0, abs=0.25)

    def test_the_price_of_rows_outlasts_a_restart(self) -> None:
        site = VirtualSite([Stream("a", lambda t: 40_000, gate="a")])
        site.run(60)
        [(name, stream)] = site.allocator.state.streams.items()
        learned = json.loads(json.dumps(site.allocator.snapshot()))
        again = VirtualSite([])
        again.allocator.restore(learned)
        assert again.allocator.snapshot()["prices"] == learned["prices"], "a second restart has it too"
        again.join(Stream("a", lambda t: 40_000, gate="a"))
        again.run(4)
        assert again.allocator.state.streams[name].per_row_s == pytest.approx(
            stream.per_row_s, rel=0.01
        ), "after one batch, which by itself says half of it"

    def test_what_version_0_1_0_learned_is_read(self) -> None:
        """As its status file has it."""
        batches = [[3000.0, 1.9], [1500.0, 1.45], [4000.0, 2.2], [2500.0, 1.75]]
        price = {"bound": 5.7e-4, "per_row": 3e-4, "fixed": 1.0, "told": True}
        learned = {
            "trim": 0.6,
            "usual": {"a": 400_000.0, "gone": None},
            "prices": {"a": price | {"seen": batches, "bounds": batches}},
        }
        site = VirtualSite([])
        site.allocator.restore(json.loads(json.dumps(learned)))
        assert site.allocator.trim == 0.6
        site.join(Stream("a", lambda t: 3000, per_row_s=3e-4, fixed_task_s=1.0, gate="a"))
        site.run(3)
        assert site.allocator.state.streams["a"].per_row_s == pytest.approx(3e-4, rel=0.05)
        assert site.allocator.state.gates["a"].agreed.limit > 400_000


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
        allocator = SiteAllocator(SiteSettings("s", cores=2.0, hold_s=1.0))
        allocator.state.enter("source", query="q", source="s")
        allocator.state.enter("derived", query="q", source=None)
        now = 0.0
        for batch in range(30):
            now += 1.0
            rates = {name: allocator.rate(name, now) for name in allocator.state.gates}
            kept = {"source": round(100_000 * rates["source"]), "derived": 5000}
            if batch > 3:
                assert rates["derived"] > 0.999
            work = 0.05 + 1e-4 * sum(kept.values())
            for name, arrived in (("source", 100_000), ("derived", 5000)):
                allocator.on_batch(
                    name,
                    LoadSample(batch, now, work / 2, arrived, kept[name], stream="one", work_s=work,
                               interval_s=1.0, sic=SicFlow(5e-3 if name == "derived" else 0.0)),
                    now,
                )  # fmt: skip
            allocator.decide(now)
        assert 0.02 < allocator.rate("source", now) < 0.2
