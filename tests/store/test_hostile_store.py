"""Whoever can write to a control store can write anything: nothing there ends a query in an odd way."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.core.batch_size import BatchSize, RowsExpected, Sizing
from headgate.core.groups import GroupStats, Strata
from headgate.core.load import Budget
from headgate.core.offer import Offer
from headgate.core.plan import Plan
from headgate.core.plan_parts import DrawLevel, RowDraw, WorkLimit
from headgate.core.row_budget import RowBudget
from headgate.core.row_sic import RowSic
from headgate.core.time_grant import TimeGrant
from headgate.errors import HeadgateError
from headgate.settings import GateSettings
from headgate.store.folder import read_json, write_json
from headgate.store.gate_files.gate_call import GateCall
from headgate.store.gate_files.recipes import followed_in
from headgate.store.lease import Holder
from headgate.store.ledger.audit import audit
from headgate.store.ledger.record import Findings, Record
from headgate.store.ledger.records import Ledger
from headgate.store.plans import PinnedPlan, PlanStore
from headgate.store.repaid.marks import Mark
from headgate.store.settings_file import SettingsFile
from headgate.store.stored_json import parsed_json
from tests.hostile import VALUES, mangled, texts

_PLAN = Plan(
    0.5,
    {7: 1.0, 9: 0.25},
    {7: "Paris"},
    DrawLevel(2.0, rule="senate", span_us=5, present="abc"),
    WorkLimit(100.0, 2.0),
    RowDraw(0.5, (0.1, 1.0), "items"),
    0.1,
)
_FITS = RowBudget(1.0, 0.1, 0.001, 0.0001, 100.0, 1000.0, 0.1, 1.0, grant=TimeGrant(10.0, 1.0, 2.0))
_ROW_SIC = RowSic.from_json(dict.fromkeys(RowSic.__dataclass_fields__, 2))
_SIZING = Sizing.from_json([[0, "bytes", 500.0, 2000.0, 0.25, -1.4, 0.0, 1]])
_OFFER = Offer(
    Budget(0.5, "shedding", "why", sic=0.5, fits=_FITS, row_sic=_ROW_SIC),
    GroupStats({1: 2, 3: 4}, 6, {"a": 1}, Strata(2, (1.0, 2.0), 0.5), 5, "x"),
    _SIZING,
)
_EXPECTED = RowsExpected(5.0, "offsets", (BatchSize(5, "offsets"),))
_RECORD = Record(
    "rides", "q", 3, 10, 5, 5, _PLAN,
    offsets=[{"description": "Kafka", "endOffset": {"rides": {"0": 5}}}],
    parts_ms={"addBatch": 1},
    found=Findings({"price": 5}, {"queue_ms": 1.5}, [[0.0, 1.0, 0.0, 1.0, 0.0]]),
)  # fmt: skip

#: What is written, what reads it back, and what is done with what was read.
_READ: dict[str, tuple[Any, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "plan": (
        _PLAN.to_json(),
        Plan.from_json,
        lambda plan: (plan.digest, plan.to_json(), plan.keeps_everything, plan.thresholds()),
    ),
    "pin": (
        PinnedPlan(_PLAN, "plan", "shape", "note", "run", 2, _EXPECTED).to_json(),
        PinnedPlan.from_json,
        lambda pin: (pin.sized, json.dumps(pin.to_json())),
    ),
    "offer": (
        _OFFER.to_json(),
        Offer.from_json,
        lambda offer: (offer.at(100.0, 2.0), json.dumps(offer.to_json())),
    ),
    "sizing": (
        _SIZING.to_json(),
        Sizing.from_json,
        lambda sizing: sizing.rows((BatchSize(3, "bytes"),)),
    ),
    "call": (GateCall(1, 2, _PLAN, _OFFER).to_json(), GateCall.from_json, GateCall.to_json),
    "settings": (
        GateSettings(hold="2 seconds").to_json(),
        GateSettings.from_json,
        lambda given: (given.controller_config().build(), given.target_s, given.retention_s),
    ),
    "changed settings": (
        {"hold": 2.0, "mode": "shed", "min_keep": 0.1, "inside": 0.9, "retention": "7 days"},
        lambda value: GateSettings(hold=1.0).changed(value),
        lambda given: (given.controller_config().build(), given.target_s),
    ),
    "record": (
        _RECORD.to_json(),
        Record.from_json,
        lambda record: (record.balanced, json.dumps(record.to_json())),
    ),
    "holder": (
        {"owner": "o", "host": "h", "boot": "b", "pid": 1, "pid_started": "x", "released": False},
        Holder.from_json,
        lambda holder: holder and (holder.described, holder.surely_gone()),
    ),
    "mark": (
        {"slice": "s", "to": "t", "rows": {"1": 2}, "seconds": 1.0, "at": 2.0},
        Mark.from_json,
        lambda mark: mark,
    ),
}


@pytest.mark.parametrize("name", _READ)
def test_what_was_changed_by_somebody_is_read_or_refused_in_words(name: str) -> None:
    written, read, use = _READ[name]
    whole = json.loads(json.dumps(written))
    use(read(whole))

    @given(mangled(whole) | st.sampled_from(VALUES))
    def tried(value: Any) -> None:
        with contextlib.suppress(HeadgateError):  # it is refused, in words
            use(read(value))

    tried()


def test_a_text_of_brackets_alone_and_half_a_pair_are_values_like_others() -> None:
    with pytest.raises(ValueError, match="nested too deep"):
        parsed_json(b"[" * 200_000)
    with pytest.raises(ValueError, match="codec"):
        parsed_json(b'"\xff"')
    assert parsed_json(b'"\\ud83d\\ude00 and \\ud83d"') == "\U0001f600 and ?"


@pytest.mark.parametrize("torn", [b"[" * 200_000, b"", b"\xff", b"[1, 2]", b"7", b'"plan"', b"null"])
def test_no_file_of_the_store_ends_a_batch(tmp_path: Path, torn: bytes) -> None:
    """Whatever is in the files, a batch has a plan, or a refusal that the task's fallback catches."""
    SettingsFile(tmp_path, "rides").declare(GateSettings(hold="2 seconds"))
    store = PlanStore(tmp_path, "rides", "q")
    store.publish(_PLAN)
    (store.folder / "plan.json").write_bytes(torn)
    assert store.published() is None
    fallback = PinnedPlan(Plan(1.0), "fail-open")
    assert store.pin(1, fallback).plan == Plan(1.0)
    (tmp_path / "gates" / "rides" / "overrides.json").write_bytes(torn)
    if torn == b"null":
        assert SettingsFile(tmp_path, "rides").effective() == GateSettings(hold=2.0)
    else:
        with pytest.raises(HeadgateError, match=r"overrides.json' is damaged"):
            SettingsFile(tmp_path, "rides").effective()
    (store.folder / "recipes.json").write_bytes(torn)
    assert followed_in(tmp_path, "rides", "q") == []


