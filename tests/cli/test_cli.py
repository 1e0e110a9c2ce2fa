"""The command line on control folders made by hand; no Spark."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from headgate import __version__
from headgate.cli import main
from headgate.cli.plumbing import LazyGroup
from headgate.core.plan import KEEP_ALL, Plan
from headgate.settings import GateSettings
from headgate.store.guards import declare_guard
from headgate.store.ledger.records import Evidence, Ledger, Record
from headgate.store.plans import PinnedPlan, PlanStore
from headgate.store.settings_file import SettingsFile
from tests.view.virtual_gate import VirtualGate

QUERY = "3f2a9c1e-0000-4000-8000-000000000001"
HALF = Plan(0.5)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def record(batch: int, **changes: object) -> Record:
    base = Record(
        gate="rides",
        query=QUERY,
        batch=batch,
        arrived=1000,
        kept=500,
        shed=500,
        plan=HALF,
        state="shedding",
        why="2000 rows expected, whole batch forecast at 4.00 s against 2.00 s",
        started_at=1_700_000_000.0 + batch,
        duration_s=1.5,
        delay_s=2.25,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


@pytest.fixture
def folder(control: Path) -> Path:
    """A gate that shed half of five batches, with its driver alive."""
    SettingsFile(control, "rides").declare(GateSettings(hold="2 seconds"))
    store = PlanStore(control, "rides", QUERY)
    store.beat()
    store.publish(HALF)
    ledger = Ledger(control, "rides", QUERY)
    for batch in range(5):
        store.pin(batch, PinnedPlan(KEEP_ALL, "fail-open"))
        ledger.append(record(batch))
    return control


def one_line(result: Result) -> str:
    """The error: exit code 2, one line on standard error, nothing on standard output."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.strip().splitlines()
    assert "Traceback" not in line
    return line


# -- ledger show


def test_show_has_a_row_for_each_batch(folder: Path) -> None:
    result = run("ledger", "show", folder)
    assert result.exit_code == 0
    assert f"gate rides, query {QUERY}" in result.stdout.replace("\n", " ").replace("  ", " ")
    assert result.stdout.count("shedding") == 5
    for text in ("1,000", "500", "50.00%"):
        assert text in result.stdout


def test_show_last_takes_the_latest(folder: Path) -> None:
    value = json.loads(run("ledger", "show", folder, "--last", 2, "--json").stdout)
    (ledger,) = value["ledgers"]
    assert ledger["batches"] == 5
    assert [r["batch"] for r in ledger["records"]] == [3, 4]
    assert ledger["records"][0]["digest"] == HALF.digest


def test_show_marks_a_batch_that_does_not_add_up(folder: Path) -> None:
    Ledger(folder, "rides", QUERY).append(record(5, shed=400))
    assert "does not add up" in " ".join(run("ledger", "show", folder).stdout.split())


def test_show_says_what_monitor_mode_would_shed_and_what_failed_open(folder: Path) -> None:
    Ledger(folder, "rides", QUERY).append(record(5, mode="monitor", would_shed=1234))
    Ledger(folder, "rides", QUERY).append(record(6, origin="fail-open"))
    shown = "".join(run("ledger", "show", folder).stdout.split())
    assert "wouldshed1,234" in shown
    assert "fail-open" in shown


def test_show_says_which_attempt_ended_a_batch_and_whether_it_was_rescued(folder: Path) -> None:
    Ledger(folder, "rides", QUERY).append(record(5, attempt=2))
    Ledger(folder, "rides", QUERY).append(record(6, attempt=3, origin="rescued"))
    shown = "".join(run("ledger", "show", folder).stdout.split())
    assert "(attempt2)" in shown
    assert "(rescued,attempt3)" in shown


def test_a_query_is_found_by_its_first_characters(folder: Path) -> None:
    value = json.loads(run("ledger", "show", folder, "--query", "3f2a", "--json").stdout)
    assert [entry["query"] for entry in value["ledgers"]] == [QUERY]
    assert QUERY in one_line(run("ledger", "show", folder, "--query", "zz"))


