"""The jobs of examples/ on a real broker, each until some batches are in its ledger."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headgate.spark.loop.loop import ControlLoop
from headgate.store.ledger.audit import audit
from headgate.testing.broker import Broker
from headgate.testing.bursts import Bursts, produce
from tests.eventually import eventually
from tests.harness.session_settings import FEW_ROWS, with_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples"
ROWS = 300


@pytest.fixture
def stage(
    kafka_spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from on_kafka import Stage

    store = "spark.sql.streaming.stateStore.providerClass"
    before = kafka_spark.conf.get(store)
    made = Stage(kafka_spark, broker.bootstrap, tmp_path)
    with with_settings(kafka_spark, FEW_ROWS), made.at_end:
        yield made
    kafka_spark.conf.set(store, before)


def _topics(broker: Broker, names: tuple[str, ...]) -> None:
    for name in names:
        broker.create_topic(name, 2)


@pytest.mark.parametrize(
    ("name", "gates"),
    [
        ("gate", {"rides"}),
        ("groups", {"medians"}),
        ("guard", {"enrich"}),
        # Joins and sites are tested on files; from topics they take half a minute each.
        pytest.param("join", {"pairs"}, marks=pytest.mark.long),
        pytest.param("site", {"rides", "requests"}, marks=pytest.mark.long),
    ],
)
def test_an_example_runs(name: str, gates: set[str], stage: Any, broker: Broker) -> None:
    script = runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name=f"example_{name}")
    _topics(broker, (*script["READS"], *script["WRITES"]))
    for seed, topic in enumerate(script["READS"]):
        produce(broker.bootstrap, topic, Bursts(base_rate=20_000, total=ROWS, seed=seed))
    queries = script["job"](stage)
    try:
        eventually(_seen(stage, gates, queries), f"every row in the ledgers of {gates}", within_s=240.0)
    finally:
        for query in queries:
            query.stop()
        ControlLoop.of(stage.spark).drain()
    found = {one.gate: one for one in audit(Path(stage.control))}
    assert found.keys() == gates
    assert all(one.balanced for one in found.values())
    assert all(one.kept > 0 for one in found.values())


def test_the_time_of_a_run_begins_when_its_first_batch_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from on_kafka import PATIENCE_S, Ending

    assert PATIENCE_S > 120.0
    slow = Ending(60.0, now=1000.0)
    assert not slow.reached(1100.0, batch_ended=False), "Spark is starting"
    assert not slow.reached(1120.0, batch_ended=True)
    assert not slow.reached(1179.0, batch_ended=True)
    assert slow.reached(1180.0, batch_ended=True)
    stuck = Ending(60.0, now=0.0)
    assert not stuck.reached(PATIENCE_S + 59.0, batch_ended=False)
    assert stuck.reached(PATIENCE_S + 60.0, batch_ended=False), "nobody waits for ever"
    assert not Ending(float("inf"), 0.0).reached(1e9, batch_ended=True), "until ctrl-C"


def test_what_an_example_says_of_a_gate_is_of_the_run_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from on_kafka import _words

    query = {"state": "shedding", "last_batch": 7, "last_duration_s": 1.93, "arrived": 200, "kept": 68}
    assert _words({"gate": "rides", "queries": [query]}) == (
        "rides: shedding, batch 7 took 1.9 s, 34% kept so far"
    )


@pytest.mark.long
@pytest.mark.parametrize("name", ["gate", "groups", "guard", "join", "site"])
def test_one_command_starts_it(name: str, tmp_path: Path) -> None:
    """With a broker and rows of its own, until its time is up; and its ledger is balanced."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), "--for", "60s"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    if "no artifact repository" in done.stderr:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    assert "the ledger is balanced" in done.stdout, done.stdout
    assert "failed" not in done.stdout


def _seen(stage: Any, gates: set[str], queries: list[Any]) -> Callable[[], bool]:
    def look() -> bool:
        for query in queries:
            assert query.isActive, query.exception()
        ControlLoop.of(stage.spark).drain()
        found = {one.gate: one.arrived for one in audit(Path(stage.control))}
        # A join counts comparisons; the others are to see every row that was sent.
        return found.keys() >= gates and all(
            arrived > 0 if gate == "pairs" else arrived >= ROWS for gate, arrived in found.items()
        )

    return look
