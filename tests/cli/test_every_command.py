"""What every `headgate` command has in common, product and laboratory: one table, no Spark.

A new command fails here until it is in the table, with the mistakes that people will make with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from headgate.cli import main
from headgate.core.plan import KEEP_ALL
from headgate.settings import GateSettings
from headgate.store.ledger.records import Ledger, Record
from headgate.store.settings_file import SettingsFile

#: Commands that print no JSON, and why.
NO_JSON = {
    "serve": "serves until ctrl-C; its address is the one line on standard output",
    "coordinator": "the same",
    "kafka start": "the same",
    "top": "a table that moves; `status --json` has the same for a program",
    "coordinator token": "the token alone",
    "completion": "a script for a shell",
    "init": "what it makes is a file; its lines say what to do next",
}
#: Options that mean one thing wherever they are, and take the same kind of value.
ALIKE = {
    "--json": "boolean", "--quick": "boolean", "--gate": "text", "--query": "text", "--since": "text",
    "--until": "text", "--host": "text", "--port": "integer", "--refresh": "duration",
    "--target": "duration", "--trigger": "duration", "--hold": "duration", "--delay": "duration",
    "--min-keep": "float", "--inside": "float", "--runs": "integer range", "--plot": "file",
    "--control": "text", "--token-file": "file", "--secret-file": "file", "--verbose": "boolean",
}  # fmt: skip


@dataclass(frozen=True)
class Mistake:
    """A line that a person may type, and what it is told."""

    line: str
    says: str
    #: Whether the error is a line of ours; click's own has the usage in front.
    ours: bool = True


#: Whatever looks at a control store: the words before and behind it.
ON_A_STORE = {
    "status": "", "top": "--looks 1", "serve": "--port 0", "set": "rides --mode off",
    "ledger show": "", "ledger verify": "", "ledger prune": "", "federation status": "",
    "whatif": "--hold 2s", "doctor": "", "demo": "", "backfill": "--gate rides --to late",
}  # fmt: skip
#: Those that need a store that gates have used; the others make or await one.
NEED_GATES = (
    "status",
    "top",
    "set",
    "ledger show",
    "ledger verify",
    "ledger prune",
    "whatif",
    "backfill",
)

MISTAKES: dict[str, list[Mistake]] = {
    "backfill": [
        Mistake("{gates} --to late", "Missing option '--gate'", ours=False),
        Mistake("{gates} --gate taxis --query zz --to late", "gates there: rides"),
        Mistake("{gates} --gate rides --query zz --to late", "queries there: q1"),
        Mistake("{gates} --gate rides --to late --batches some", "some"),
        Mistake("{gates} --gate rides --to late --option x", "NAME=VALUE"),
        Mistake("{gates} --gate rides --to late --prepare nowhere:parsed", "nowhere"),
    ],
    "completion": [Mistake("tcsh", "'bash', 'zsh', 'fish'", ours=False)],
    "coordinator": [
        Mistake("", "no secret"),
        Mistake("--open --lease soon", "lease='soon' is not a positive duration"),
        Mistake("--open --secret-file x", "give only one"),
    ],
    "coordinator status": [
        Mistake("http://127.0.0.1:9", "no coordinator answers"),
        Mistake("nonsense", "http"),
        Mistake("http://127.0.0.1:9 --token-file {tmp}/none", "cannot be read"),
    ],
    "coordinator token": [
        Mistake("", "give SITE or --reader"),
        Mistake("rome --secret-file {tmp}/none", "none"),
        Mistake("rome", "no secret"),
    ],
    "demo": [
        Mistake("--target soon", "'2 seconds'"),
        Mistake("--rate fast", "neither 'auto' nor"),
        Mistake("--rate 10 --load 2", "not both"),
        Mistake("--seconds 0", "above 0"),
    ],
    "doctor": [
        Mistake("", "Missing argument 'CONTROL'", ours=False),
        Mistake("{tmp} --conf x", "NAME=VALUE"),
        Mistake("{tmp} --py-files {tmp}/none.zip", "is no file"),
        Mistake("{tmp} --within soon", "within='soon'"),
    ],
    "federation demo": [Mistake("--seconds 1", "150"), Mistake("--bursts 99", "1<=x<=10", ours=False)],
    "federation status": [Mistake("{tmp}", "no site has used")],
    "figures": [
        Mistake("las-fig3", "there is no figure", ours=False),
        Mistake("cod-fig7 --master local[2]", "leave --master out"),
    ],
    "init": [
        Mistake("{notes}", "is there already"),
        Mistake("{tmp}/none/job.toml", "in a folder that is there"),
    ],
    "kafka produce": [Mistake("", "Missing option '--topic'", ours=False)],
    "kafka start": [Mistake("--partitions many", "is not a valid integer", ours=False)],
    "ledger prune": [Mistake("{gates} --gate taxis", "gates there: rides")],
    "ledger show": [
        Mistake("{gates} --gate taxis", "gates there: rides"),
        Mistake("{gates} --query zz", "queries there: q1"),
        Mistake("{gates} --last 0", "x>=1", ours=False),
    ],
    "ledger verify": [
        Mistake("{gates} --since soon", "write 2026-05-01T08:00"),
        Mistake("{gates} --gate taxis", "gates there: rides"),
    ],
    "run": [
        Mistake("{tmp}/none.toml", "none.toml", ours=False),
        Mistake("{broken} --check", "broken.json", ours=False),
        Mistake("{notes} --for soon", "--for='soon'"),
        Mistake("{notes} --for 3s --once", "not both"),
    ],
    "serve": [
        Mistake("", "Missing argument 'CONTROL'", ours=False),
        Mistake("{gates} --refresh soon", "refresh='soon'"),
        Mistake("{gates} --token-file {trace}/token", "trace.csv/token"),
    ],
    "set": [
        Mistake("{gates} taxis --mode off", "gates there: rides"),
        Mistake("{gates} rides", "nothing to change"),
        Mistake("{gates} rides --hold soon", "hold='soon'"),
        Mistake("{gates} rides --rate 2", "(0, 1]"),
        Mistake("{damaged} rides --mode off", "is damaged"),
    ],
    "status": [Mistake("hdfs://node/control", "object store")],
    "top": [Mistake("{gates} --refresh soon", "refresh='soon'")],
    "whatif": [
        Mistake("{tmp}/none.json --hold 2s", "there is no file or folder"),
        Mistake("{broken} --hold 2s", "is no JSON"),
        Mistake("{notes} --hold 2s", "no report of a batch"),
        Mistake("{gates} --gate taxis --hold 2s", "gates there: rides"),
        Mistake("{gates} --gate rides --hold 2s", "3 batches were recorded then"),
        Mistake("{gates} --since soon", "write 2026-05-01T08:00"),
        Mistake("{trace} --hold 2s", "give --fixed"),
        Mistake("{trace} --hold soon", "hold='soon'"),
        Mistake("{trace} --hold 2s --delay 2s", "give only one"),
        Mistake("{trace} --sweep 1s,soon", "soon"),
        Mistake("{trace} --fixed 1s --per-row 1ms --keep vip", "no group 'vip'"),
        Mistake("{trace} --hold 2s --fixed 1s --per-row 1ms --plot {tmp}/x.gif", "ends in .png"),
        Mistake("{trace} --hold 2s --fixed 1s --per-row 1ms --min-keep 7", "(0, 1]"),
    ],
}  # fmt: skip
#: Benchmarks take nothing but --quick and --json, but for these.
BENCH_MISTAKES = {
    "bench hold": [Mistake("--loads many", "0.9,2,5", ours=False)],
    "bench outage": [Mistake("--down soon", "down='soon'")],
    "bench peers": [Mistake("--target soon", "target='soon'")],
    "bench loop-year": [Mistake("--batches 1", "x>=1000", ours=False)],
}


def walk(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from walk(command, (*words, name))
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield " ".join((*words, name)), command


COMMANDS = dict(walk(main))
NAMES = sorted(COMMANDS)


def mistakes_of(name: str) -> list[Mistake]:
    if name.startswith("bench "):
        return BENCH_MISTAKES.get(name, [Mistake("--fast", "No such option", ours=False)])
    return MISTAKES[name]


def run(line: str) -> Result:
    import shlex

    return CliRunner().invoke(main, shlex.split(line))


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the lines of the table name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADGATE_COORDINATOR_SECRET", raising=False)
    gates, damaged = tmp_path / "gates-used", tmp_path / "damaged"
    for control in (gates, damaged):
        SettingsFile(control, "rides").declare(GateSettings(hold=2))
    (damaged / "gates" / "rides" / "gate.json").write_text('{"hold": 2')
    for batch in range(3):
        times = {"started_at": 100.0 + batch, "duration_s": 0.5}
        record = Record("rides", "q1", batch, 10, 10, 0, KEEP_ALL, **times)
        Ledger(gates, "rides", "q1").append(record)
    files = {
        "broken": ("broken.json", '{"a": 1\n}}}\nnonsense\n'),
        "notes": ("notes.json", '{"a": 1}\n{"b": 2}\n'),
        "trace": ("trace.csv", "time,rows\n" + "".join(f"{n},{100 + n}\n" for n in range(40))),
    }
    for name, text in files.values():
        (tmp_path / name).write_text(text)
    made = {key: str(tmp_path / name) for key, (name, _) in files.items()}
    return {"tmp": str(tmp_path), "gates": str(gates), "damaged": str(damaged), **made}


def refused(result: Result, says: str, *, ours: bool) -> None:
    """Exit code 2, nothing on standard output, no stack trace, and words that help."""
    assert isinstance(result.exception, SystemExit | None), repr(result.exception)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert says in " ".join(result.stderr.split()), result.stderr
    if ours:
        (line,) = result.stderr.strip().splitlines()
        assert line.startswith("headgate: ")


def test_every_command_is_in_the_table() -> None:
    expected = {name for name in NAMES if not name.startswith("bench ")}
    assert expected == set(MISTAKES)
    assert set(BENCH_MISTAKES) <= set(NAMES)
    assert set(NO_JSON) | set(ON_A_STORE) <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_help_is_whole(name: str) -> None:
    command = COMMANDS[name]
    result = run(f"{name} --help")
    assert result.exit_code == 0, result.output
    assert "Examples:\n" in result.stdout
    assert f"  headgate {name}" in result.stdout
    assert command.get_short_help_str(500).endswith((".", "?")), "a sentence in the list of commands"
    for param in command.params:
        if isinstance(param, click.Option) and not param.hidden:
            assert (param.help or "").strip(), f"{param.opts} says nothing"


@pytest.mark.parametrize("name", NAMES)
def test_options_are_alike_everywhere(name: str) -> None:
    for param in COMMANDS[name].params:
        for option in param.opts:
            kind = "boolean" if getattr(param, "is_flag", False) else param.type.name
            assert kind == ALIKE.get(option, kind), f"{option} of headgate {name} is a {kind}"
    assert ("--json" in {o for p in COMMANDS[name].params for o in p.opts}) != (name in NO_JSON)


@pytest.mark.parametrize(
    ("name", "mistake"),
    [(name, mistake) for name in NAMES for mistake in mistakes_of(name)],
    ids=lambda value: value if isinstance(value, str) else value.line or "nothing",
)
def test_a_mistake_is_told_in_words(name: str, mistake: Mistake, places: dict[str, str]) -> None:
    refused(run(f"{name} {mistake.line.format(**places)}"), mistake.says, ours=mistake.ours)


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_option_is_told(name: str) -> None:
    refused(run(f"{name} --no-such-option"), "No such option", ours=False)


@pytest.mark.parametrize("name", NEED_GATES)
def test_a_store_that_no_gate_has_used(name: str, places: dict[str, str]) -> None:
    missing = Path(places["tmp"]) / "nowhere"
    result = run(f"{name} {missing} {ON_A_STORE[name]}")
    refused(result, "there is no f", ours=True)
    assert not missing.exists()
    missing.mkdir()
    refused(run(f"{name} {missing} {ON_A_STORE[name]}"), "no gate has used", ours=True)


@pytest.mark.parametrize("name", [*NEED_GATES, "serve", "federation status"])
def test_a_store_that_does_not_answer(
    name: str, places: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an object store does that cannot be reached: an `OSError` at the first look."""
    from headgate.store.places.local import LocalFiles

    def gone(*_: object) -> object:
        raise OSError(5, "error sending request", "s3://bucket/path")

    for look in ("is_used", "entries", "get"):
        monkeypatch.setattr(LocalFiles, look, gone)
    monkeypatch.setattr("headgate.page.server.PageServer.run", lambda self: None)
    refused(run(f"{name} {places['gates']} {ON_A_STORE[name]}"), "error sending request", ours=True)