# -- ledger verify


def test_verify_a_balanced_ledger(folder: Path) -> None:
    result = run("ledger", "verify", folder)
    assert result.exit_code == 0
    assert "5,000 arrived = 2,500 kept + 2,500 shed" in result.stdout


def test_verify_exits_1_when_a_row_is_missing(folder: Path) -> None:
    Ledger(folder, "rides", QUERY).append(record(5, shed=499))
    result = run("ledger", "verify", folder)
    assert result.exit_code == 1
    assert "NOT BALANCED" in result.stdout
    assert "6,000 arrived ≠ 3,000 kept + 2,999 shed (+1)" in result.stdout
    assert "do not add up: batch 5" in result.stdout
    as_json = run("ledger", "verify", folder, "--json")
    assert as_json.exit_code == 1
    assert json.loads(as_json.stdout)["audits"][0]["unbalanced"] == [5]


def test_verify_names_unsettled_batches_and_exits_4(folder: Path) -> None:
    PlanStore(folder, "rides", QUERY).pin(5, PinnedPlan(KEEP_ALL, "fail-open"))
    Ledger(folder, "rides", QUERY).append(record(6))
    result = run("ledger", "verify", folder)
    assert result.exit_code == 4
    assert "unsettled; headgate.recount counts them): batch 5" in result.stdout
    value = json.loads(run("ledger", "verify", folder, "--json").stdout)
    assert (value["balanced"], value["complete"]) == (True, False)


def test_verify_tells_doubtful_missing_and_repaired_apart(folder: Path) -> None:
    ledger = Ledger(folder, "rides", QUERY)
    ledger.append(record(8))
    result = run("ledger", "verify", folder)
    assert result.exit_code == 4, "batches 5 to 7 left neither pin nor record"
    assert "neither pin nor record" in result.stdout
    assert "batch 5, 6, 7" in result.stdout
    ledger.append(
        record(9, arrived=1, kept=1, shed=0, evidence=Evidence(doubt="the source handed out 1,000 rows"))
    )
    result = run("ledger", "verify", folder)
    assert result.exit_code == 3
    assert "batch 9: the source handed out 1,000 rows" in result.stdout
    value = json.loads(run("ledger", "verify", folder, "--first", 9, "--json").stdout)
    assert (value["verdict"], value["balanced"]) == ("doubtful", False)
    assert value["audits"][0]["doubtful"] == [9]
    assert value["audits"][0]["missing"] == []
    ledger.append(record(9, evidence=Evidence(repaired=True)))
    result = run("ledger", "verify", folder, "--first", 8)
    assert result.exit_code == 0
    assert "(repaired)" in result.stdout
    value = json.loads(run("ledger", "verify", folder, "--first", 8, "--json").stdout)
    assert (value["verdict"], value["audits"][0]["repaired"]) == ("repaired", [9])
    assert value["audits"][0]["contradicted"] == []


def test_verify_without_queries_says_so(control: Path) -> None:
    SettingsFile(control, "rides").declare(GateSettings(hold="2 seconds"))
    result = run("ledger", "verify", control)
    assert result.exit_code == 0
    assert "no query has run" in result.stdout


# -- set


def test_set_changes_what_holds(folder: Path) -> None:
    result = run("set", folder, "rides", "--mode", "monitor", "--hold", "1500 ms")
    assert result.exit_code == 0
    assert "monitor, hold 1.5 s" in result.stdout
    effective = SettingsFile(folder, "rides").effective()
    assert (effective.mode, effective.target_s) == ("monitor", 1.5)


def test_set_reset_forgets_changes(folder: Path) -> None:
    run("set", folder, "rides", "--rate", 0.25, "--min-keep", 0.1)
    value = json.loads(run("set", folder, "rides", "--json", "--reset").stdout)
    assert value["changed"] == {}
    assert value["settings"]["hold"] == 2.0


