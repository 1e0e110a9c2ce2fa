"""Kills at random instants: nothing lost, nothing doubled, and the same rows again.

`headgate bench kills` does the same a hundred times.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from rich.progress import Progress

from headgate.errors import HeadgateError
from headgate.store.single_process_lock import single_process_lock
from headgate.testing.faults.victim import Victim
from headgate_lab.bench.kills import kills
from headgate_lab.bench.kills.executors import Executors
from headgate_lab.bench.kills.kills import Soak, SoakFailed


@pytest.mark.parametrize("end", [KeyboardInterrupt(), RuntimeError("a fault")])
def test_a_soak_that_is_broken_off_leaves_no_process_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: BaseException
) -> None:
    started: list[Victim] = []

    def driver(self: Soak, names: tuple[str, ...], how: str) -> Victim:
        started.append(Victim(["sleep", "300"], tmp_path / "log"))
        return started[-1]

    def break_off(*_: object) -> bool:
        raise end

    monkeypatch.setattr(Soak, "_driver", driver)
    monkeypatch.setattr(Soak, "_until", break_off)
    with Progress(disable=True) as progress, pytest.raises(type(end)):
        Soak(tmp_path).kill(1, progress)
    (child,) = started
    assert child.code == -signal.SIGKILL


def _pretend(self: Soak, names: tuple[str, ...], how: str) -> Victim:
    """A driver that is up at once, and works on nothing."""
    code = (
        "import pathlib, sys, time\nup = pathlib.Path(sys.argv[1])\nnew = up.with_suffix('.new')\n"
        "new.write_text(sys.argv[2])\nnew.rename(up)\ntime.sleep(300)\n"
    )
    at = [str(self.folder / "up"), str(self.state.attempts)]
    return Victim([sys.executable, "-c", code, *at], self.folder / "log")


def test_two_processes_cannot_be_at_one_soak(tmp_path: Path) -> None:
    with (
        single_process_lock(tmp_path / "lock", "taken"),
        pytest.raises(HeadgateError, match=r"another process is at the soak in .*--folder"),
    ):
        kills.run(kills=1, folder=tmp_path)
    assert not (tmp_path / "soak.json").exists(), "it did not begin"


def test_a_soak_in_parts_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Soak, "_driver", _pretend)
    monkeypatch.setattr(kills, "_EARLY_S", 0.0)
    monkeypatch.setattr(kills, "_WAIT_S", 0.2)
    with Progress(disable=True) as progress:
        assert Soak(tmp_path, seed=3).kill(1, progress)
        files = len(list((tmp_path / "in").glob("*.json")))
        again = Soak(tmp_path, seed=99)
        assert (again.state.seed, again.state.kills, again.state.files) == (3, 1, files)
        assert not again.kill(2, progress, until=0.0), "its time was over before it began"
        assert again.so_far(2)["context"]["kills"] == 1
        assert again.kill(2, progress)
    assert again.state.killed == {"gate": 2, "rand": 2, "guard": 1, "join": 1}


class _Executors:
    """A cluster that has always one to kill."""

    master = "spark://nowhere:7077"

    def __init__(self) -> None:
        self.killed = 0

    def kill_one(self, luck: random.Random) -> int:
        self.killed += 1
        return 1


def test_executors_are_killed_before_their_driver_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a driver that sees and commits a batch every few milliseconds."""
    masters: list[str] = []
    code = (
        "import pathlib, sys, time\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "seen, commits = folder / 'seen' / 'gate', folder / 'checkpoints' / 'gate' / 'commits'\n"
        "for at in (seen, commits):\n    at.mkdir(parents=True, exist_ok=True)\n"
        "(folder / 'up').write_text(sys.argv[2])\n"
        "for n in range(100000):\n"
        "    (seen / f'{n:06d}-0000.json').write_text('[]')\n"
        "    (commits / str(n)).write_text('')\n"
        "    time.sleep(0.01)\n"
    )

    def started(command: list[str], log: Path) -> Victim:
        masters.append(command[-1])
        return Victim([sys.executable, "-c", code, *command[3:5]], log)

    monkeypatch.setattr(kills, "Victim", started)
    for name in ("_EARLY_S", "_LATER_S", "_EXECUTOR_LATER_S"):
        monkeypatch.setattr(kills, name, 0.0)
    monkeypatch.setattr(kills, "add_input", lambda *_: None)
    cluster = _Executors()
    with Progress(disable=True) as progress:
        soak = Soak(tmp_path, seed=3, cluster=cast(Executors, cluster))
        assert soak.kill(2, progress)
    assert masters == [cluster.master] * 2
    assert 2 <= soak.state.executor_kills == cluster.killed <= 8
    assert len(soak.state.went_on_s) == cluster.killed, "and each time the gate went on"
    assert Soak(tmp_path).state.executor_kills == cluster.killed, "it is remembered"


def test_drivers_that_end_by_themselves_end_the_soak(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Soak, names: tuple[str, ...], how: str) -> Victim:
        return Victim([sys.executable, "-c", "raise SystemExit('no disk')"], self.folder / "log")

    monkeypatch.setattr(Soak, "_driver", broken)
    with Progress(disable=True) as progress, pytest.raises(SoakFailed, match="no disk"):
        Soak(tmp_path).kill(1, progress)


def test_parts_need_a_folder() -> None:
    command = [sys.executable, "-m", "headgate", "bench", "kills", "--minutes", "1"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 2
    assert "--folder" in done.stderr


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(1500)
def test_three_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    with Progress(disable=True) as progress:
        soak = Soak(tmp_path, seed=4)
        assert soak.kill(3, progress)
        result: dict[str, Any] = soak.finish(progress)
    lines = {line["query"]: line for line in result["context"]["tables"]["queries"]}
    for name in ("gate", "site", "join"):
        line = lines[name]
        assert (line["doubled"], line["wrong"]) == (0, 0), line
        assert line["jaccard"] in (None, 1.0), line
        assert (line["unbalanced"], line["differ"]) == (0, 0), line
    assert lines["gate"]["lost"] == lines["site"]["lost"] == 0, lines
    assert 0 < lines["join"]["kept"] < lines["join"]["arrived"], lines
    assert lines["gate"]["unsettled"] == lines["site"]["unsettled"] == 0, lines
    guard = lines["guard"]
    assert (guard["doubled"], guard["wrong"], guard["unbalanced"], guard["differ"]) == (0, 0, 0, 0)
    assert lines["gate"]["kept"] + lines["gate"]["repaid"] == lines["gate"]["arrived"]
