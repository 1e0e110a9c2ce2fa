"""A store that lets two creators of a name win is found out, though it refuses one that comes later."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from headgate.spark.doctor import store_trial
from headgate.spark.doctor.executors import Reached
from headgate.spark.doctor.machines import look_at_executors
from headgate.store.places.local import LocalFiles


class LooksThenWrites(LocalFiles):
    """As servers on one machine do it: whoever looks while another one writes finds nothing."""

    def __init__(self) -> None:
        self._looking = threading.Barrier(store_trial._RACERS)

    def create(self, at: Path, data: bytes) -> bytes:
        there = self.get(at)
        if at.parent.name == "raced":
            self._looking.wait(30.0)
        if there is not None:
            return there.data
        self.put(at, data)
        return data


def test_one_creator_wins_in_a_folder(tmp_path: Path) -> None:
    assert store_trial.raced(tmp_path)[0] == 0


def test_a_store_that_looks_first_and_writes_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LooksThenWrites()
    assert store.create(tmp_path / "x", b'"first"') == b'"first"'
    assert store.create(tmp_path / "x", b'"second"') == b'"first"', "the one that comes later is refused"
    monkeypatch.setattr(store_trial, "store_of", lambda _: store)
    wrong, races = store_trial.raced(tmp_path)
    assert wrong == races


def test_medians_are_by_operation(tmp_path: Path) -> None:
    ticks = iter(range(1000))
    found = store_trial.timed(tmp_path, clock=lambda: next(ticks) / 1000)
    assert found == dict.fromkeys(("create", "get", "list", "delete"), 1.0)


def _answer(host: str = "a", **changed: object) -> dict[str, object]:
    versions = {
        "python": "3.11.7",
        "pyspark": "4.3.0",
        "pyarrow": "19.0.1",
        "numba": "1",
        "protobuf": "6",
    }
    store = {"sees_driver": True, "error": None, "won": [], "ms": {"get": 1.0}}
    base = {
        "host": host, "versions": versions, "headgate": "1", "headgate_from": "/x/headgate/__init__.py",
        "headgate_error": None, "java": "17.0.1", "store": store, "clock_off_s": 0.0,
    }  # fmt: skip
    return json.loads(json.dumps(base | changed))  # type: ignore[no-any-return]


DRIVER = {"headgate": "1", "java": "17.0.2", "versions": _answer()["versions"]}


@pytest.mark.parametrize(
    ("changed", "check", "level", "says"),
    [
        ({"headgate": "2"}, "headgate", "problem", "1 of 2 executors (such as b) have Headgate 2"),
        ({"headgate_error": "ModuleNotFoundError: x"}, "headgate", "problem", "cannot import Headgate"),
        ({"versions": {"pyspark": "4.3.0"}}, "versions", "problem", "has no pyarrow"),
        ({"versions": {"pyspark": "4.2.0", "pyarrow": "19"}}, "versions", "problem", "pyspark 4.2.0"),
        ({"versions": {"pyspark": "4.3.0", "pyarrow": "18"}}, "versions", "warning", "pyarrow 18"),
        ({"java": "21"}, "versions", "warning", "Java 21"),
        ({"clock_off_s": -9.0}, "clocks", "warning", "at least 9.0 s behind"),
        (
            {"store": {"sees_driver": False, "error": None, "won": [], "ms": {}}},
            *("store on executors", "problem", "do not find what the driver wrote"),
        ),
        (
            {"store": {"sees_driver": False, "error": "OSError: refused", "won": [], "ms": {}}},
            *("store on executors", "problem", "OSError: refused"),
        ),
    ],
)
def test_what_one_executor_lacks_is_found(
    changed: dict[str, object], check: str, level: str, says: str
) -> None:
    reached = Reached([_answer(), _answer("b", **changed)], known=2)
    found = list(look_at_executors(reached, DRIVER, Path("/c"), with_store=True))
    (finding,) = (f for f in found if f.check == check)
    assert finding.level == level
    assert says in finding.found
    assert finding.next_step


def test_two_tasks_that_both_created_a_name_are_a_problem() -> None:
    reached = Reached([_answer()], known=1, winners={"race-0": 1, "race-1": 2})
    found = {f.check: f for f in look_at_executors(reached, DRIVER, Path("/c"), with_store=True)}
    assert found["atomic create on executors"].level == "problem"


def test_executors_that_took_no_task_are_counted() -> None:
    reached = Reached([_answer()], known=3)
    first = next(iter(look_at_executors(reached, DRIVER, Path("/c"), with_store=True)))
    assert (first.level, first.found) == ("warning", "1 of 3 executors took a task (a).")
