"""A query is started once more for one reason only, and only once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from tests.harness.late_worker import LATE, run_stateful


class Queries:
    """Queries that fail with what is given, one after the other."""

    def __init__(self, checkpoint: Path, *errors: str | None) -> None:
        self._checkpoint, self._errors = checkpoint, list(errors)
        self.started = self.stopped = 0

    def start(self) -> Any:
        self.started += 1
        for name in ("offsets", "sources", "commits"):
            (self._checkpoint / name).mkdir(parents=True, exist_ok=True)
        (self._checkpoint / "metadata").write_text('{"id": "q"}')
        (self._checkpoint / "offsets" / "0").touch()
        return self

    def awaitTermination(self) -> None:
        error = self._errors.pop(0)
        if error is not None:
            raise StreamingQueryException(error)

    def stop(self) -> None:
        self.stopped += 1


def test_a_late_worker_is_given_another_chance_from_the_beginning(tmp_path: Path) -> None:
    queries = Queries(tmp_path, f"[STREAM_FAILED] {LATE}.", None)
    seen = []

    def start() -> Any:
        seen.append(sorted(path.name for path in tmp_path.iterdir()))
        return queries.start()

    assert run_stateful(start, tmp_path) is queries
    assert seen == [[], ["metadata"]], "the query keeps its id, and nothing else"
    assert (queries.started, queries.stopped) == (2, 1)


def test_what_was_committed_stays(tmp_path: Path) -> None:
    queries = Queries(tmp_path, LATE, None)
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "0").touch()
    run_stateful(queries.start, tmp_path)
    assert (tmp_path / "offsets" / "0").exists()


@pytest.mark.parametrize("errors", [("something else",), (LATE, LATE), (LATE, "something else")])
def test_any_other_error_and_a_second_one_are_the_tests(tmp_path: Path, errors: tuple[str, ...]) -> None:
    queries = Queries(tmp_path, *errors)
    with pytest.raises(StreamingQueryException, match=errors[-1]):
        run_stateful(queries.start, tmp_path)
    assert queries.started == len(errors)