_LINE = _RECORD.to_json()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=mangled(json.loads(json.dumps(_LINE))))
def test_a_changed_line_of_the_ledger_costs_its_own_batch_at_most(tmp_path: Path, value: Any) -> None:
    ledger = Ledger(tmp_path, "rides", "q")
    path = tmp_path / "gates" / "rides" / "queries" / "q" / "ledger" / "00000000.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = json.dumps(_RECORD.to_json() | {"batch": 4}, separators=(",", ":"))
    path.write_text(json.dumps(value, separators=(",", ":")) + "\n" + whole + "\n")
    assert ledger.record(4) is not None
    assert 4 in ledger.records()
    assert set(ledger.records(4, 4)) == {4}
    assert ledger.settled({4}) == {4}
    assert ledger.last_batch() >= 4
    assert ledger.tail(5)
    assert ledger.totals().all.batches >= 1
    (found,) = audit(tmp_path, "rides", "q")
    json.dumps(found.to_json())


def test_a_line_that_is_no_record_is_told_by_an_audit(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "rides", "q")
    ledger.append(_RECORD)
    path = next((tmp_path / "gates" / "rides" / "queries" / "q" / "ledger").glob("*.jsonl"))
    line = json.loads(path.read_text())
    with path.open("a") as file:
        file.write(json.dumps(line | {"batch": 4, "arrived": "10"}) + "\n")
    assert set(Ledger(tmp_path, "rides", "q").records()) == {3}
    (found,) = audit(tmp_path, "rides", "q")
    assert not found.consistent
    assert found.damaged == {
        "batch 4": "SnapshotError: a line of the ledger is no record (arrived is '10')"
    }


@given(text=texts())
def test_any_text_lasts_in_the_store_or_as_nearly_as_text_can(text: str) -> None:
    stored = json.dumps({"why": text}).encode()
    assert parsed_json(stored) == {"why": text.encode("utf-8", "replace").decode()}


def test_a_name_is_no_path(tmp_path: Path) -> None:
    for name in ("../x", "a/b", "", ".", "..", "a\x00b", "a\nb", "x" * 65, "\u0661\u0660/"):
        with pytest.raises(HeadgateError):
            SettingsFile(tmp_path, name)
    write_json(tmp_path / "x.json", {"a": float("nan")})
    assert str(read_json(tmp_path / "x.json")["a"]) == "nan"
