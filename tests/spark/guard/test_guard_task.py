"""The guard in a worker, on a clock that only the guarded function moves."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import headgate as hg
from headgate.guards.inline_policy import InlinePolicy
from headgate.spark.guard import learned
from headgate.spark.guard import task as guard_task
from headgate.spark.guard.memory import GuardMemory
from headgate.spark.guard.output import OUTCOMES, Shaper
from headgate.spark.guard.terms import GuardTerms, TaskId
from headgate.store.lease import this_process
from headgate.testing.clock import ManualClock
from headgate.testing.faults.folders import FOLDER_FAULTS, full
from headgate_lab.papers.las.exact import ExactCosts

START = 1_700_000_000.0
OWN = [
    pa.field("_queue_ms", pa.float64()), pa.field("_cost_ms", pa.float64()),
    pa.field("_weight", pa.float64()),
]  # fmt: skip
END = [pa.field("_headgate_outcome", pa.int8()), pa.field("_headgate_rows", pa.int64())]


class Bench:
    """A worker whose rows cost what `costs` says, by key."""

    def __init__(self, costs: dict[str, float], **changes: Any) -> None:
        self.clock = ManualClock(START)
        self.costs = costs
        on_error = changes.get("on_error", "fail")
        error = [pa.field("_error", pa.string())] if on_error == "keep" else []
        settings: dict[str, Any] = {
            "name": "g",
            "function": self.row,
            "form": "row",
            "columns": ("k", "at"),
            "inputs": ("k", "at"),
            "keys": ("k",),
            "arrival": "at",
            "protected": None,
            "weights": None,
            "output": pa.schema([pa.field("out", pa.string()), *OWN, *error, *END]),
            "policy": InlinePolicy("balanced", hg.average("1 second")),
            "control": None,
            "on_error": "fail",
            "dead_letters": None,
            "chunk": 16,
            "seed": 3,
            "streaming": True,
            "call": "here",
            "clock": self.clock,
            "stopwatch": self.clock,
        }
        self.terms = GuardTerms(**{**settings, **changes})

    def row(self, row: Any) -> dict[str, str]:
        self.clock.sleep(self.costs[row.k])
        return {"out": row.k.upper()}

    def batch(
        self, keys: list[str | None], every_s: float, until: float | None = None
    ) -> pa.RecordBatch:
        """Rows that arrived one after another, the last one just now."""
        now = self.clock() if until is None else until
        ats = [now - every_s * (len(keys) - 1 - i) for i in range(len(keys))]
        stamps = pa.array([datetime.fromtimestamp(a, UTC) for a in ats], pa.timestamp("us", "UTC"))
        return pa.RecordBatch.from_arrays([pa.array(keys, pa.string()), stamps], ["k", "at"])

    def run(self, *batches: pa.RecordBatch, task: TaskId | None = None) -> list[dict[str, Any]]:
        work = guard_task._Work(self.terms, task or TaskId("q", 0, 0, "run"))
        rows = [row for done in work.run(iter(batches)) for row in done.to_pylist()]
        work.finish()
        return rows


@pytest.fixture(autouse=True)
def _forget() -> None:
    learned._REMEMBERED.clear()


def counts(rows: list[dict[str, Any]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in rows:
        name = OUTCOMES[row["_headgate_outcome"]]
        found[name] = found.get(name, 0) + row["_headgate_rows"]
    return found


def kept(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [r for r in rows if r["_headgate_outcome"] <= 1]


def test_with_time_for_all_nothing_is_dropped_and_all_is_measured() -> None:
    bench = Bench({"a": 0.002, "b": 0.004})
    rows = bench.run(bench.batch(["a", "b", "a"], 0.01))
    assert counts(rows) == {"kept": 3}
    assert [r["out"] for r in rows] == ["A", "B", "A"]
    assert [r["_weight"] for r in rows] == [1.0, 1.0, 1.0]
    assert [r["_cost_ms"] for r in rows] == pytest.approx([2, 4, 2], abs=0.01)
    assert [r["_queue_ms"] for r in rows] == pytest.approx([20, 12, 6], abs=0.01)


def warm(bench: Bench, batches: int = 12, rows: int = 300) -> None:
    """Some batches at a third of capacity, after which the run is not cold any more."""
    for number in range(batches):
        keys = ["dear" if i % 10 == 0 else "cheap" for i in range(rows)]
        bench.run(bench.batch(keys, 0.003), task=TaskId("q", number, 0, "run"))
        bench.clock.sleep(0.7)


COSTS = {"cheap": 0.0005, "dear": 0.005}


@pytest.mark.parametrize("policy", ["balanced", "hard", "soft", "las", "full-knowledge"])
def test_every_policy_holds_the_average_in_overload(policy: str) -> None:
    """3,000 rows a second, 2.85 s of work, in batches of a second or as long as they take."""
    bench = Bench(COSTS, policy=InlinePolicy(policy, hg.average("1 second")))
    warm(bench)
    waits: list[float] = []
    dropped = total = 0
    began = bench.clock()
    for number in range(12, 42):
        span = max(1.0, bench.clock() - began)
        bench.clock.sleep(max(0.0, began + 1.0 - bench.clock()))
        began = bench.clock()
        count = int(3000 * span)
        keys = ["dear" if i % 10 == 0 else "cheap" for i in range(count)]
        rows = bench.run(bench.batch(keys, span / count), task=TaskId("q", number, 0, "run"))
        if number >= 22:
            waits += [r["_queue_ms"] for r in kept(rows)]
            total += count
            dropped += sum(n for k, n in counts(rows).items() if k != "kept")
    assert sum(waits) / len(waits) < 1150
    assert dropped / total > 0.33
    # One second has room for 2,000 cheap rows of 3,000: nobody can drop less than a third.
    assert dropped / total < (0.4 if policy in ("balanced", "hard") else 0.75)


def _traced(policy: str) -> tuple[np.ndarray, np.ndarray]:
    """Six seconds of rows that take twelve, in batches of a quarter of a second or as long as they take.

    How long each waited (not a number: dropped), and which ones are dear. It is the trace of
    `tests/lab/spark/test_guarded_traces.py`, where it runs on Spark.
    """
    costs = {"cheap": 0.01, "dear": 0.11}
    bench = Bench(costs, policy=InlinePolicy(policy, hg.average("1 second")))
    due = START + 0.01 * np.arange(600)
    keys = ["dear" if i % 10 == 0 else "cheap" for i in range(len(due))]
    waits, done, number = np.full(len(due), np.nan), 0, 0
    while done < len(due):
        bench.clock.sleep(0.25)
        upto = int(np.searchsorted(due, bench.clock(), side="right"))
        if upto == done:
            continue
        batch = bench.batch(keys[done:upto], 0.01, until=float(due[upto - 1]))
        batch = batch.append_column("seq", pa.array(range(done, upto)))
        bench.terms = replace(
            bench.terms, columns=("k", "at", "seq"), inputs=("k", "at", "seq"),
            output=pa.schema([pa.field("seq", pa.int64()), *OWN, *END]),
            function=lambda row: (bench.clock.sleep(costs[row.k]), (row.seq,))[1],
        )  # fmt: skip
        for row in kept(bench.run(batch, task=TaskId("q", number, 0, "run"))):
            waits[row["seq"]] = row["_queue_ms"] / 1e3
        done, number = upto, number + 1
    return waits, np.array([key == "dear" for key in keys])


def test_a_trace_waits_far_less_than_without_a_guard_and_loses_its_dear_rows() -> None:
    """By a clock that nothing but the rows moves: how busy the machine is cannot change it."""
    unguarded, _ = _traced("none")
    waits, dear = _traced("balanced")
    later = slice(len(waits) // 2, None)
    assert not np.isnan(unguarded).any()
    assert np.nanmean(waits[later]) < 0.25 * unguarded[later].mean()
    assert np.nanmean(waits) < 1.1, "the target is an average of 1 s"
    lost = np.isnan(waits)
    assert 0.0 < lost.mean() < 0.35
    assert lost[dear].mean() > 3 * lost[~dear].mean()
    blind, _ = _traced("las")
    assert lost.mean() < 0.6 * np.isnan(blind).mean(), "which drops as much work, and twice the rows"


def test_a_batch_whose_costs_double_still_ends_near_its_target() -> None:
    costs = dict(COSTS)
    bench = Bench(costs)
    warm(bench)
    bench.costs = {key: 2 * cost for key, cost in COSTS.items()}
    keys = ["dear" if i % 10 == 0 else "cheap" for i in range(2500)]  # 4.75 s of work
    began = bench.clock()
    rows = bench.run(bench.batch(keys, 0.0004), task=TaskId("q", 12, 0, "run"))
    assert bench.clock() - began < 2.2
    assert counts(rows)["kept"] > 600


def test_a_cold_start_with_a_huge_backlog_ends_near_the_target() -> None:
    bench = Bench(COSTS)
    keys = ["dear" if i % 10 == 0 else "cheap" for i in range(50_000)]  # 47 s of work, an hour old
    began = bench.clock()
    rows = bench.run(bench.batch(keys, 0.07))
    assert kept(rows)[0]["_queue_ms"] > 3e6, "what is shown is the real wait"
    assert bench.clock() - began < 3.0
    assert counts(rows)["kept"] > 1000


@pytest.mark.parametrize("ahead_rows", [1, 700, 50_000])
def test_every_row_is_accounted_for_however_many_are_taken_in_at_once(ahead_rows: int) -> None:
    bench = Bench(COSTS, ahead_rows=ahead_rows)
    warm(bench)
    batches = [
        bench.batch(["dear" if i % 10 == 0 else "cheap" for i in range(500)], 0.0005) for _ in range(6)
    ]
    began = bench.clock()
    rows = bench.run(*batches, task=TaskId("q", 12, 0, "run"))
    found = counts(rows)
    assert sum(found.values()) == 3000
    assert found["kept"] > 1000
    assert bench.clock() - began < 1.5


def test_protected_rows_are_never_dropped() -> None:
    bench = Bench(COSTS, protected="must")
    warm_batch = bench.batch(["dear"] * 900, 0.001)
    flags = pa.array([i % 3 == 0 for i in range(900)])
    rows = bench.run(warm_batch.append_column("must", flags))
    assert counts(rows)["kept"] >= 300
    assert sum(n for k, n in counts(rows).items()) == 900


def test_weights_multiply_with_those_that_rows_bring() -> None:
    bench = Bench(COSTS, weights="_weight_in")
    batch = bench.batch(["cheap", "dear"], 0.01).append_column("_weight_in", pa.array([4.0, 2.0]))
    assert [r["_weight"] for r in bench.run(batch)] == [4.0, 2.0]


def test_a_row_that_brings_no_weight_stands_for_itself() -> None:
    bench, weights = Bench(COSTS, weights="_weight_in"), pa.array([4.0, None], pa.float64())
    batch = bench.batch(["cheap", "dear"], 0.01).append_column("_weight_in", weights)
    assert [r["_weight"] for r in bench.run(batch)] == [4.0, 1.0]


def test_weighted_counts_stand_for_all_rows() -> None:
    bench = Bench(COSTS, policy=InlinePolicy("soft", hg.average("1 second")))
    warm(bench)
    arrived = estimated = 0.0
    for number in range(12, 60):
        keys = ["dear" if i % 10 == 0 else "cheap" for i in range(2000)]
        rows = bench.run(bench.batch(keys, 0.0005), task=TaskId("q", number, 0, "run"))
        late = counts(rows).get("latency", 0)  # dropped without a coin: in no weight
        arrived += 2000 - late
        estimated += sum(r["_weight"] for r in kept(rows))
    assert estimated == pytest.approx(arrived, rel=0.03)


def test_null_keys_and_null_arrivals_are_rows_like_others() -> None:
    bench = Bench({"a": 0.001}, function=lambda row: (str(row.k),))
    batch = bench.batch(["a", None], 0.01)
    stamps = pa.array([None, None], pa.timestamp("us", "UTC"))
    rows = bench.run(batch.set_column(1, "at", stamps))
    assert [r["out"] for r in rows] == ["a", "None"]
    assert [r["_queue_ms"] for r in rows] == [0.0, 0.0]


def test_another_target_does_not_inherit_the_averages_of_the_old_one(tmp_path: Path) -> None:
    """Else a mean above the new target would drop every row for ever."""
    tasks = [TaskId("q", n, 0, "run") for n in range(8)]
    bench = Bench(COSTS, control=str(tmp_path), policy=InlinePolicy("balanced", hg.average("90 s")))
    GuardMemory(tmp_path, "g", bench.terms.policy).note_warm("q", "run")
    bench.run(bench.batch(["cheap"] * 500, 0.1), task=tasks[0])
    for number, target in enumerate([hg.average("1 s"), hg.sliding("1 s"), hg.absolute("1 s")], 1):
        policy = InlinePolicy("balanced", target)
        bench.terms = GuardTerms(**{**bench.terms.__dict__, "policy": policy})
        bench.clock.sleep(1.0)
        rows = bench.run(bench.batch(["cheap"] * 50, 0.001), task=tasks[number])
        assert counts(rows) == {"kept": 50}


@pytest.mark.parametrize("policy", ["las", "straw-man", "none", 0.1, "sliding"])
def test_a_policy_changed_in_one_process_begins_anew(policy: Any) -> None:
    bench = Bench(COSTS)
    bench.run(bench.batch(["cheap"] * 20, 0.001))
    target = hg.sliding("1 s") if policy == "sliding" else hg.average("1 s")
    changed = InlinePolicy("balanced" if policy == "sliding" else policy, target)
    bench.terms = GuardTerms(**{**bench.terms.__dict__, "policy": changed})
    assert counts(bench.run(bench.batch(["cheap"] * 20, 0.001)))["kept"] >= 10


def test_a_batch_frames_rows_wait_from_their_arrival_every_time() -> None:
    bench = Bench(COSTS, streaming=False)
    for _ in range(4):
        rows = bench.run(
            bench.batch(["cheap"] * 20, 0.001, until=START - 3600), task=TaskId("b", 0, 0, None)
        )
        assert counts(rows) == {"latency": 20}


def test_two_queries_of_one_guard_are_warm_each_for_itself(tmp_path: Path) -> None:
    memory = GuardMemory(tmp_path, "g", InlinePolicy("balanced", hg.average("1 second")))
    memory.note_warm("q", "run-1")
    memory.note_warm("r", "run-2")
    assert (memory.warm_run("q"), memory.warm_run("r")) == ("run-1", "run-2")


def test_a_row_is_read_by_its_names_and_a_list_is_one_value() -> None:
    from pyspark.sql import Row

    shape = Shaper(["low", "high"])
    assert list(shape(Row(high=2.0, low=1.0))) == [1.0, 2.0]
    assert list(Shaper(["tags"])(["a", "b"])) == [["a", "b"]]


def test_lessons_are_of_the_keys_that_came_most_often() -> None:
    shedder = InlinePolicy("none", hg.average("1 second")).build(ExactCosts(), 0.0, 1, None)
    for number in range(9000):
        shedder.done(number, 0.001, 0.0)
    shedder.done(8999, 0.003, 0.0)
    lessons = list(shedder.lessons())
    assert len(lessons) == 8192
    assert lessons[0][1:] == (2, pytest.approx(0.002))


def failing(row: Any) -> tuple[str]:
    if row.k == "bad":
        raise KeyError("no such user")
    return (row.k,)


def test_a_failing_row_fails_the_task_with_its_key() -> None:
    bench = Bench({}, function=failing)
    with pytest.raises(hg.GuardedFunctionError, match=r"'bad'.*no such user.*dead-letter"):
        bench.run(bench.batch(["a", "bad"], 0.01))


def test_a_failing_row_goes_to_the_dead_letters(tmp_path: Path) -> None:
    bench = Bench({}, function=failing, on_error="dead-letter", dead_letters=str(tmp_path / "dead"))
    for _ in range(2):  # a task that runs again replaces its letters
        rows = bench.run(bench.batch(["a", "bad", "b"], 0.01))
    assert counts(rows) == {"kept": 2, "dead_letter": 1}
    (path,) = (tmp_path / "dead").iterdir()
    (letter,) = map(json.loads, path.read_text().splitlines())
    assert letter["row"]["k"] == "bad"
    assert "no such user" in letter["error"]
    bench.run(bench.batch(["a", "b"], 0.01))
    assert not list((tmp_path / "dead").iterdir()), "nothing failed this time"


def test_a_failing_row_is_passed_on_with_its_error() -> None:
    bench = Bench({}, function=failing, on_error="keep")
    rows = bench.run(bench.batch(["a", "bad"], 0.01))
    assert counts(rows) == {"kept": 1, "failed": 1}
    assert (rows[1]["out"], rows[1]["_weight"]) == (None, 1.0)
    assert "no such user" in rows[1]["_error"]


@pytest.mark.parametrize(
    ("result", "said"),
    [((1, 2), "2 values"), ({"other": 1}, "no 'out'"), (([1, 2],), "'out'")],
)
def test_a_result_that_does_not_fit_is_the_functions_error(result: Any, said: str) -> None:
    bench = Bench({}, function=lambda row: result)
    with pytest.raises(hg.GuardedFunctionError, match=said):
        bench.run(bench.batch(["a"], 0.01))


def test_a_misfit_among_good_results_is_set_aside_alone(tmp_path: Path) -> None:
    wrong = lambda row: ([1] if row.k == "bad" else row.k,)  # noqa: E731
    bench = Bench({}, function=wrong, on_error="dead-letter", dead_letters=str(tmp_path))
    rows = bench.run(bench.batch(["a", "bad", "b"], 0.01))
    assert counts(rows) == {"kept": 2, "dead_letter": 1}
    assert [r["out"] for r in kept(rows)] == ["a", "b"]


def chunk_function(bench: Bench, form: str) -> Callable[[Any], Any]:
    def pandas(frame: Any) -> Any:
        bench.clock.sleep(sum(bench.costs[k] for k in frame.k))
        return frame.k.str.upper().to_frame("out")

    def arrow(rows: pa.RecordBatch) -> pa.RecordBatch:
        values = rows.column("k").to_pylist()
        bench.clock.sleep(sum(bench.costs[k] for k in values))
        return pa.RecordBatch.from_arrays([pa.array([v.upper() for v in values])], ["out"])

    return pandas if form == "pandas" else arrow


@pytest.mark.parametrize("form", ["pandas", "arrow"])
def test_batch_functions_share_their_time_among_rows_by_what_explains_it(form: str) -> None:
    bench = Bench(COSTS, form=form)
    bench.terms = GuardTerms(**{**bench.terms.__dict__, "function": chunk_function(bench, form)})
    luck = np.random.default_rng(5)
    for number in range(40):
        keys = ["dear" if luck.random() < 0.1 else "cheap" for _ in range(400)]  # 0.95 ms a row
        rows = bench.run(bench.batch(keys, 0.0025), task=TaskId("q", number, 0, "run"))
    assert counts(rows) == {"kept": 400}
    assert [r["out"] for r in rows] == [k.upper() for k in keys]
    assert sum(r["_cost_ms"] for r in rows) == pytest.approx(1e3 * sum(COSTS[k] for k in keys), rel=1e-5)
    shares = {k: [r["_cost_ms"] for r, key in zip(rows, keys, strict=True) if key == k] for k in COSTS}
    means = {k: sum(v) / len(v) for k, v in shares.items()}
    assert means["cheap"] == pytest.approx(0.5, rel=0.25)
    assert means["dear"] == pytest.approx(5.0, rel=0.25)


@pytest.mark.parametrize("form", ["pandas", "arrow"])
def test_a_chunk_that_fails_is_tried_row_by_row(form: str, tmp_path: Path) -> None:
    def pandas(frame: Any) -> Any:
        if (frame.k == "bad").any():
            raise KeyError("no such user")
        return frame.k.to_frame("out")

    def arrow(rows: pa.RecordBatch) -> pa.RecordBatch:
        if "bad" in rows.column("k").to_pylist():
            raise KeyError("no such user")
        return pa.RecordBatch.from_arrays([rows.column("k")], ["out"])

    bench = Bench(
        {}, function=pandas if form == "pandas" else arrow, form=form, on_error="dead-letter",
        dead_letters=str(tmp_path),
    )  # fmt: skip
    rows = bench.run(bench.batch(["a", "bad", "b"], 0.01))
    assert counts(rows) == {"kept": 2, "dead_letter": 1}
    assert [r["out"] for r in kept(rows)] == ["a", "b"]


def test_a_batch_function_that_returns_other_rows_is_told() -> None:
    bench = Bench({}, function=lambda frame: frame[["k"]].rename(columns={"k": "out"}).head(1))
    bench.terms = GuardTerms(**{**bench.terms.__dict__, "form": "pandas"})
    with pytest.raises(hg.GuardedFunctionError, match="given 2 rows and returned 1"):
        bench.run(bench.batch(["a", "b"], 0.01))


def test_what_one_worker_learned_another_knows(tmp_path: Path) -> None:
    policy = InlinePolicy("balanced", hg.average("1 second"))
    bench = Bench(COSTS, control=str(tmp_path), policy=policy)
    bench.run(bench.batch(["dear", "cheap"] * 20, 0.01), task=TaskId("q", 0, 0, "run"))
    memory = GuardMemory(tmp_path, "g", policy)
    from headgate.sketches.keys import stable_key

    seen = memory.costs("q", 1)  # not merged yet: the lesson is read
    assert seen.duration(stable_key("dear")) == pytest.approx(0.005, rel=0.01)
    assert memory.costs("q", 0).frequency(stable_key("dear")) == 0, "a replay does not learn from itself"
    assert memory.merge("q", 0) == 1
    assert memory.merge("q", 0) == 0
    merged = GuardMemory(tmp_path, "g", policy).costs("another query", 0)
    assert merged.duration(stable_key("dear")) == pytest.approx(0.005, rel=0.01)


@pytest.mark.parametrize("junk", ["{", "[]", '{"v": 99}', '{"v": 1, "costs": "AAAA", "through": {}}'])
def test_a_damaged_memory_is_learned_again(tmp_path: Path, junk: str) -> None:
    policy = InlinePolicy("balanced", hg.average("1 second"))
    bench = Bench(COSTS, control=str(tmp_path), policy=policy)
    folder = tmp_path / "gates" / "g"
    (folder / "queries" / "q" / "queues").mkdir(parents=True)
    (folder / "costs.json").write_text(junk)
    (folder / "queries" / "q" / "queues" / "0.json").write_text(junk)
    rows = bench.run(bench.batch(["dear", "cheap"], 0.01), task=TaskId("q", 0, 0, "run"))
    assert counts(rows) == {"kept": 2}


@pytest.mark.parametrize("fault", FOLDER_FAULTS)
def test_a_task_outlasts_every_fault_of_the_control_folder(fault: str, tmp_path: Path) -> None:
    """All of them in the worker itself; what was learned may be lost, and no row is."""
    control = tmp_path / "control"
    bench = Bench(COSTS, control=str(control), driver=this_process())

    def batch(number: int) -> dict[str, int]:
        rows = bench.run(bench.batch(["dear", "cheap"] * 20, 0.01), task=TaskId("q", number, 0, "run"))
        return counts(rows)

    assert batch(0) == batch(1) == {"kept": 40}
    with FOLDER_FAULTS[fault](control):
        assert batch(2) == {"kept": 40}
    assert batch(3) == {"kept": 40}
    memory = GuardMemory(control, "g", bench.terms.policy)
    assert memory.costs("q", 4).mean > 0.0, "it learns again"


def test_rows_that_failed_and_cannot_be_written_fail_their_task_in_words(tmp_path: Path) -> None:
    bench = Bench({}, function=failing, on_error="dead-letter", dead_letters=str(tmp_path / "dead"))
    said = r"guard 'g': 1 rows of batch 0 failed and cannot be written .*No space left.*on_error="
    with full(tmp_path), pytest.raises(hg.ControlFolderError, match=said):
        bench.run(bench.batch(["a", "bad"], 0.01))
    assert counts(bench.run(bench.batch(["a", "bad"], 0.01))) == {"kept": 1, "dead_letter": 1}


def test_a_control_folder_that_is_gone_does_not_stop_the_task(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    bench = Bench(COSTS, control=str(in_the_way))
    assert counts(bench.run(bench.batch(["dear"], 0.01))) == {"kept": 1}