def test_set_reset_with_a_change_keeps_only_the_change(folder: Path) -> None:
    run("set", folder, "rides", "--mode", "off")
    value = json.loads(run("set", folder, "rides", "--reset", "--min-keep", 0.2, "--json").stdout)
    assert value["changed"] == {"min_keep": 0.2}
    assert value["settings"]["mode"] == "shed"


@pytest.mark.parametrize(
    ("arguments", "teaches"),
    [
        (["--hold", "soon"], "'2 seconds'"),
        (["--rate", "1.5"], "(0, 1]"),
        (["--rate", "0.5", "--hold", "1 second"], "exactly one"),
        ([], "nothing to change"),
        (["--reset", "--min-keep", "7"], "(0, 1]"),
    ],
)
def test_set_refuses_and_changes_nothing(folder: Path, arguments: list[str], teaches: str) -> None:
    run("set", folder, "rides", "--mode", "monitor")
    assert teaches in one_line(run("set", folder, "rides", *arguments))
    assert SettingsFile(folder, "rides").overrides() == {"mode": "monitor"}


@pytest.mark.parametrize("reset", [(), ("--reset",)])
def test_set_refuses_what_the_gate_cannot_follow(folder: Path, reset: tuple[str, ...]) -> None:
    run("set", folder, "rides", "--mode", "monitor")
    line = one_line(run("set", folder, "rides", *reset, "--delay", "5 s"))
    assert "without arrival=" in line
    SettingsFile(folder, "rides").declare(GateSettings(hold="2 seconds"), own_controller=True)
    for option, value in (
        ("--hold", "1 s"),
        ("--delay", "1 s"),
        ("--rate", "0.5"),
        ("--min-keep", "0.5"),
        ("--floor", "0.5"),
        ("--inside", "0.9"),
    ):
        assert "controller=" in one_line(run("set", folder, "rides", *reset, option, value))
    assert SettingsFile(folder, "rides").overrides() == {"mode": "monitor"}


def test_set_says_where_a_new_least_share_does_not_reach(control: Path) -> None:
    for name, on_failure in (("closed", "closed"), ("open", "open")):
        SettingsFile(control, name).declare(GateSettings(hold=2, on_failure=on_failure))
    text = "cannot read this folder keeps 0.01, as the code says"
    assert text in run("set", control, "closed", "--min-keep", "0.2").stdout
    assert text not in run("set", control, "closed", "--min-keep", "0.01").stdout
    assert text in run("set", control, "closed", "--mode", "monitor").stdout
    assert text not in run("set", control, "open", "--min-keep", "0.2").stdout


def test_set_names_the_gates_there_are(folder: Path) -> None:
    assert "gates there: rides" in one_line(run("set", folder, "taxis", "--mode", "off"))


# -- status


def test_status_tells_state_and_reason(folder: Path) -> None:
    result = run("status", folder)
    assert result.exit_code == 0
    for text in ("gate rides", "shed, hold 2 s", "heartbeat", "shedding", "50.00%", "1.50 s", "2.25 s"):
        assert text in result.stdout
    assert "whole batch forecast at 4.00 s" in " ".join(result.stdout.split())


def test_status_as_json(folder: Path) -> None:
    (gate,) = json.loads(run("status", folder, "--json").stdout)["gates"]
    assert (gate["mode"], gate["target_s"]) == ("shed", 2.0)
    assert 0 <= gate["heartbeat_age_s"] < 60
    (query,) = gate["queries"]
    assert (query["keep_rate"], query["kept_share"], query["last_batch"]) == (0.5, 0.5, 4)
    assert (query["last_duration_s"], query["last_delay_s"]) == (1.5, 2.25)


