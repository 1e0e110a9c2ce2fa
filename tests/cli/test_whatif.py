"""`headgate whatif` as people use it: files, stores, traces, words, JSON, pictures; and no Spark."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headgate.cli import main
from headgate.settings import GateSettings
from headgate.store.settings_file import SettingsFile
from tests.cli.test_json_shapes import differences, documented
from tests.view.virtual_gate import CAPACITY, VirtualGate
from tests.whatif.virtual_progress import lived, reports, text_of

PAGE = Path(__file__).parents[2] / "docs" / "what-if.md"


def run(*words: object) -> Result:
    return CliRunner().invoke(main, ["whatif", *(str(word) for word in words)])


def said(*words: object) -> str:
    result = run(*words)
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


@pytest.fixture(scope="module")
def progress(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five minutes of a query without a gate."""
    path = tmp_path_factory.mktemp("whatif") / "progress.json"
    path.write_text(text_of(reports(lived(seconds=300.0))))
    return path


@pytest.fixture
def store(control: Path) -> Path:
    """A ledger of a gate with bursts."""
    gate = VirtualGate(control, "rides", GateSettings(hold=1))
    for number in range(120):
        gate.batch((3 * CAPACITY if number % 40 < 20 else CAPACITY // 2) + 37 * (number % 11))
    return control


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "trace.csv"
    lines = [
        f"{t},{rows},{group}"
        for t in range(90)
        for group, rows in (("vip", 2_000), ("rest", 4_000 if t % 30 < 20 else 60_000))
    ]
    path.write_text("time,rows,group\n" + "\n".join(lines))
    return path


def test_saved_progress_is_answered_in_words(progress: Path) -> None:
    text = said(progress, "--hold", "2s", "--runs", 3)
    for part in (
        "of the rows would have been shed (",
        "in 3 virtual runs",
        "would have been inside the target",
        "would have had a delay of at most",
        "From which groups is not known",
        "In fact 0 % of the rows were shed",
        "Check: with every row kept",
        "what a shed row still costs is not known",
    ):
        assert part in text


def test_a_ledger_knows_what_held(store: Path) -> None:
    text = said(store, "--gate", "rides", "--hold", "600 ms", "--runs", 3)
    assert "of gate rides" in text
    assert "Check: with the target that held, 1.00 s" in text
    last = json.loads(run(store, "--last", 60, "--hold", 1, "--runs", 2, "--json").stdout)
    assert last["input"]["batches"] == 60
    assert last["input"]["left_out"] == 0
    early = run(store, "--until", "2001-01-01", "--hold", 1)
    assert "0 batches were recorded then" in early.stderr


def test_a_ledger_knows_what_held_then(store: Path) -> None:
    SettingsFile(store, "rides").change(hold="3 seconds")
    text = said(store, "--hold", "600 ms", "--runs", 2)
    assert "Check: with the target that held, 1.00 s" in text, "the change came after these batches"
    changed = VirtualGate(store, "clicks", GateSettings(hold=1))
    changed.batches(40, 3 * CAPACITY)
    SettingsFile(store, "clicks").change(hold="2 seconds")
    changed.batches(40, 3 * CAPACITY)
    text = said(store, "--gate", "clicks", "--hold", "600 ms", "--runs", 2)
    assert "the target was changed while these batches ran (1 s, then 2 s): there is no check" in text
    assert "Check:" not in text
    text = said(store, "--gate", "clicks", "--last", 35, "--hold", "600 ms", "--runs", 2)
    assert "Check: with the target that held, 2.00 s" in text


def test_a_trace_tells_groups_apart(trace: Path) -> None:
    costs = ("--fixed", "300 ms", "--per-row", "60 us", "--trigger", "1s")
    text = said(trace, "--hold", 2, *costs, "--keep", "vip", "--runs", 3)
    found = re.search(r"Shed: ([\d.]+|below 0.1) % of vip, ([\d.]+) % of rest", text)
    assert found, text
    assert found[1] == "below 0.1" or float(found[1]) < 2.0, "only while its share is not known yet"
    assert float(found[2]) > 10.0


def test_a_trace_may_be_parquet(trace: Path, tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    lines = [line.split(",") for line in trace.read_text().splitlines()[1:]]
    times, rows = [float(line[0]) for line in lines], [int(line[1]) for line in lines]
    table = pa.table({"time": times, "rows": rows, "group": [line[2] for line in lines], "else": rows})
    pq.write_table(table, tmp_path / "trace.parquet")
    costs = ("--fixed", "300 ms", "--per-row", "60 us", "--hold", 2, "--runs", 2, "--json")
    found = [json.loads(run(path, *costs).stdout) for path in (trace, tmp_path / "trace.parquet")]
    assert found[0]["forecasts"] == found[1]["forecasts"]
    (tmp_path / "no.parquet").write_text("time,rows")
    assert "is no Parquet file" in run(tmp_path / "no.parquet", *costs).stderr


def test_a_sweep_is_a_table_and_a_curve(progress: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = run(progress, "--sweep", "1s,2s,4s", "--runs", 2, "--plot", tmp_path / "new" / "curve.png")
    assert result.exit_code == 0, result.output
    assert [w for w in ("1.00 s", "2.00 s", "4.00 s") if w in result.stdout] == [
        "1.00 s",
        "2.00 s",
        "4.00 s",
    ]
    assert (tmp_path / "new" / "curve.png").read_bytes().startswith(b"\x89PNG")
    one = run(progress, "--hold", "2s", "--runs", 2, "--plot", tmp_path / "one.svg")
    assert one.exit_code == 0, one.output
    assert "<svg" in (tmp_path / "one.svg").read_text()
    value = json.loads(run(progress, "--runs", 2, "--last", 100, "--json").stdout)
    kept = [forecast["mean"]["kept"] for forecast in value["forecasts"]]
    assert len(kept) >= 5, "without a target some are chosen"
    assert kept == sorted(kept)


@pytest.mark.parametrize("what", ["progress", "store", "trace"])
def test_json_is_as_documented(what: str, request: pytest.FixtureRequest) -> None:
    words: list[Any] = [request.getfixturevalue(what), "--hold", 2, "--runs", 2, "--json"]
    if what == "trace":
        words += ["--fixed", "300 ms", "--per-row", "60 us"]
    result = run(*words)
    assert result.exit_code == 0, result.output
    value = json.loads(result.stdout)
    assert not list(differences(value, documented("headgate whatif")))
    assert value["input"]["kind"] == {"store": "ledger"}.get(what, what)


def test_no_spark_is_imported(progress: Path) -> None:
    code = (
        "import sys\n"
        "class Block:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('pyspark', 'py4j', 'pyarrow', 'pandas', 'matplotlib'):\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Block())\n"
        "from headgate.cli import main\n"
        f"main(['whatif', {str(progress)!r}, '--hold', '2s', '--runs', '2', '--last', '60'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "would have been shed" in done.stdout


# -- the page


def _commands_of_the_page() -> list[str]:
    blocks = re.findall(r"^```\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line.split("  #")[0] for block in blocks for line in block.splitlines()]
    return [line.removeprefix("headgate ").strip() for line in lines if line.startswith("headgate ")]


@pytest.mark.parametrize("line", _commands_of_the_page())
def test_the_pages_commands_run(
    line: str, progress: Path, store: Path, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "progress.json").write_text(progress.read_text())
    (tmp_path / "trace.csv").write_text(trace.read_text())
    line = line.replace("/shared/headgate", str(store)).replace('"24 hours"', "1970-01-01")
    result = CliRunner().invoke(main, [*shlex.split(line), "--runs", "2"])
    assert result.exit_code == 0, result.output


def test_the_page_says_how_to_save_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its example on a query that has what Spark's has: `recentProgress` of reports with `json`."""
    monkeypatch.chdir(tmp_path)

    class Report:
        def __init__(self, value: dict[str, Any]) -> None:
            self.json = json.dumps(value, indent=1)

    class Query:
        recentProgress = [Report(value) for value in reports(lived(seconds=60.0))]  # noqa: RUF012

    (example,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    exec(example, {"query": Query()})
    assert "would have been shed" in said(tmp_path / "progress.json", "--hold", "2s", "--runs", 2)
