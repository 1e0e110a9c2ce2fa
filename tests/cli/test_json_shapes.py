"""docs/json.md against what the commands print: the keys of the one are the keys of the other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headgate.cli import main
from headgate.core.plan import Plan
from headgate.core.plan_parts import DrawLevel, WorkLimit
from headgate.demo.batches import Batch, Side
from headgate.demo.run import DemoResult
from headgate.settings import GateSettings
from headgate.sites.service.ticker import Ticker
from headgate.sites.shared import SharedSite
from headgate.sites.wire.protocol import QueryReport
from headgate.spark.backfill.repay import Repayment
from headgate.store.guards import declare_guard
from headgate.store.ledger.records import Ledger, Record
from headgate.store.plans import PlanStore
from headgate.store.settings_file import SettingsFile
from headgate_lab.demo.federation.outcome import Outcome, goals
from tests.coordinator.test_coordinator import SECRET, Service
from tests.sites.service.test_ticker import Clock, FakeClient, _allocator, _exchange, _feed

PAGE = (Path(__file__).parents[2] / "docs" / "json.md").read_text()
#: The keys below a key; `[]` is a list's items, `{}` is any name, None says no more.
Shape = dict[str, Any]


def documented(command: str) -> Shape:
    """The tree of keys that the page has for a command."""
    section = PAGE.split(f"\n## `{command}`\n")[1].split("\n## ")[0]
    shape: Shape = {}
    for row in re.findall(r"^\| (`.*?) \| ", section, re.MULTILINE):
        for path in re.findall(r"`([^`]+)`", row):
            at = shape
            for step in re.findall(r"\[\]|\{\}|[^.\[\]{}]+", path):
                at = at.setdefault(step, {})
    return shape


def differences(printed: Any, shape: Shape, where: str = "") -> Iterator[str]:
    """What is printed and not documented, and what is documented and not printed."""
    if not shape:
        return
    if "[]" in shape:
        if not isinstance(printed, list):
            yield f"{where} is no list"
            return
        for item in printed:
            yield from differences(item, shape["[]"], f"{where}[]")
        return
    if not isinstance(printed, dict):
        yield f"{where} is no object"
        return
    names = {name.rstrip("?"): name for name in shape if name != "{}"}
    for name, value in printed.items():
        if name in names:
            yield from differences(value, shape[names[name]], f"{where}.{name}")
        elif "{}" in shape:
            yield from differences(value, shape["{}"], f"{where}{{}}")
        else:
            yield f"{where}.{name} is printed and not documented"
    for name, written in names.items():
        if name not in printed and not written.endswith("?"):
            yield f"{where}.{name} is documented and not printed"


def printed(*arguments: object) -> Any:
    result = CliRunner().invoke(main, [*(str(a) for a in arguments), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def folder(control: Path) -> Path:
    """A gate with plans of every kind, and a guard."""
    SettingsFile(control, "rides").declare(GateSettings(hold="2 seconds"))
    store, ledger = PlanStore(control, "rides", "q1"), Ledger(control, "rides", "q1")
    store.beat()
    store.publish(Plan(0.5))
    level = DrawLevel(2.0, rule="senate", span_us=1, present="AA==")
    plans = [
        Plan(0.5, {1: 0.5}, {1: "one"}),
        Plan(0.5, draw=level),
        Plan(0.5, sic=0.1),
        Plan(0.5, work=WorkLimit(10.0)),
    ]
    for batch, plan in enumerate(plans):
        record = Record("rides", "q1", batch, arrived=10, kept=5, shed=5, plan=plan)
        ledger.append(record)
    declare_guard(control, "enrich", policy="balanced", target="average 1 s", target_s=1.0)
    return control


@pytest.mark.parametrize(
    "command",
    [
        ("ledger", "show"),
        ("ledger", "verify"),
        ("ledger", "prune"),
        ("status",),
        ("set", "rides", "--rate", "0.5"),
    ],
    ids=" ".join,
)
def test_commands_on_a_control_folder(folder: Path, command: tuple[str, ...]) -> None:
    words = [word for word in command if word in ("ledger", "show", "verify", "prune", "status", "set")]
    value = printed(*words, folder, *command[len(words) :])
    assert not list(differences(value, documented(f"headgate {' '.join(words)}")))
    lists = [name for name, item in value.items() if isinstance(item, list)]
    assert all(value[name] for name in lists), "an empty list shows nothing"


def test_a_site(tmp_path: Path) -> None:
    allocator, clock = _allocator("rome"), Clock()
    _feed(allocator, clock.now, sic=0.3)
    exchange = _exchange(allocator, FakeClient(), clock)
    site = tmp_path / "sites" / "rome"
    Ticker(SharedSite(allocator), site, [exchange], clock=clock).leave_status()
    value = printed("federation", "status", tmp_path)
    assert not list(differences(value, documented("headgate federation status")))
    (one,) = value["sites"]
    assert one["queries"]
    assert one["gates"]
    assert one["streams"]


def test_a_coordinator(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET)
    service = Service()
    with service.server:
        service.client("rome").exchange({"avg": QueryReport(("r",), ("r", "p"), True, 0.25)})
        value = printed("coordinator", "status", service.url, "--secret-file", secret)
    assert value["queries"]["avg"]["sites"]
    assert not list(differences(value, documented("headgate coordinator status")))


def test_the_demo() -> None:
    side = Side(1.0, 100.0, batches=[Batch(0, 100.0, 0.5, 1.0, 100, 20, 100.0)])
    value = DemoResult(1.0, 1000.0, 5000.0, 45.0, side, side).to_json()
    value |= {"plot": None, "control": "there"}  # as `headgate.cli.demo` adds them
    assert not list(differences(value, documented("headgate demo")))


def test_a_bench_and_a_figure() -> None:
    value = printed("bench", "themis-decision", "--quick")
    assert not list(differences(value, documented("headgate bench")))
    assert all(isinstance(ratio, int | float) for ratio in value["ratios"].values())
    value = printed("figures", "las-fig5", "--quick", "--runs", 1)
    assert value["rows"]
    assert value["claims"]
    assert not list(differences(value, documented("headgate figures")))


def test_a_federation() -> None:
    outcome = Outcome(
        shedding="mirror", times_s=[0.0, 1.0], sic={"a": [0.5, 0.5]}, accepted={"a": 0.5}, settle_s=0.0,
        optimum={"a": 0.6},
    )  # fmt: skip
    turns = {"mirror": outcome}
    value = {
        "turns": {name: one.to_json() for name, one in turns.items()},
        "goals": [vars(goal) for goal in goals(turns)],
        "plot": None,
        "folder": "there",
    }
    assert value["goals"]
    assert not list(differences(value, documented("headgate federation demo")))


def test_a_backfill() -> None:
    done = Repayment("rides", "q1", "/lake", left_open={3: "is gone"}, elsewhere=[4])
    value = {"control": "there", **done.to_json()}  # as `headgate.cli.backfill` prints it
    assert not list(differences(value, documented("headgate backfill")))


def test_every_command_with_json_is_documented() -> None:
    from tests.test_commands import with_option

    documented_ones = set(re.findall(r"^## `headgate ([^`]+)`$", PAGE, re.MULTILINE))
    for command in with_option("--json"):
        assert command in documented_ones or command.split()[0] in documented_ones, command


def test_a_key_too_many_or_too_few_is_found() -> None:
    shape = documented("headgate ledger prune")
    value = {"control": "c", "gates": [{"gate": "g", "new": 1}]}
    found = list(differences(value, shape))
    assert ".gates[].new is printed and not documented" in found
    assert ".gates[].pins is documented and not printed" in found
    assert ".dry_run is documented and not printed" in found
