"""Any object of a control store cut off anywhere: nothing invented is read, and what is lost is told."""

from __future__ import annotations

import random
import shutil
import uuid
from pathlib import Path
from typing import Any

import pytest

from headgate.errors import DamagedFile
from headgate.settings import GateSettings
from headgate.store.ledger.audit import audit
from headgate.store.ledger.records import Ledger
from headgate.store.places.place import Place, control_place
from headgate.store.plans import PlanStore
from headgate.store.settings_file import SettingsFile
from headgate.testing.faults.faulty_s3 import FaultyS3
from headgate.testing.faults.folders import tear
from tests.harness.object_stores import faulty_s3 as faulty_s3
from tests.run.test_gate_run import OPEN, Job

BATCHES = 5


def _worked(control: Any) -> None:
    job = Job(control, GateSettings(rate=0.5))
    job.steps(BATCHES)


def _judged(control: Place, truth: dict[int, Any], what: str) -> None:
    """Read all that is left as an operator, a replay and a restart would."""
    (found,) = audit(control, "g")
    ledger = Ledger(control, "g", "q").records()
    assert all(truth[n] == record for n, record in ledger.items()), what
    assert found.consistent or found.damaged, what
    lost = set(truth) - set(ledger)
    told = {*found.unsettled, *found.begun, *found.missing}
    assert lost <= told or found.damaged, (what, lost, found.to_json())
    store = PlanStore(control, "g", "q")
    for batch in set(ledger) | set(store.pinned_batches()):
        plan = store.pin(batch, OPEN).plan
        assert plan == truth[batch].plan or batch not in ledger, (what, batch, plan)
    if "gate.json" in what:
        with pytest.raises(DamagedFile, match="remove it, and start the query"):
            SettingsFile(control, "g").effective()
    else:
        assert SettingsFile(control, "g").effective().rate == 0.5, what


def _cuts(size: int, luck: random.Random) -> list[int]:
    return sorted({0, size - 1, *(luck.randrange(size) for _ in range(2))})


def test_a_file_cut_off_anywhere(tmp_path: Path) -> None:
    luck, whole = random.Random(5), tmp_path / "whole"
    _worked(whole)
    truth = Ledger(whole, "g", "q").records()
    files = [p.relative_to(whole) for p in sorted(whole.rglob("*")) if p.is_file()]
    assert len(files) >= 8
    for name in files:
        for cut in _cuts((whole / name).stat().st_size, luck):
            control = tmp_path / uuid.uuid4().hex
            shutil.copytree(whole, control)
            tear(control / name, cut)
            _judged(control, truth, f"{name} cut at {cut}")
            shutil.rmtree(control)


def test_an_object_cut_off_anywhere(faulty_s3: FaultyS3) -> None:
    luck, control = random.Random(6), control_place("s3://bucket/control")
    _worked(control)
    truth = Ledger(control, "g", "q").records()
    whole = dict(faulty_s3.objects)
    for name, (data, written_at) in whole.items():
        for cut in _cuts(max(1, len(data)), luck):
            faulty_s3.objects.clear()
            faulty_s3.objects.update(whole)
            faulty_s3.objects[name] = data[:cut], written_at
            _judged(control, truth, f"{name} cut at {cut}")