def test_status_says_what_was_set_live(folder: Path) -> None:
    assert "set live" not in run("status", folder).stdout
    run("set", folder, "rides", "--hold", "8 seconds", "--mode", "monitor")
    said = " ".join(run("status", folder).stdout.split())
    assert "(monitor, hold 8 s set live; the code says shed, hold 2 s)" in said
    (gate,) = json.loads(run("status", folder, "--json").stdout)["gates"]
    assert gate["changed"] == {"hold": 8.0, "mode": "monitor"}
    assert (gate["settings"]["hold"], gate["declared"]["hold"]) == (8.0, 2.0)
    run("set", folder, "rides", "--reset")
    assert "set live" not in run("status", folder).stdout
    (gate,) = json.loads(run("status", folder, "--json").stdout)["gates"]
    assert gate["changed"] == {}


def test_a_rate_of_its_own_is_explained_where_it_is_shown(folder: Path) -> None:
    commands = (("status", folder), ("ledger", "show", folder))
    for command in commands:
        assert "+1" not in run(*command).stdout
    plan = Plan(0.25, {7: 1.0})
    PlanStore(folder, "rides", QUERY).publish(plan)
    Ledger(folder, "rides", QUERY).append(replace(record(5), plan=plan))
    for command in commands:
        said = run(*command).stdout
        assert "25.00% +1" in said
        assert "one class or group has a rate of its own" in said


def test_status_takes_the_last_20_batches(folder: Path) -> None:
    ledger = Ledger(folder, "rides", QUERY)
    for batch in range(5, 25):
        ledger.append(record(batch, kept=100, shed=900))
    (gate,) = json.loads(run("status", folder, "--json").stdout)["gates"]
    assert gate["queries"][0]["kept_share"] == 0.1


def test_status_of_a_query_that_was_stopped_in_its_first_batch(tmp_path: Path) -> None:
    gate = VirtualGate(tmp_path, "rides")
    gate.store.beat()
    gate.stop()
    result = CliRunner().invoke(main, ["status", str(tmp_path)])
    assert result.exit_code == 0
    assert "no query is running" in result.stdout
    assert "no batch ended" in result.stdout


def test_status_says_when_nobody_steers(folder: Path) -> None:
    store = PlanStore(folder, "rides", QUERY)
    store.beat()
    os.utime(store.folder / "lease.json", (time.time() - 600,) * 2)
    text = " ".join(run("status", folder).stdout.split())
    assert "heartbeat 10 min ago: no driver is steering it; it fails open" in text


def test_status_of_a_gate_that_has_not_run(control: Path) -> None:
    SettingsFile(control, "rides").declare(GateSettings(rate=0.5))
    result = run("status", control)
    assert result.exit_code == 0
    assert "rate 0.5, no heartbeat yet" in result.stdout


def test_status_of_a_guard_that_only_batch_frames_have_used(control: Path) -> None:
    declare_guard(control, "enrich", policy="balanced", target="average 1 s", target_s=1.0)
    text = " ".join(run("status", control).stdout.split())
    assert "guard enrich balanced, average 1 s, no stream has run it" in text
    assert "on batch frames a guard keeps no books" in text


# -- errors, help, purity


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("odd/gate.json", "[1]"),
        ("odd/gate.json", '{"settings": 7}'),
        ("odd/overrides.json", "[1]"),
        ("odd/overrides.json", '{"hold": 1, "rate": 0.5}'),
        ("odd/guard.json", "{}"),
        ("odd/queries/q/ledger/00000000.jsonl", '{"v":1,"gate":"odd","query":"q","batch":9}\n'),
        ("empty/pins", ""),
    ],
)
def test_status_of_one_gate_that_makes_no_sense_leaves_the_others(
    folder: Path, file: str, text: str
) -> None:
    """Cut off between two writes, or changed by hand: it is said of that gate."""
    SettingsFile(folder, "odd").declare(GateSettings(hold=1))
    path = folder / "gates" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    result = run("status", folder, "--json")
    assert result.exit_code == 0, result.output
    gates = {gate["gate"]: gate for gate in json.loads(result.stdout)["gates"]}
    odd = gates.pop(file.partition("/")[0])
    said = odd["target"] + " ".join(query["why"] for query in odd["queries"])
    assert "cannot be read" in said
    assert not any("cannot be read" in gate["target"] for gate in gates.values())
    assert run("status", folder).exit_code == 0