@pytest.mark.parametrize("name", sorted(ON_A_STORE))
@pytest.mark.parametrize(
    "form", ["{store} {rest}", "--control {store} {rest}", "{rest} --control={store}"]
)
def test_the_store_is_an_argument_or_an_option(
    name: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, object] = {}
    monkeypatch.setattr(COMMANDS[name], "callback", lambda **given: seen.update(given))
    line = form.format(store="/some/where", rest=ON_A_STORE[name])
    result = run(f"{name} {line}")
    assert result.exit_code == 0, result.output
    assert str(seen.get("control", seen.get("input_"))) == "/some/where"
    assert seen.get("gate", "rides") in ("rides", None)


@pytest.mark.parametrize("name", ["status", "ledger show", "ledger verify", "ledger prune", "set"])
def test_json_is_alone_on_standard_output(name: str, places: dict[str, str]) -> None:
    result = run(f"{name} {places['gates']} {ON_A_STORE[name]} --json")
    assert result.exit_code == 0, result.output
    assert isinstance(json.loads(result.stdout), dict)


MISSING: dict[str, tuple[str, str]] = {
    "serve {gates}": ("headgate.page.server", "headgate[page]"),
    "top {gates} --looks 1": ("headgate.view.observer", "headgate[page]"),
    "coordinator --open": ("headgate.coordinator.service", "headgate[server]"),
    "bench gate": ("headgate_lab.bench.gate", "headgate[spark]"),
    "whatif {trace} --hold 2s --fixed 1s --per-row 1ms --plot {tmp}/x.png": (
        "matplotlib",
        "headgate[plot]",
    ),
}


