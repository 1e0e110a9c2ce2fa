"""Claims where no hard links are, files cut off by a crash, and who may open what."""

from __future__ import annotations

import errno
import json
import logging
import multiprocessing
import os
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from headgate.cli import main
from headgate.core.plan import KEEP_ALL, Plan
from headgate.settings import GateSettings
from headgate.store import durable
from headgate.store.folder import claim_json, open_control_folder, read_json, unclaim, write_json
from headgate.store.ledger.audit import audit
from headgate.store.ledger.records import Ledger, Record
from headgate.store.places import local
from headgate.store.plans import PinnedPlan, PlanStore
from headgate.store.settings_file import SettingsFile
from tests.killed import killed_at

OPEN = PinnedPlan(KEEP_ALL, "fail-open")


@pytest.fixture(params=[errno.EPERM, errno.ENOTSUP])
def no_links(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """A file system without hard links."""

    def link(*_: object, **__: object) -> None:
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(os, "link", link)


def test_without_hard_links_racing_threads_agree(tmp_path: Path, no_links: None) -> None:
    with ThreadPoolExecutor(16) as pool:
        for number in range(4):
            path = tmp_path / f"{number}.json"
            results = list(pool.map(lambda n, p=path: claim_json(p, {"n": n}), range(32)))  # type: ignore[misc]
            assert all(r == results[0] for r in results)
            assert read_json(path) == results[0]
            unclaim(path)
    assert list(tmp_path.iterdir()) == []


def _claim(path: Path, barrier: object, answers: object, number: int) -> None:
    def link(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "no hard links")

    os.link = link  # type: ignore[assignment]
    barrier.wait()  # type: ignore[attr-defined]
    answers.put(claim_json(path, {"n": number}))  # type: ignore[attr-defined]


def test_without_hard_links_racing_processes_agree(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(6), context.Queue()
    path = tmp_path / "pin.json"
    tasks = [context.Process(target=_claim, args=(path, barrier, answers, n)) for n in range(6)]
    for task in tasks:
        task.start()
    found = [answers.get(timeout=60) for _ in tasks]
    for task in tasks:
        task.join(60)
    assert all(answer == found[0] for answer in found)
    assert read_json(path) == found[0]


@pytest.mark.parametrize("links", [True, False])
def test_a_claimant_killed_at_any_moment_blocks_nobody(
    tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not links:
        monkeypatch.setattr(os, "link", _no_link)
    for number in range(1, 60):
        path = tmp_path / str(number) / "pin.json"
        killed = killed_at(number, partial(claim_json, path, {"by": "the one that was killed"}))
        assert not path.exists() or read_json(path) is not None, "the name is only ever made whole"
        first = claim_json(path, {"by": "the next"})
        assert claim_json(path, {"by": "a third"}) == first == read_json(path)
        if not killed:
            break
    else:
        pytest.fail("it was always killed")


def _no_link(*_: object, **__: object) -> None:
    raise OSError(errno.ENOTSUP, "no hard links")


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("torn", ["", '{"plan":{"v":1,"def'])
def test_a_pin_that_was_cut_off_is_passed_over_and_all_agree_on_the_next(
    control: Path, torn: str, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not links:
        monkeypatch.setattr(os, "link", _no_link)
    store = PlanStore(control, "g", "q")
    store.beat()
    store.publish(Plan(0.3))
    path = store.folder / "pins" / f"{4:012d}.json"
    path.parent.mkdir(parents=True)
    path.write_text(torn)
    assert store.pinned(4) is None
    assert store.torn_pins() == [4]

    def task(number: int) -> PinnedPlan:
        mine = PlanStore(control, "g", "q")
        mine.publish(Plan(number / 100))
        return mine.pin(4, OPEN)

    with ThreadPoolExecutor(8) as pool:
        met = list(pool.map(task, range(1, 9)))
    assert all(pin == met[0] for pin in met)
    assert met[0].origin == "plan", "and not fail-open for ever"
    assert store.pinned(4) == met[0]


def _books(control: Path) -> PlanStore:
    SettingsFile(control, "g").declare(GateSettings(hold=2))
    store = PlanStore(control, "g", "q")
    store.beat()
    store.publish(Plan(0.4))
    for batch in range(3):
        store.pin(batch, OPEN)
        Ledger(control, "g", "q").append(Record("g", "q", batch, 100, 40, 60, Plan(0.4)))
    return store


def test_verify_reports_a_pin_that_was_cut_off_and_goes_on(control: Path) -> None:
    store = _books(control)
    (store.folder / "pins" / f"{1:012d}.json").write_text("")
    (found,) = audit(control)
    assert (found.torn_pins, found.batches, found.balanced) == ([1], 3, True)
    result = CliRunner().invoke(main, ["ledger", "verify", str(control)])
    assert result.exit_code == 0, result.output
    assert "pin that a crash cut off" in result.output


@pytest.mark.parametrize(
    "name", ["gate.json", "overrides.json", "queries/q/lease.json", "queries/q/plan.json"]
)
def test_status_and_verify_outlive_every_file_that_was_cut_off(control: Path, name: str) -> None:
    _books(control)
    (control / "gates" / "g" / name).write_text('{"v":')
    for command in (["status"], ["ledger", "show"], ["ledger", "verify"]):
        result = CliRunner().invoke(main, [*command, str(control)])
        assert result.exit_code == 0, (command, result.output, result.exception)
    shown = CliRunner().invoke(main, ["status", str(control)]).output
    assert "cannot be read" in shown or name in ("queries/q/lease.json", "queries/q/plan.json")


def test_a_plan_that_was_cut_off_is_no_plan_and_the_next_one_is_taken(control: Path) -> None:
    store = _books(control)
    (store.folder / "plan.json").write_text('{"plan":')
    assert store.current() is None
    assert store.pin(7, OPEN).origin == "start"
    store.publish(Plan(0.2), after=7)
    assert store.pin(8, OPEN).plan == Plan(0.2)


# -------------------------------------------------------------------------------- who may open what


@pytest.fixture
def umask() -> Iterator[Callable[[int], None]]:
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def _modes(control: Path) -> dict[str, int]:
    return {str(p.relative_to(control)): stat.S_IMODE(p.stat().st_mode) for p in control.rglob("*")}


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o027, 0o077])
def test_others_can_open_nothing_whatever_the_umask(
    control: Path, mask: int, umask: Callable[[int], None]
) -> None:
    umask(mask)
    open_control_folder(control)
    _books(control)
    modes = _modes(control)
    assert len(modes) > 10
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o007} == {}
    assert stat.S_IMODE(control.stat().st_mode) & 0o007 == 0
    group = 0o070 & ~mask
    assert {mode & 0o070 for mode in modes.values()} <= {group, group & 0o060}


def test_below_a_folder_shared_with_the_group_all_is_shared_with_the_group(
    control: Path, umask: Callable[[int], None]
) -> None:
    umask(0o077)
    control.mkdir()
    control.chmod(0o2770)
    _books(control)
    for name, mode in _modes(control).items():
        assert mode & 0o770 == (0o770 if (control / name).is_dir() else 0o660), name
        assert not mode & 0o007


def test_a_folder_that_everybody_may_change_is_warned_of_once(
    control: Path, caplog: pytest.LogCaptureFixture
) -> None:
    control.mkdir()
    control.chmod(0o777)
    with caplog.at_level(logging.WARNING, logger="headgate"):
        open_control_folder(control)
        open_control_folder(control)
    assert [r.getMessage().count("every user can change") for r in caplog.records] == [1]
    caplog.clear()
    other = control.with_name("sticky")
    other.mkdir()
    other.chmod(0o1777)
    with caplog.at_level(logging.WARNING, logger="headgate"):
        open_control_folder(other)
    assert not caplog.records


# -------------------------------------------------------------------------------- names are on disk


def test_names_are_synced_before_anyone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    for module in (local, durable):
        monkeypatch.setattr(module, "sync_folder", synced.append)
    claim_json(tmp_path / "pins" / "1.json", {"n": 1})
    assert synced.count(tmp_path / "pins") == 1
    assert tmp_path in synced, "the folder is new, too"
    synced.clear()
    write_json(tmp_path / "gate.json", 1)
    assert synced == [tmp_path]
    synced.clear()
    write_json(tmp_path / "plan.json", 1, lasting=False)
    assert synced == [], "what the next batch writes again waits for no disk"
    assert json.loads((tmp_path / "plan.json").read_text()) == 1
