"""A batch that runs again into a sink that has it: nobody reads it, and its record stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate import LoadSample, Uniform
from headgate.core.witness import Witness
from headgate.run.gate_report import BatchReport
from headgate.run.gate_run import GateRun
from headgate.run.gate_spec import GateSpec
from headgate.settings import GateSettings
from headgate.spark.gate.meter import witness_in
from headgate.store.ledger.records import Ledger
from headgate.store.plans import PlanStore


def _report(batch: int, arrived: int, kept: int, witness: Witness | None) -> BatchReport:
    return BatchReport(
        query="q",
        sample=LoadSample(batch, 1e9 + batch, 0.5, arrived, kept),
        weight=2.0 if kept else None,
        witness=witness,
        fingerprint=f"{kept:016x}-{kept:x}",
    )


@pytest.fixture
def spec(control: Path) -> GateSpec:
    """A gate that has recorded two batches."""
    found = GateSpec("g", control, GateSettings(rate=0.5), Uniform())
    run = GateRun(found, "q")
    for batch in range(2):
        run.handle(_report(batch, 100, 50, Witness(100, passes_over=True)))
    return found


def test_its_record_stands_and_the_next_batch_is_taken_up(spec: GateSpec, control: Path) -> None:
    run = GateRun(spec, "q")
    assert run.handle(_report(1, 0, 0, Witness(0, passes_over=True))) is None
    assert run.last_batch == 1
    run.handle(_report(2, 80, 40, Witness(80, passes_over=True)))
    ledger = Ledger(control, "g", "q")
    assert [(r.batch, r.arrived) for r in ledger.lines()] == [(0, 100), (1, 100), (2, 80)]
    assert not any(r.evidence.doubt for r in ledger.lines())
    assert PlanStore(control, "g", "q").current() is not None


@pytest.mark.parametrize(
    ("arrived", "witness"),
    [
        (0, Witness(0)),  # another sink takes the batch again, and got nothing
        (0, Witness(100, passes_over=True)),  # it was read
        (0, None),
        (60, Witness(60, passes_over=True)),
    ],
)
def test_any_other_batch_that_keeps_other_rows_is_doubtful(
    spec: GateSpec, control: Path, arrived: int, witness: Witness | None
) -> None:
    GateRun(spec, "q").handle(_report(1, arrived, arrived // 2, witness))
    records = Ledger(control, "g", "q").records()
    assert "kept other rows than before" in records[1].evidence.doubt


def test_an_empty_batch_that_is_new_is_recorded(spec: GateSpec, control: Path) -> None:
    GateRun(spec, "q").handle(_report(2, 0, 0, Witness(0, passes_over=True)))
    assert Ledger(control, "g", "q").records()[2].arrived == 0


@pytest.mark.parametrize(
    ("sink", "knows"),
    [
        ("FileSink[file:/out]", True),
        ("DeltaSink[/lake/kept]", True),
        ("ForeachBatchSink", False),
        ("org.apache.spark.sql.execution.datasources.noop.NoopTable$@1", False),
    ],
)
def test_which_sinks_pass_over_a_batch_that_they_have(sink: str, knows: bool) -> None:
    progress = {"sink": {"description": sink}, "sources": [], "numInputRows": 0}
    assert witness_in(progress).passes_over is knows