@pytest.mark.parametrize("line", MISSING)
def test_a_missing_extra_is_named(
    line: str, places: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module, extra = MISSING[line]
    monkeypatch.setitem(__import__("sys").modules, module, None)
    refused(run(line.format(**places)), f"pip install '{extra}'", ours=True)


def test_what_the_system_refuses_is_one_line(
    places: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(*_: object, **__: object) -> object:
        raise OSError(98, "Address already in use")

    monkeypatch.setattr("headgate.page.server.PageServer.__init__", taken)
    refused(run(f"serve {places['gates']} --port 8471"), "Address already in use", ours=True)


def test_exit_codes_are_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()
    shown = " ".join(run("--help").stdout.split())
    assert "Exit code:" in shown
    for code in re.findall(r"^\| (\d) \|", page, re.MULTILINE):
        assert code in shown
    for name in NO_JSON:
        assert f"`headgate {name}`" in page, f"the page does not say why {name} has no --json"


def test_a_shell_gets_its_script_and_the_gates_of_the_store(places: dict[str, str]) -> None:
    from click.shell_completion import ShellComplete

    assert "_HEADGATE_COMPLETE=bash_complete" in run("completion bash").stdout

    def offered(*words: str) -> list[str]:
        shell = ShellComplete(main, {}, "headgate", "_HEADGATE_COMPLETE")
        return [item.value for item in shell.get_completions([*words[:-1]], words[-1])]

    assert offered("set", places["gates"], "r") == ["rides"]
    assert offered("ledger", "show", places["gates"], "--gate", "") == ["rides"]
    assert offered("whatif", places["gates"], "--gate", "") == ["rides"]
    assert offered("ledger", "show", "/nowhere", "--gate", "") == []
    assert "--control" in offered("status", "--c")


def test_what_was_sent_to_kafka_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = pytest.importorskip("headgate.testing.kafka_cli")
    monkeypatch.setattr(commands, "send", lambda *_, **__: 7)
    result = run("kafka produce --topic rides --total 7 --json")
    assert result.exit_code == 0, result.output
    value = json.loads(result.stdout)
    assert value == {"bootstrap": "127.0.0.1:9092", "topic": "rides", "rows": 7}
