"""``headgate backfill``: what it hands to `hg.repay`, and what it says; without Spark."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headgate.cli import main
from headgate.core.plan import Plan
from headgate.spark.backfill.repay import Repayment
from headgate.store.ledger.records import Ledger, Record


@pytest.fixture
def asked(control: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    Ledger(control, "rides", "q1-long").append(Record("rides", "q1-long", 0, 10, 5, 5, Plan(0.5)))
    seen: list[dict[str, Any]] = []

    def repaid(control: str, gate: str, to: str, given: dict[str, Any], *more: Any) -> Repayment:
        seen.append({"gate": gate, "to": to, **given})
        left = {3: "is [gone]"} if given["batches"] == [3] else {}
        elsewhere = [4] if given["batches"] == [4] else []
        return Repayment(
            gate, "q1-long", to, rows=5, batches=1, slices=1, left_open=left, elsewhere=elsewhere
        )

    module = importlib.import_module("headgate.cli.backfill")  # the package has the command of that name
    monkeypatch.setattr(module, "_repaid", repaid)
    return seen


def _run(control: Path, *more: str) -> Any:
    words = ["backfill", "--control", str(control), "--gate", "rides", "--to", "/lake", *more]
    return CliRunner().invoke(main, words)


def test_what_is_given_arrives(control: Path, tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    secret = tmp_path / "options.json"
    secret.write_text(json.dumps({"kafka.sasl.jaas.config": "hunter2"}))
    more = ["--query", "q1", "--batches", "1,3-5", "--rate", "100", "--since", "2 days"]
    more += ["--options-file", str(secret), "--option", "a=b=c", "--prepare", "json:dumps"]
    result = _run(control, *more)
    assert result.exit_code == 0, result.output
    (given,) = asked
    assert (given["query"], given["batches"], given["rows_per_s"]) == ("q1-long", [1, 3, 4, 5], 100.0)
    assert given["options"] == {"kafka.sasl.jaas.config": "hunter2", "a": "b=c"}
    assert given["prepare"] is json.dumps
    assert (given["since"], given["slice_batches"], given["format"]) == ("2 days", 100, "parquet")
    assert "5 rows of 1 batches repaid" in result.output
    assert "hunter2" not in result.output


def test_the_exit_code_says_what_is_left(control: Path, asked: list[dict[str, Any]]) -> None:
    left = _run(control, "--batches", "3")
    assert (left.exit_code, "batch 3 is [gone]" in left.output) == (3, True)
    assert _run(control, "--batches", "4").exit_code == 4
    value = json.loads(_run(control, "--json").stdout)
    assert value["complete"] is True


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--batches", "a-b"], "12,15-20"),
        (["--batches", "1-99999999"], "a million"),
        (["--option", "plain"], "NAME=VALUE"),
        (["--prepare", "nowhere.module:f"], "MODULE:FUNCTION"),
        (["--prepare", "json"], "no colon"),
        (["--prepare", "..json:dumps"], "MODULE:FUNCTION"),
        (["--batches", "\u00b2"], "12,15-20"),
        (["--query", "other"], "no query"),
        (["--format", "avro"], "avro"),
    ],
)
def test_what_cannot_be_is_said(
    control: Path, asked: list[dict[str, Any]], more: list[str], says: str
) -> None:
    result = _run(control, *more)
    assert result.exit_code != 0
    assert says in result.output
    assert not asked
