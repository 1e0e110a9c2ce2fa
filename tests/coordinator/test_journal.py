"""What a coordinator remembers over a restart, whatever the clocks do meanwhile."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.coordinator.journal import Journal
from headgate.coordinator.registry import Registry, RegistrySettings
from headgate.errors import ControlFolderError, CoordinatorRefused, SnapshotError
from headgate.sites.wire.protocol import Leave, QueryReport, Report
from headgate.testing.clock import ManualClock

A, B = "a" * 32, "b" * 32


class Life:
    """One process: its monotonic clock begins anywhere, its wall clock where it is told."""

    def __init__(self, folder: Path, began: float, wall: float) -> None:
        self.clock = ManualClock(began)
        self.journal = Journal(folder, clock=self.clock, wall=lambda: wall)
        self.registry = Registry(RegistrySettings(), clock=self.clock, journal=self.journal)

    def report(self, seq: int, site: str = "rome", who: str = A, **queries: QueryReport) -> None:
        self.registry.report(Report(site, who, seq, queries), f"{seq}{queries}")


def test_everything_that_matters_comes_back(tmp_path: Path) -> None:
    life = Life(tmp_path, 7_000.0, 1e9)
    declared = ("r", "p", "b")
    avg = QueryReport(("r",), declared, True, 0.31, 0.2, 2.0, 3)
    life.report(4, avg=avg, top=QueryReport(("t",)))
    life.report(9, "paris", B, avg=QueryReport(("p",)))
    life.registry.leave(Leave("paris", B, 10), "gone")
    life.clock.sleep(2)
    life.report(5, avg=QueryReport(("r",), declared, True, None, 0.2, 2.0, 3), top=QueryReport(("t",)))
    before = life.registry.view()
    life.journal.close()

    life = Life(tmp_path, 3.0, 1e9 + 2 + 30)  # it was down for 30 s
    after = life.registry.view()
    assert after["queries"].keys() == before["queries"].keys()
    for name in ("sic", "sources", "weight", "priority", "root", "missing"):
        assert after["queries"]["avg"][name] == before["queries"]["avg"][name]
    assert after["queries"]["avg"]["age_s"] == pytest.approx(32)
    assert after["sites"]["rome"]["heard_s"] == pytest.approx(30)
    assert after["sites"]["paris"]["state"] == "left"
    with pytest.raises(CoordinatorRefused) as caught:
        life.report(5, avg=avg)
    assert caught.value.code == "replayed"
    life.report(6, avg=avg)
    life.journal.close()


def test_the_last_report_is_answered_again_after_a_restart(tmp_path: Path) -> None:
    life = Life(tmp_path, 0.0, 1e9)
    life.report(4, avg=QueryReport(("r",)))
    life.journal.close()
    life = Life(tmp_path, 0.0, 1e9 + 1)
    life.report(4, avg=QueryReport(("r",)))
    with pytest.raises(CoordinatorRefused):
        life.report(4, avg=QueryReport(("other",)))
    life.journal.close()


def test_replaced_incarnations_stay_replaced(tmp_path: Path) -> None:
    life = Life(tmp_path, 0.0, 1e9)
    life.report(1)
    life.clock.sleep(20)
    life.report(1, who=B)
    life.report(2, who=B)
    life.journal.close()
    life = Life(tmp_path, 0.0, 1e9 + 500)
    with pytest.raises(CoordinatorRefused) as caught:
        life.report(99)
    assert caught.value.code == "replaced"
    life.journal.close()


def test_a_restart_renews_leases(tmp_path: Path) -> None:
    """Nobody could report while the service was down, so nobody lost a name by it."""
    life = Life(tmp_path, 0.0, 1e9)
    life.report(1, avg=QueryReport(("r",), root=True))
    life.journal.close()
    life = Life(tmp_path, 0.0, 1e9 + 300)
    with pytest.raises(CoordinatorRefused) as caught:
        life.report(1, who=B)
    assert caught.value.code == "site-taken"
    life.clock.sleep(15.5)
    life.report(1, who=B)
    life.journal.close()


@pytest.mark.parametrize(
    ("jump", "sic", "age"),
    [
        (0.0, 0.5, 3.0),  # at once
        (-1e6, 0.5, 3.0),  # the wall clock went back: not younger than when it was heard
        (60.0, 0.5, 63.0),
        (1e7, None, None),  # or forward by months: too old to be told
    ],
)
def test_a_wall_clock_that_jumps_while_it_is_down(
    tmp_path: Path, jump: float, sic: float | None, age: float | None
) -> None:
    life = Life(tmp_path, 0.0, 1e9)
    life.report(1, avg=QueryReport(("r",), root=True, result_sic=0.5))
    life.clock.sleep(3)
    life.report(2, avg=QueryReport(("r",), root=True))
    life.journal.close()
    life = Life(tmp_path, 0.0, 1e9 + 3 + jump)
    query = life.registry.view()["queries"]["avg"]
    assert query["sic"] == sic
    assert query["age_s"] == (None if age is None else pytest.approx(age))
    assert query["sources"] == 1, "what a site holds does not go by the wall clock"
    life.journal.close()


def test_a_wall_clock_that_jumps_while_it_runs_changes_nothing(tmp_path: Path) -> None:
    wall = ManualClock(1e9)
    clock = ManualClock(0.0)
    journal = Journal(tmp_path, clock=clock, wall=wall)
    registry = Registry(clock=clock, journal=journal)
    entry = {"avg": QueryReport(("r",), root=True, result_sic=0.5)}
    registry.report(Report("rome", A, 1, entry), "1")
    wall.sleep(1e7)
    clock.sleep(1)
    reply = registry.report(Report("rome", A, 2, {"avg": QueryReport(("r",), root=True)}), "2")
    assert (reply.queries["avg"].sic, reply.queries["avg"].age_s) == (0.5, 1.0)
    journal.close()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[sqlite3.Connection]]:
    """The connections that were opened, in order."""
    made: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def noted(*args: Any, **more: Any) -> sqlite3.Connection:
        made.append(connect(*args, **more))
        return made[-1]

    monkeypatch.setattr(sqlite3, "connect", noted)
    yield made
    for one in made:
        one.close()


def is_closed(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("SELECT 1")
    except sqlite3.ProgrammingError:
        return True
    return False


@pytest.mark.slow
def test_one_coordinator_has_the_folder(tmp_path: Path, opened: list[sqlite3.Connection]) -> None:
    first = Journal(tmp_path)
    with pytest.raises(ControlFolderError, match="in use by another coordinator: stop that one"):
        Journal(tmp_path)
    assert [is_closed(one) for one in opened] == [False, True]
    first.close()
    Journal(tmp_path).close()


def test_what_is_no_journal_is_told(tmp_path: Path, opened: list[sqlite3.Connection]) -> None:
    (tmp_path / "coordinator.db").write_bytes(b"not a database, and longer than a header" * 40)
    with pytest.raises(
        ControlFolderError, match=r"no journal of a coordinator, or is damaged.*move it away"
    ):
        Journal(tmp_path)
    assert [is_closed(one) for one in opened] == [True]
    (tmp_path / "file").write_text("")
    with pytest.raises(ControlFolderError, match="give a folder that this process can write"):
        Journal(tmp_path / "file" / "state")


def test_a_journal_of_another_version_is_told_and_left_alone(
    tmp_path: Path, opened: list[sqlite3.Connection]
) -> None:
    Journal(tmp_path).close()
    with sqlite3.connect(tmp_path / "coordinator.db") as db:
        db.execute("PRAGMA user_version = 7")
    db.close()
    with pytest.raises(SnapshotError, match="version 7, and this Headgate knows version 1"):
        Journal(tmp_path)
    assert all(is_closed(one) for one in opened)


def test_a_change_that_fails_halfway_is_not_there(tmp_path: Path) -> None:
    life = Life(tmp_path, 0.0, 1e9)
    life.report(1, avg=QueryReport(("r",)))
    life.journal._db.execute(
        "CREATE TRIGGER no BEFORE INSERT ON sics BEGIN SELECT RAISE(FAIL, 'full'); END"
    )
    with pytest.raises(ControlFolderError, match="full"):
        life.report(2, avg=QueryReport(("r", "s"), root=True, result_sic=0.5))
    life.journal._db.execute("DROP TRIGGER no")
    life.report(2, top=QueryReport(("t",)))
    life.journal.close()
    life = Life(tmp_path, 0.0, 1e9)
    view = life.registry.view()["queries"]
    assert {name: query["sources"] for name, query in view.items()} == {"avg": 1, "top": 1}
    life.journal.close()
