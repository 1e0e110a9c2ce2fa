"""Whoever does the upkeep of a process's gates, folder by folder."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.store.keeping import crew as crew_module
from headgate.store.keeping.crew import Crew
from headgate.store.keeping.upkeep import Upkeep
from tests.eventually import eventually


class Watched(Upkeep):
    """Counts how often somebody looked; in a folder that hangs nobody comes back from that."""

    looked = 0
    goes_on: threading.Event | None = None

    def step(self) -> bool:
        self.looked += 1
        if self.goes_on is not None:
            self.goes_on.wait()
        return False


@pytest.fixture
def crew(monkeypatch: pytest.MonkeyPatch) -> Crew:
    monkeypatch.setattr(crew_module, "_EVERY_S", 0.02)
    return Crew()


@pytest.fixture
def goes_on() -> Iterator[threading.Event]:
    found = threading.Event()
    yield found
    found.set()


def test_a_folder_that_hangs_keeps_no_other_folders_upkeep_waiting(
    crew: Crew, tmp_path: Path, goes_on: threading.Event
) -> None:
    hangs, well = (Watched(tmp_path / name, "g", "q") for name in ("hangs", "well"))
    hangs.goes_on = goes_on
    crew.take_on(hangs)
    eventually(lambda: hangs.looked, "that the first folder hangs")
    crew.take_on(well)
    crew.ask(tmp_path / "well")
    eventually(lambda: well.looked > 2, "the other one's upkeep")
    assert hangs.looked == 1
    assert crew.living(tmp_path / "hangs", "g") == {"q"}
    assert crew.living(tmp_path / "hangs", "another") == set()
    goes_on.set()
    eventually(lambda: hangs.looked > 1, "that it is taken up again")


def test_a_thread_ends_when_its_folder_has_no_run_and_begins_again(crew: Crew, tmp_path: Path) -> None:
    upkeep: Watched | None = Watched(tmp_path, "g", "q")
    assert upkeep is not None
    crew.take_on(upkeep)
    thread = crew._hands[tmp_path].thread
    assert thread is not None
    eventually(lambda: upkeep.looked, "its upkeep")
    upkeep = None

    def ended() -> bool:
        gc.collect()
        return not thread.is_alive()

    eventually(ended, "the thread's end")
    assert not crew._hands, "nothing is left of the folder"
    again = Watched(tmp_path, "g", "q")
    crew.take_on(again)
    eventually(lambda: again.looked, "its upkeep, again")
