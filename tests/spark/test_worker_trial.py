"""What a call says where Spark's workers cannot run what is sent to them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from headgate.errors import BadArgument, WorkerError
from headgate.spark.worker_trial import leave_mark, try_in_worker


class _Session:
    """Runs a function on one batch in this process, or fails as Spark does."""

    sparkContext = SimpleNamespace(pythonExec="/nosuch/python3")

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    def range(self, _: int) -> _Session:
        return self

    repartition = range

    def mapInArrow(self, function: Any, _: str) -> _Session:
        self._function = function
        return self

    def collect(self) -> list[Any]:
        if self._error is not None:
            raise self._error
        return list(self._function(iter(["batch"])))


def _try(session: Any, look: Any = lambda: None) -> None:
    try_in_worker(session, look, who="guard 'g'", sent="the function", needs="The folder must be there.")


def test_a_worker_that_can_leaves_nothing_behind(tmp_path: Path) -> None:
    looked = []
    _try(_Session(), lambda: looked.append(leave_mark(tmp_path, "g")))
    assert len(looked) == 1
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_travel_is_the_arguments_fault() -> None:
    with pytest.raises(BadArgument, match=r"guard 'g': the function cannot be sent.*TypeError: a lock"):
        _try(_Session(TypeError("a lock")))


def test_a_worker_that_fails_is_told_with_what_it_needs_and_which_python_it_is() -> None:
    said = r"cannot run it\. The folder must be there\. .*/nosuch/python3.*Spark said: no headgate"
    with pytest.raises(WorkerError, match=said):
        _try(_Session(PySparkException("no headgate")))
