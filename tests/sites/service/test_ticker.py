"""What a site does by the clock: exchanges with coordinators that come and go, status, restarts."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from headgate.coordinator.journal import Journal
from headgate.coordinator.registry import Registry, RegistrySettings
from headgate.core.load import LoadSample, SicFlow
from headgate.errors import ControlFolderError, CoordinatorGone, CoordinatorRefused
from headgate.sites.allocator import SiteAllocator
from headgate.sites.service.exchange import Exchange
from headgate.sites.service.history import History
from headgate.sites.service.ticker import Ticker
from headgate.sites.settings import SiteSettings
from headgate.sites.shared import SharedSite
from headgate.sites.wire.client import CoordinatorClient
from headgate.sites.wire.protocol import MAX_SIC, QueryReport, QueryUpdate, Reply
from tests.eventually import eventually


class FakeClient:
    """A coordinator that answers what a test wants."""

    def __init__(self) -> None:
        self.fault: Exception | None = None
        self.sic: float | None = 0.5
        self.refused: dict[str, str] = {}
        self.heard: list[Mapping[str, QueryReport]] = []
        self.left: list[list[str] | None] = []
        self.closed = False
        self.skipped = 0

    def exchange(self, queries: Mapping[str, QueryReport]) -> Reply:
        if self.fault is not None:
            raise self.fault
        self.heard.append(dict(queries))
        words = {q: QueryUpdate(self.sic, 0.5, 3, 2.0, 1) for q in queries if q not in self.refused}
        return Reply(words, {q: why for q, why in self.refused.items() if q in queries})

    def leave(self, queries: Iterable[str] | None = None) -> None:
        if self.fault is not None:
            raise self.fault
        self.left.append(None if queries is None else list(queries))

    def close(self) -> None:
        self.closed = True

    def skip(self) -> None:
        self.skipped += 1


def _allocator(name: str = "s", source: str = "s", **settings: float) -> SiteAllocator:
    values = {"cores": 2.0, "stale_s": 10.0} | settings
    allocator = SiteAllocator(SiteSettings(name, **values))  # type: ignore[arg-type]
    allocator.state.enter("g", query="q", source=source)
    return allocator


def _feed(allocator: SiteAllocator, until: float, sic: float, batches: int = 20) -> None:
    """Batches that accepted so much SIC in a window, up to now."""
    for batch in range(batches):
        at = until - (batches - 1 - batch)
        sample = LoadSample(batch, at, 0.3, 1000, 500, stream="one", interval_s=1.0, work_s=0.1,
                            sic=SicFlow(sic / 10.0, sic / 10.0))  # fmt: skip
        allocator.on_batch("g", sample, at)
        allocator.state.results("q", sample, at)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def client() -> FakeClient:
    return FakeClient()


def _exchange(allocator: SiteAllocator, client: FakeClient, clock: Clock) -> Exchange:
    return Exchange(SharedSite(allocator), client, every_s=1.0, clock=clock)


class TestExchange:
    def test_it_reports_and_takes_up_what_it_hears(self, client: FakeClient, clock: Clock) -> None:
        allocator = _allocator()
        _feed(allocator, clock.now, sic=0.3)
        exchange = _exchange(allocator, client, clock)
        assert exchange.once() == 1.0
        assert exchange.state == "in touch"
        (report,) = client.heard
        assert report["q"].sources == ("s",)
        assert report["q"].accepted_sic == pytest.approx(0.3)
        assert not report["q"].root
        assert report["q"].result_sic is None
        view = allocator.state.view("q", clock.now)
        assert (view.sic, view.told_by, view.sources) == (0.5, "coordinator", 3)
        assert view.weight == 2.0, "the root's word, through the coordinator"
        assert allocator.state.priority("q") == 1

    def test_a_root_reports_what_it_measured_and_has_the_last_word(
        self, client: FakeClient, clock: Clock
    ) -> None:
        allocator = _allocator()
        allocator.state.will_measure("q")
        allocator.state.declare("q", weight=5.0)
        _feed(allocator, clock.now, sic=0.2)
        _exchange(allocator, client, clock).once()
        assert client.heard[0]["q"].root
        assert client.heard[0]["q"].result_sic == pytest.approx(0.2)
        assert allocator.state.view("q", clock.now).weight == 5.0

    def test_sic_that_a_burst_made_too_high_is_clipped(self, client: FakeClient, clock: Clock) -> None:
        allocator = _allocator()
        allocator.state.will_measure("q")
        _feed(allocator, clock.now, sic=50.0)
        _exchange(allocator, client, clock).once()
        assert client.heard[0]["q"].result_sic == MAX_SIC
        assert client.heard[0]["q"].accepted_sic == MAX_SIC

    def test_a_site_with_nothing_to_say_keeps_its_name(self, client: FakeClient, clock: Clock) -> None:
        """Its queries are idle, or not there yet: its lease goes on, and it knows who is there."""
        allocator = SiteAllocator(SiteSettings("s", cores=2.0))
        exchange = _exchange(allocator, client, clock)
        assert exchange.once() == 1.0
        assert client.heard == [{}]
        assert exchange.state == "in touch"

    def test_one_coordinator_may_speak_for_some_queries_only(
        self, client: FakeClient, clock: Clock
    ) -> None:
        allocator = _allocator()
        allocator.state.enter("h", query="other", source="t")
        exchange = _exchange(allocator, client, clock)
        exchange.queries = {"other"}
        exchange.once()
        assert set(client.heard[0]) == {"other"}

    def test_one_that_is_gone_is_asked_less_and_less_and_its_word_grows_stale(
        self, client: FakeClient, clock: Clock, caplog: pytest.LogCaptureFixture
    ) -> None:
        allocator = _allocator()
        _feed(allocator, clock.now, sic=0.3)
        exchange = _exchange(allocator, client, clock)
        exchange.once()
        client.fault = CoordinatorGone("nobody is there")
        with caplog.at_level(logging.WARNING, "headgate"):
            pauses = [exchange.once() for _ in range(8)]
        assert pauses == [2.0, 4.0, 8.0, 10.0, 10.0, 10.0, 10.0, 10.0]
        assert exchange.state == "gone"
        assert len(caplog.records) == 1, "said once, and not every time"
        assert allocator.state.view("q", clock.now + 5).told_by == "coordinator"
        assert allocator.state.view("q", clock.now + 11).told_by == "site"
        client.fault = None
        assert exchange.once() == 1.0
        assert exchange.state == "in touch"
        assert allocator.state.view("q", clock.now).told_by == "coordinator"
        client.fault = CoordinatorGone("again")
        assert exchange.once() == 2.0, "the pause begins anew"

    def test_one_that_refuses_is_given_the_time_it_asks_for(
        self, client: FakeClient, clock: Clock
    ) -> None:
        exchange = _exchange(_allocator(), client, clock)
        client.fault = CoordinatorRefused("too fast", status=429, code="busy", retry_after_s=12.0)
        assert exchange.once() == 12.0
        assert exchange.state == "refused"
        client.fault = CoordinatorRefused("who are you?", status=401)
        assert exchange.once() == 4.0

    def test_a_query_that_is_refused_goes_on_by_the_local_view(
        self, client: FakeClient, clock: Clock, caplog: pytest.LogCaptureFixture
    ) -> None:
        allocator = _allocator()
        allocator.state.enter("h", query="other", source="t")
        _feed(allocator, clock.now, sic=0.3)
        client.refused = {"q": "its sources are others"}
        exchange = _exchange(allocator, client, clock)
        with caplog.at_level(logging.WARNING, "headgate"):
            for _ in range(3):
                exchange.once()
        assert exchange.refused == {"q": "its sources are others"}
        assert len(caplog.records) == 1
        assert allocator.state.view("q", clock.now).told_by == "site"
        assert allocator.state.view("other", clock.now).told_by == "coordinator"

    def test_a_query_that_ended_here_is_taken_back_at_once(
        self, client: FakeClient, clock: Clock
    ) -> None:
        allocator = _allocator()
        allocator.state.enter("h", query="other", source="t")
        exchange = _exchange(allocator, client, clock)
        exchange.once()
        allocator.state.end("other")
        client.fault = CoordinatorGone("just now")
        exchange.once()
        client.fault = None
        exchange.once()
        exchange.once()
        assert client.left == [["other"]], "once, as soon as it can be said"
        allocator.state.end("q")
        exchange.once()
        assert client.left == [["other"], ["q"]]

    def test_a_refusal_is_said_once_however_its_numbers_change(
        self, client: FakeClient, clock: Clock, caplog: pytest.LogCaptureFixture
    ) -> None:
        exchange = _exchange(_allocator(), client, clock)
        for seconds in range(5):
            client.fault = CoordinatorRefused(f"replaced {seconds} s ago", status=409, code="replaced")
            exchange.once()
        assert [r.message for r in caplog.records] == [
            "the coordinator refuses site 's', which goes on with its own view: replaced 0 s ago"
        ]
        assert exchange.said == "replaced 4 s ago"
        client.fault = CoordinatorRefused("no such token", status=401, code="no-token")
        exchange.once()
        assert len(caplog.records) == 2, "another reason is news"

    def test_numbers_that_lag_behind_are_left_out(self, client: FakeClient, clock: Clock) -> None:
        exchange = _exchange(_allocator(), client, clock)
        client.fault = CoordinatorRefused("not above", status=409, code="replayed")
        exchange.once()
        assert client.skipped == 1

    def test_a_folder_that_cannot_be_written_any_more_is_in_the_state(
        self, client: FakeClient, clock: Clock, caplog: pytest.LogCaptureFixture
    ) -> None:
        exchange = _exchange(_allocator(), client, clock)
        exchange.once()
        for number in range(3):
            client.fault = ControlFolderError(f"part-{number} cannot be written")
            exchange.once()
        assert exchange.state == "failed"
        assert exchange.said == "part-2 cannot be written"
        assert len(caplog.records) == 1

    @pytest.mark.parametrize("fault", [CoordinatorGone("nobody"), OSError(28, "No space left")])
    def test_goodbye_closes_even_if_nobody_hears_it(
        self, client: FakeClient, clock: Clock, fault: Exception
    ) -> None:
        client.fault = fault
        _exchange(_allocator(), client, clock).goodbye()
        assert client.closed


def _ticker(
    allocator: SiteAllocator, folder: Path, clock: Callable[[], float], **more: object
) -> Ticker:
    return Ticker(SharedSite(allocator), folder, [], clock=clock, wall=lambda: 7.0, **more)  # type: ignore[arg-type]


class TestTicker:
    def test_a_tick_decides_and_leaves_a_status(self, tmp_path: Path, clock: Clock) -> None:
        allocator = _allocator()
        _feed(allocator, clock.now, sic=0.3)
        ticker = _ticker(allocator, tmp_path, clock)
        ticker.once()
        status = json.loads((tmp_path / "status.json").read_text())
        assert status["site"] == "s"
        assert status["at"] == 7.0
        assert status["level"] is None, "infinite: nothing is shed"
        assert status["queries"]["q"]["accepted"] == pytest.approx(0.3)
        assert status["gates"]["g"].items() >= {"query": "q", "source": "s", "keep": 1.0}.items()
        assert status["gates"]["g"]["sic"] == pytest.approx(1e-4)
        assert status["gates"]["g"]["rows_per_s"] == pytest.approx(1000.0)
        assert status["streams"]["one"]["duration_s"] == 0.3
        assert [line["at"] for line in History(tmp_path / "sic.jsonl").lines()] == [7.0]
        json.dumps(status, allow_nan=False)

    def test_a_restart_goes_on_from_the_status(self, tmp_path: Path, clock: Clock) -> None:
        allocator = _allocator()
        _feed(allocator, clock.now, sic=0.3)
        allocator._capacity.trim = 0.4
        _ticker(allocator, tmp_path, clock).leave_status()
        again = SiteAllocator(SiteSettings("s", cores=2.0))
        _ticker(again, tmp_path, clock)
        assert again.trim == 0.4
        again.state.enter("g", query="q", source="s")
        assert again.state.gates["g"].agreed.usual == pytest.approx(10_000.0)

    @pytest.mark.parametrize(
        "text",
        ["", "{", "[]", "null", '{"learned": 3}', '{"learned": {"trim": 1, "usual": {}}}',
         '{"learned": {"trim": "x", "usual": {}, "prices": {}}}',
         '{"learned": {"trim": 1, "usual": [1, 2], "prices": {}}}',
         '{"learned": {"trim": NaN, "usual": {}, "prices": {}}}',
         '{"learned": {"trim": 1, "usual": {"g": "a"}, "prices": {}}}',
         '{"learned": {"trim": 1, "usual": {}, "prices": {"s": {"bound": 1}}}}'],
    )  # fmt: skip
    def test_a_status_that_is_none_is_no_reason_not_to_start(
        self, tmp_path: Path, clock: Clock, text: str
    ) -> None:
        (tmp_path / "status.json").write_text(text)
        allocator = _allocator()
        _ticker(allocator, tmp_path, clock).once()
        assert allocator.trim == 0.8

    def test_streams_at_work_are_asked_for(self, tmp_path: Path, clock: Clock) -> None:
        allocator = _allocator()
        _feed(allocator, clock.now, sic=0.3)
        ticker = _ticker(allocator, tmp_path, clock, at_work=lambda: ["one", "unknown"])
        clock.now += 100.0
        ticker.once()
        assert not allocator.state.streams["one"].silent(clock.now)

    def test_a_fault_does_not_end_the_site(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        allocator = _allocator(interval_s=0.02)
        faults = iter([ValueError("odd"), ValueError("odd"), None])
        decided: list[float] = []

        def decide(now: float) -> None:
            fault = next(faults, None)
            if fault is not None:
                raise fault
            decided.append(now)

        allocator.decide = decide  # type: ignore[method-assign]
        ticker = Ticker(SharedSite(allocator), tmp_path, [])
        with caplog.at_level(logging.WARNING, "headgate"):
            ticker.start()
            eventually(lambda: len(decided) > 2, "three decisions")
            ticker.stop()
        assert sum("odd" in record.message for record in caplog.records) == 1

    def test_a_slow_coordinator_does_not_hold_the_decisions_up(self, tmp_path: Path) -> None:
        hang = threading.Event()

        class Slow(FakeClient):
            def exchange(self, queries: Mapping[str, QueryReport]) -> Reply:
                hang.wait(10.0)
                return super().exchange(queries)

        site = SharedSite(_allocator(interval_s=0.02))
        client = Slow()
        ticker = Ticker(site, tmp_path, [Exchange(site, client, 0.02)])
        ticker.start()
        try:
            history = History(tmp_path / "sic.jsonl")
            eventually(lambda: len(list(history.lines())) > 5, "six lines of history")
            assert client.heard == []
        finally:
            hang.set()
            ticker.stop()
        assert client.left == [None]
        assert client.closed
        ticker.stop()
        assert client.left == [None], "the second stop does nothing"


class TestRealCoordinator:
    @pytest.fixture
    def journal(self, tmp_path: Path) -> Path:
        return tmp_path / "journal"

    @staticmethod
    @contextlib.contextmanager
    def _server(journal: Path, port: int = 0):  # type: ignore[no-untyped-def]
        pytest.importorskip("uvicorn", reason="pip install 'headgate[server]'")
        from headgate.coordinator.service import CoordinatorServer, ServiceSettings

        with contextlib.closing(Journal(journal)) as book:
            registry = Registry(RegistrySettings(lease_s=15, forget_s=600), journal=book)
            fast = ServiceSettings(site_rate=1000.0, site_burst=1000)
            with CoordinatorServer(
                registry, secret=None, host="127.0.0.1", port=port, settings=fast
            ) as server:
                yield server

    @pytest.fixture
    def sites(
        self, tmp_path: Path
    ) -> Iterator[Callable[[str, str], list[tuple[SiteAllocator, Exchange]]]]:
        made: list[Exchange] = []

        def make(url: str, query: str = "q") -> list[tuple[SiteAllocator, Exchange]]:
            pairs = []
            for name in ("rome", "oslo"):
                allocator = _allocator(name, source=f"{name}-cpu")
                client = CoordinatorClient(url, name, folder=tmp_path / name)
                exchange = Exchange(SharedSite(allocator), client, every_s=0.05)
                made.append(exchange)
                pairs.append((allocator, exchange))
            return pairs

        yield make
        for exchange in made:
            exchange.goodbye()

    def test_two_sites_exchange_sic_and_outlive_their_coordinator(
        self, sites, journal: Path, tmp_path: Path
    ) -> None:
        with self._server(journal) as server:
            url = server.url
            (rome, at_rome), (oslo, at_oslo) = sites(url)
            rome.state.will_measure("q")
            now = time.monotonic()
            _feed(rome, now, sic=0.2)
            _feed(oslo, now, sic=0.4)
            for _ in range(2):
                for exchange in (at_rome, at_oslo):
                    exchange.once()
            view = oslo.state.view("q", time.monotonic())
            assert view.told_by == "coordinator"
            assert view.sic == pytest.approx(0.2, rel=0.05), "the result's, measured in Rome"
            assert (view.sources, view.share) == (2, 0.5)
            assert rome.state.view("q", time.monotonic()).sources == 2
            port = int(url.rsplit(":", 1)[1])
        assert at_oslo.once() >= 0.1
        assert at_oslo.state == "gone"
        assert oslo.state.view("q", time.monotonic() + 11).told_by == "site"
        assert oslo.state.view("q", time.monotonic() + 11).sources == 2, (
            "how many sources there are stays"
        )
        with self._server(journal, port):
            for _ in range(2):
                for exchange in (at_rome, at_oslo):
                    exchange.once()
            assert at_oslo.state == "in touch"
            assert oslo.state.view("q", time.monotonic()).told_by == "coordinator"
            oslo.state.end("q")
            at_oslo.once()
            at_rome.once()
            assert rome.state.updates["q"].sources == 1, "who leaves is not counted any more"

    def test_a_source_that_two_sites_claim_is_refused_at_the_second(self, sites, journal: Path) -> None:
        with self._server(journal) as server:
            (_, at_rome), (oslo, at_oslo) = sites(server.url)
            oslo.state.end("q")
            oslo.state.enter("g", query="q", source="rome-cpu")
            at_rome.once()
            at_oslo.once()
            assert at_oslo.refused.keys() == {"q"}
            assert at_oslo.state == "in touch"
