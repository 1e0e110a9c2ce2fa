"""Whom a coordinator believes, by itself and against a slow twin; no HTTP, and a clock that is set by
hand."""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.coordinator.journal import Change, Journal
from headgate.coordinator.registry import Registry, RegistrySettings
from headgate.errors import BadArgument, ControlFolderError, CoordinatorRefused
from headgate.sites.wire.protocol import MAX_SOURCES, Leave, QueryReport, Reply, Report
from headgate.testing.clock import ManualClock
from tests.coordinator.naive import NaiveCoordinator

A, B, C = "a" * 32, "b" * 32, "c" * 32


class Reporter:
    """A registry, and sites that count for themselves."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock(1000.0)
        self.registry = Registry(RegistrySettings(**settings), clock=self.clock)
        self.seq: dict[tuple[str, str], int] = {}

    def __call__(self, site: str, who: str = A, seq: int | None = None, **queries: QueryReport) -> Reply:
        if seq is None:
            seq = self.seq[site, who] = self.seq.get((site, who), 0) + 1
        digest = f"{site}{who}{seq}{queries}"
        return self.registry.report(Report(site, who, seq, queries), digest)

    def refused(self, *args: Any, **more: Any) -> CoordinatorRefused:
        before = self.registry.view()
        with pytest.raises(CoordinatorRefused) as caught:
            self(*args, **more)
        assert self.registry.view() == before, "what is refused has no effect"
        return caught.value

    def leave(self, site: str, queries: tuple[str, ...] | None = None, who: str = A) -> tuple[str, ...]:
        seq = self.seq[site, who] = self.seq.get((site, who), 0) + 1
        return self.registry.leave(Leave(site, who, seq, queries), f"leave{seq}")


@pytest.fixture
def reporter() -> Reporter:
    return Reporter()


def has(*sources: str, **more: Any) -> QueryReport:
    return QueryReport(sources, **more)


def test_sic_goes_from_the_root_to_every_site(reporter: Reporter) -> None:
    assert reporter("paris", avg=has("p")).queries["avg"].sic is None
    reporter("rome", avg=has("r1", "r2", root=True, result_sic=0.31))
    reporter.clock.sleep(0.5)
    update = reporter("paris", avg=has("p")).queries["avg"]
    assert (update.sic, update.age_s, update.sources) == (0.31, 0.5, 3)


def test_a_root_with_nothing_new_does_not_make_it_younger(reporter: Reporter) -> None:
    reporter("rome", avg=has("r", root=True, result_sic=0.31))
    reporter.clock.sleep(2)
    assert reporter("rome", avg=has("r", root=True)).queries["avg"].age_s == 2


def test_all_sources_count_before_they_are_there(reporter: Reporter) -> None:
    declared = ("r", "p", "b")
    assert reporter("rome", avg=has("r", of=declared)).queries["avg"].sources == 3
    assert reporter("paris", avg=has("p")).queries["avg"].sources == 3
    assert reporter.registry.view()["queries"]["avg"]["missing"] == ["b"]


def test_an_unknown_source_is_refused_with_the_known_ones(reporter: Reporter) -> None:
    reporter("rome", avg=has("r", of=("r", "p")))
    refused = reporter("paris", avg=has("q"), other=has("q"))
    assert "'q' is unknown: the query's sources are 'p', 'r', as site 'rome'" in refused.refused["avg"]
    assert list(refused.queries) == ["other"]
    assert "paris" not in reporter.registry.view()["queries"]["avg"]["sites"]


def test_a_second_other_declaration_is_refused(reporter: Reporter) -> None:
    reporter("rome", avg=has("r", of=("r", "p")))
    reason = reporter("paris", avg=has("p", of=("r", "p", "q"))).refused["avg"]
    assert "declared 2 sources ('p', 'r') and this one 3" in reason
    assert reporter("paris", avg=has("p", of=("p", "r"))).refused == {}


def test_who_declared_alone_may_declare_anew(reporter: Reporter) -> None:
    reporter("rome", avg=has("r", of=("r", "p")))
    assert reporter("rome", avg=has("r", of=("r", "p", "q"))).queries["avg"].sources == 3
    reporter("paris", avg=has("p"))
    assert (
        "lacks 'p', which site 'paris' holds" in reporter("rome", avg=has("r", of=("r",))).refused["avg"]
    )


def test_a_source_is_held_by_one_site(reporter: Reporter) -> None:
    reporter("rome", avg=has("cpu"))
    assert "held by site 'rome'" in reporter("paris", avg=has("cpu")).refused["avg"]
    reporter.clock.sleep(16)  # rome is silent for longer than its lease
    assert reporter("paris", avg=has("cpu")).queries["avg"].sources == 1
    assert "held by site 'paris'" in reporter("rome", avg=has("cpu")).refused["avg"]


def test_one_site_is_the_root_while_its_lease_lives(reporter: Reporter) -> None:
    reporter("rome", avg=has("r", root=True, result_sic=0.3))
    forged = reporter("paris", avg=has("p", root=True, result_sic=1.0))
    assert "site 'rome' is the query's root" in forged.refused["avg"]
    assert reporter("rome", avg=has("r", root=True)).queries["avg"].sic == 0.3
    reporter.clock.sleep(15.1)
    assert reporter("paris", avg=has("p", root=True, result_sic=0.9)).queries["avg"].sic == 0.9
    assert "site 'paris' is the query's root" in reporter("rome", avg=has("r", root=True)).refused["avg"]


def test_a_root_may_step_down(reporter: Reporter) -> None:
    reporter("rome", avg=has("r", root=True, result_sic=0.3))
    reporter("rome", avg=has("r"))
    assert reporter("paris", avg=has("p", root=True)).refused == {}
    assert reporter.registry.view()["queries"]["avg"]["root"] == "paris"


def test_weight_and_priority_are_the_roots(reporter: Reporter) -> None:
    reporter("rome", avg=has("r", root=True, weight=2.0, priority=1))
    update = reporter("paris", avg=has("p", weight=9.0, priority=9)).queries["avg"]
    assert (update.weight, update.priority) == (2.0, 1)


def test_a_name_used_twice_is_refused_until_the_lease_is_over(reporter: Reporter) -> None:
    reporter("rome", A, avg=has("r"))
    reporter.clock.sleep(4)
    error = reporter.refused("rome", B, avg=has("r"))
    assert (error.status, error.code, error.retry_after_s) == (409, "site-taken", 11)
    assert "in use since 4 s by incarnation aaaaaaaa" in str(error)
    assert "it can go on in 11 s" in str(error)
    reporter.clock.sleep(11.5)
    assert reporter("rome", B, avg=has("r")).queries["avg"].sources == 1
    error = reporter.refused("rome", A, avg=has("r"))
    assert (error.status, error.code) == (409, "replaced")
    assert "replaced by bbbbbbbb" in str(error)
    reporter.clock.sleep(1000)
    assert reporter.refused("rome", A).code == "replaced"


def test_a_replayed_report_is_refused(reporter: Reporter) -> None:
    reporter("rome", seq=5, avg=has("r", root=True, result_sic=0.9))
    reporter("rome", seq=9, avg=has("r", root=True, result_sic=0.1))
    for seq in (1, 5, 8):
        error = reporter.refused("rome", seq=seq, avg=has("r", root=True, result_sic=0.9))
        assert (error.status, error.code) == (409, "replayed")
    error = reporter.refused("rome", seq=9, avg=has("r", root=True, result_sic=0.9))
    assert error.code == "replayed", "the last number with another content is a forgery"


def test_the_last_report_again_is_answered_again_and_renews_nothing(reporter: Reporter) -> None:
    entry = {"avg": has("r", root=True, result_sic=0.9), "bad": has("r2")}
    reporter("paris", bad=has("r2"))
    first = reporter("rome", seq=5, **entry)
    reporter.clock.sleep(10)
    before = reporter.registry.view()
    again = reporter("rome", seq=5, **entry)
    assert reporter.registry.view() == before
    assert again.queries["avg"].age_s == 10
    assert again.queries["avg"].sic == 0.9
    assert again.refused == first.refused
    reporter.clock.sleep(6)  # 16 s after the first: whoever replays it does not hold the name
    assert reporter("rome", B, avg=has("r")).refused == {}


def test_a_silent_site_counts_until_it_is_forgotten(reporter: Reporter) -> None:
    reporter("rome", avg=has("r", root=True, result_sic=0.5))
    reporter("paris", avg=has("p"))
    for _ in range(60):
        reporter.clock.sleep(10)
        assert reporter("paris", avg=has("p")).queries["avg"].sources == 2
    reporter.clock.sleep(1)
    update = reporter("paris", avg=has("p")).queries["avg"]
    assert (update.sources, update.sic, update.age_s) == (1, None, None)
    assert reporter.registry.view()["sites"]["rome"]["state"] == "silent"


def test_who_is_forgotten_cannot_be_replayed(reporter: Reporter) -> None:
    reporter("rome", seq=7, avg=has("r"))
    reporter.clock.sleep(5000)
    assert reporter.registry.view()["queries"] == {}
    assert reporter.refused("rome", seq=7, avg=has("r", root=True)).code == "replayed"


def test_a_site_that_leaves_no_longer_counts(reporter: Reporter) -> None:
    declared = ("r", "p", "b")
    reporter("rome", avg=has("r", of=declared))
    reporter("paris", avg=has("p", of=declared), top=has("p"))
    assert reporter.leave("paris") == ("avg", "top")
    view = reporter.registry.view()
    assert (view["queries"]["avg"]["sources"], view["sites"]["paris"]["state"]) == (2, "left")
    assert list(view["queries"]) == ["avg"], "a query that nobody hosts is dropped"
    assert reporter("paris", B, avg=has("p", of=declared)).queries["avg"].sources == 3, (
        "no lease to wait for"
    )


def test_a_site_may_leave_one_query(reporter: Reporter) -> None:
    reporter("rome", avg=has("r"), top=has("r"))
    assert reporter.leave("rome", ("top", "unknown")) == ("top",)
    assert list(reporter.registry.view()["queries"]) == ["avg"]
    assert reporter("rome", avg=has("r")).refused == {}
    assert reporter.leave("nobody") == ()
    assert "nobody" not in reporter.registry.view()["sites"]


def test_a_root_that_leaves_or_is_forgotten_is_no_root(reporter: Reporter) -> None:
    reporter("rome", avg=has("r", root=True), top=has("r"))
    reporter("paris", avg=has("p"))
    reporter.leave("rome", ("avg",))
    assert reporter.registry.view()["queries"]["avg"]["root"] is None
    assert reporter("paris", avg=has("p", root=True)).refused == {}, (
        "rome is here, and not for this query"
    )
    reporter("berlin", avg=has("b"))
    for _ in range(61):
        reporter.clock.sleep(10)
        reporter("berlin", avg=has("b"))
    assert reporter.registry.view()["queries"]["avg"]["root"] is None


def test_a_source_that_is_dropped_no_longer_counts(reporter: Reporter) -> None:
    declared = ("a", "b")
    reporter("rome", avg=has("a", "b", of=declared))
    assert reporter("rome", avg=has("a", of=declared)).queries["avg"].sources == 1
    assert reporter("rome", avg=has("a", "b", of=declared)).queries["avg"].sources == 2


def test_what_is_kept_is_bounded() -> None:
    reporter = Reporter(max_sites=2, max_queries=3, max_queries_of_a_site=2)
    reply = reporter("rome", q1=has(), q2=has(), q3=has())
    assert sorted(reply.queries) == ["q1", "q2"]
    assert "hosts 2 queries, and no site may host more" in reply.refused["q3"]
    reply = reporter("paris", q3=has(), q4=has())
    assert sorted(reply.queries) == ["q3"]
    assert "hosts 3 queries, and that is all it can" in reply.refused["q4"]
    assert reporter("rome", q1=has(), q2=has()).refused == {}, (
        "who is there is not refused for want of room"
    )
    error = reporter.refused("berlin", q1=has())
    assert (error.status, error.code) == (507, "full")
    reporter.leave("paris")
    assert reporter("berlin", q5=has()).refused == {}
    assert sorted(reporter.registry.view()["sites"]) == ["berlin", "rome"]


def test_sources_of_a_query_are_bounded_over_all_sites(reporter: Reporter) -> None:
    half = [f"s{i}" for i in range(MAX_SOURCES // 2 + 1)]
    reporter("rome", avg=has(*half))
    assert (
        "more than 4,096 sources" in reporter("paris", avg=has(*("p" + s for s in half))).refused["avg"]
    )


def test_names_that_a_site_says_are_bounded() -> None:
    reporter = Reporter(max_sources_of_a_site=4)
    reply = reporter("rome", a=has("1", "2"), b=has("1", of=("1", "2", "3")), c=has("1"))
    assert sorted(reply.queries) == ["a", "c"]
    assert "more than 4 sources in all" in reply.refused["b"]
    assert reporter("rome", d=has("1", "2")).refused.keys() == {"d"}
    assert reporter("rome", a=has("1")).refused == {}, "less is always possible"
    assert reporter("rome", d=has("1", "2")).refused == {}
    assert reporter("paris", b=has("1", "2", "3", "4")).refused == {}


def test_replaced_incarnations_are_bounded_and_the_latest_are_kept(reporter: Reporter) -> None:
    ids = [f"{i:032x}" for i in range(300)]
    for who in ids:
        reporter("rome", who)
        reporter.clock.sleep(16)
    assert reporter.refused("rome", ids[-2]).code == "replaced"
    assert len(reporter.registry._sites["rome"].retired) == 256


def test_the_view_for_people(reporter: Reporter) -> None:
    assert reporter.registry.view() == {"v": 1, "jain": None, "queries": {}, "sites": {}}
    reporter("rome", a=has("r", root=True, result_sic=0.2, accepted_sic=0.1), b=has("r"))
    reporter("paris", c=has("p", root=True, result_sic=0.4, weight=2.0))
    view = reporter.registry.view()
    assert view["jain"] == 1.0  # of SIC / weight, over queries that have one
    assert view["queries"]["a"]["sites"] == {
        "rome": {"sources": ["r"], "accepted_sic": 0.1, "heard_s": 0.0}
    }
    assert view["sites"]["rome"] == {
        "state": "here",
        "heard_s": 0.0,
        "since_s": 0.0,
        "incarnation": "aaaaaaaa",
        "queries": 2,
    }


def test_what_the_journal_does_not_take_has_no_effect(tmp_path: Path) -> None:
    class Full(Journal):
        full = False

        def write(self, change: Change, before: Any) -> None:
            if self.full:
                raise ControlFolderError("no room on the disk")
            super().write(change, before)

    journal = Full(tmp_path)
    registry = Registry(journal=journal, clock=ManualClock())
    registry.report(Report("rome", A, 1, {"avg": has("r")}), "1")
    before = registry.view()
    journal.full = True
    with pytest.raises(ControlFolderError):
        registry.report(Report("rome", A, 2, {"avg": has("r", root=True, result_sic=0.5)}), "2")
    assert registry.view() == before
    journal.full = False
    assert registry.report(Report("rome", A, 2, {"avg": has("r")}), "2").refused == {}
    journal.close()


def test_bad_settings_are_told() -> None:
    for lease_s, forget_s in ((0, 1), (2, 1), (float("nan"), 1), (1, float("inf"))):
        with pytest.raises(BadArgument, match="not forgotten before its lease is over"):
            RegistrySettings(lease_s=lease_s, forget_s=forget_s)
    with pytest.raises(BadArgument, match="max_sites=0"):
        RegistrySettings(max_sites=0)


def test_many_threads_lose_nothing() -> None:
    registry = Registry()
    numbers = 200

    def site(name: str) -> None:
        for seq in range(1, numbers + 1):
            entries = {"avg": has(name), f"own-{name}": has("x", root=True, result_sic=seq / numbers)}
            reply = registry.report(Report(name, A, seq, entries), str(seq))
            assert reply.refused == {}
            assert reply.queries[f"own-{name}"].sic == seq / numbers

    names = [f"s{i}" for i in range(8)]
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(site, names))  # raises what a thread raised
    assert {name: registry._sites[name].seq for name in names} == dict.fromkeys(names, numbers)
    view = registry.view()
    assert view["queries"]["avg"]["sources"] == 8
    assert {query: found["sic"] for query, found in view["queries"].items()} == {
        "avg": None, **{f"own-{name}": 1.0 for name in names}
    }  # fmt: skip


SITES, WHO, QUERIES, SOURCES = ("rome", "paris", "berlin"), (A, B, C), ("avg", "top"), ("s", "t", "u")
entries = st.builds(
    lambda sources, of, root, sic: QueryReport(
        tuple(sorted(sources)),
        None if of is None else tuple(sorted(of | sources)),
        root,
        sic if root else None,
    ),
    st.frozensets(st.sampled_from(SOURCES), max_size=2),
    st.none() | st.frozensets(st.sampled_from(SOURCES), min_size=1),
    st.booleans(),
    st.none() | st.floats(0, 1),
)
steps = st.lists(
    st.tuples(
        st.just("report"),
        st.sampled_from(SITES),
        st.sampled_from(WHO[:2]),
        st.integers(-1, 2),
        st.dictionaries(st.sampled_from(QUERIES), entries, max_size=2),
    )
    | st.tuples(st.just("sleep"), st.sampled_from([0.5, 4.0, 11.0, 45.0]))
    | st.tuples(st.just("leave"), st.sampled_from(SITES))
    | st.tuples(st.just("restart")),
    max_size=30,
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps, st.booleans())
def test_it_decides_as_the_slow_twin_does(what: list[Any], with_journal: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _compare(what, Path(folder) if with_journal else None)


def _compare(what: list[Any], folder: Path | None) -> None:
    clock, wall = ManualClock(50.0), ManualClock(1e9)
    bounds = RegistrySettings(lease_s=10.0, forget_s=40.0)

    def opened() -> tuple[Journal | None, Registry]:
        journal = None if folder is None else Journal(folder, clock=clock, wall=wall)
        return journal, Registry(bounds, clock=clock, journal=journal)

    journal, registry = opened()
    twin = NaiveCoordinator(10.0, 40.0)
    last: dict[str, int] = {}
    for number, step in enumerate(what):
        if step[0] == "sleep":
            clock.sleep(step[1])
            wall.sleep(step[1])
        elif step[0] == "restart" and journal is not None:
            journal.close()
            journal, registry = opened()
            for known in twin.sites.values():  # a restart renews leases and what is not forgotten
                known["heard"] = clock()
            twin.forget(clock())
            for part in twin.parts.values():
                part["heard"] = clock()
        elif step[0] == "leave" and step[1] in twin.sites:
            known = twin.sites[step[1]]
            last[step[1]] = known["seq"] + 1
            twin.forget(clock())
            assert twin.hear(step[1], known["who"], last[step[1]], clock()) is None
            registry.leave(Leave(step[1], known["who"], last[step[1]]), f"{number}")
            twin.leave(step[1])
        elif step[0] == "report":
            _, site, who, ahead, queries = step
            seq = max(1, last.get(site, 0) + ahead)
            twin.forget(clock())
            verdict = twin.hear(site, who, seq, clock())
            code = None
            try:
                reply = registry.report(Report(site, who, seq, queries), f"{number}")
            except CoordinatorRefused as error:
                code = error.code
            assert code == verdict
            if code is not None:
                continue
            last[site] = seq
            for name, entry in queries.items():
                believed = twin.part(name, site, entry, clock())
                assert believed == (name in reply.queries), reply.refused
                if believed:
                    sic, at = twin.sic.get(name, (None, 0.0))
                    if sic is not None and clock() - at > 40.0:
                        sic = None
                    assert (reply.queries[name].sic, reply.queries[name].sources) == (
                        sic,
                        twin.sources(name),
                    )
        view = registry.view()
        twin.forget(clock())
        assert {q: d["sources"] for q, d in view["queries"].items()} == {
            q: twin.sources(q) for q, _ in twin.parts
        }
        assert {q: d["root"] for q, d in view["queries"].items()} == {
            q: twin.root.get(q) for q, _ in twin.parts
        }
    if journal is not None:
        journal.close()


def test_what_a_site_accepted_counts_as_long_as_its_lease() -> None:
    reporter = Reporter(lease_s=5.0)
    reporter("rome", avg=has("r", accepted_sic=0.2))
    reporter.clock.sleep(4.0)
    assert reporter("paris", avg=has("p", accepted_sic=0.1)).queries["avg"].accepted == pytest.approx(
        0.3
    )
    reporter.clock.sleep(2.0)
    assert reporter("paris", avg=has("p", accepted_sic=0.1)).queries["avg"].accepted == pytest.approx(
        0.1
    )


def test_so_many_replaced_incarnations_are_remembered() -> None:
    reporter = Reporter(max_retired=1)
    for who in (A, B, C):
        reporter("rome", who)
        reporter.clock.sleep(16.0)
    assert reporter.refused("rome", B).code == "replaced"
    assert reporter("rome", A, seq=9).refused == {}, "the oldest is forgotten"
