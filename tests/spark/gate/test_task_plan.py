"""What a task knows of the query that it works for."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from headgate.spark.gate import task_plan
from headgate.spark.gate.task_plan import batch_of_task, run_of_task

RUN = "d3a0b007-d953-4eff-b8db-b806453c28c4"


def _in_a_task(monkeypatch: pytest.MonkeyPatch, **properties: str) -> None:
    context = SimpleNamespace(getLocalProperty=lambda name: properties.get(name.replace(".", "_")))
    monkeypatch.setattr(task_plan, "TaskContext", SimpleNamespace(get=lambda: context))


@pytest.mark.parametrize(
    ("group", "run"),
    [(RUN, RUN), ("nightly report", ""), (f"report {RUN}", ""), (RUN.upper(), ""), ("", ""), (None, "")],
)
def test_only_what_spark_calls_a_run_is_one(
    monkeypatch: pytest.MonkeyPatch, group: str | None, run: str
) -> None:
    _in_a_task(monkeypatch, **({} if group is None else {"spark_jobGroup_id": group}))
    assert run_of_task() == run


def test_a_task_of_a_stream_knows_its_query_and_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert batch_of_task() is None, "no task"
    _in_a_task(monkeypatch, sql_streaming_queryId="q", streaming_sql_batchId="7")
    assert batch_of_task() == ("q", 7)
    _in_a_task(monkeypatch, sql_streaming_queryId="q")
    assert batch_of_task() is None, "no stream's"