@pytest.mark.parametrize("command", [("status",), ("ledger", "show"), ("top", "--looks", 1)])
def test_words_of_others_are_printed_as_they_are(folder: Path, command: tuple[object, ...]) -> None:
    """A reason or a state may have what would be a colour, or its end, in square brackets."""
    odd = record(9, state="[/held]", why="KeyError: no [/b] in [red]groups[/red]")
    Ledger(folder, odd.gate, odd.query).append(odd)
    result = run(*command, folder)
    assert result.exit_code == 0, result.output
    assert "[/held]" in result.output
    if command == ("status",):
        assert odd.why in result.output


@pytest.mark.parametrize("form", ["file:{}", "file://{}"])
def test_the_folder_is_taken_as_spark_writes_it(folder: Path, form: str) -> None:
    assert run("status", form.format(folder)).exit_code == 0
    assert "object store" in one_line(run("status", "hdfs://node/control"))


@pytest.mark.parametrize("command", [("ledger", "show"), ("ledger", "verify"), ("status",)])
def test_a_missing_folder_is_one_clear_line(tmp_path: Path, command: tuple[str, ...]) -> None:
    missing = tmp_path / "nowhere"
    assert "there is no folder" in one_line(run(*command, missing))
    assert not missing.exists(), "a command that reads makes no folder"
    missing.mkdir()
    assert "no gate has used" in one_line(run(*command, missing))


def test_an_unknown_gate_is_one_clear_line(folder: Path) -> None:
    assert "gates there: rides" in one_line(run("ledger", "verify", folder, "--gate", "taxis"))


@pytest.mark.parametrize("name", ["gate", "cod", "rescue"])
def test_a_benchmark_is_told_only_how_long_to_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    result = {"bench": name, "ratios": {"x": 0.5}}
    commands = importlib.import_module("headgate_lab.cli.bench")
    monkeypatch.setattr(commands, "import_or_explain", lambda where, extra: lambda *, quick: result)
    assert json.loads(run("bench", name, "--quick", "--json").stdout) == result


def test_the_demo_refuses_before_it_starts_spark() -> None:
    assert "not both" in one_line(run("demo", "--rate", "1000", "--load", "3"))
    assert "neither 'auto' nor" in one_line(run("demo", "--rate", "fast"))
    assert "'2 seconds'" in one_line(run("demo", "--target", "soon"))
    assert "above 0" in one_line(run("demo", "--seconds", "0"))


def _commands(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = [path]
    if isinstance(command, click.Group) and not isinstance(command, LazyGroup):
        for name, child in command.commands.items():
            found += _commands(child, (*path, name))
    return found


@pytest.mark.parametrize("path", _commands(main), ids=lambda p: " ".join(p) or "headgate")
def test_every_help_has_examples(path: tuple[str, ...]) -> None:
    result = run(*path, "--help")
    assert result.exit_code == 0
    assert "Examples:\n" in result.stdout
    assert f"headgate {' '.join(path)}".strip() in result.stdout


def test_the_kafka_commands_are_there() -> None:
    pytest.importorskip("headgate.testing.kafka_cli")
    assert "start" in run("kafka", "--help").stdout
    assert "--port" in run("kafka", "start", "--help").stdout


def test_a_group_that_cannot_be_imported_names_the_extra() -> None:
    broken = LazyGroup("x", "headgate.no_such_module:x", extra="kafka", short_help="x")
    with pytest.raises(ImportError, match=r"headgate\[kafka\]"):
        broken.list_commands(click.Context(broken))


def test_the_version() -> None:
    assert run("--version").stdout.strip() == f"headgate, version {__version__}"


def test_the_command_line_does_not_import_spark() -> None:
    code = (
        "import sys; from headgate.cli import main; "
        "sys.exit(any(m.split('.')[0] in ('pyspark', 'matplotlib') for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
