"""The page that newcomers read first says what the import contract says."""

from __future__ import annotations

import re
import sys
import tomllib
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.run.report import Report
from headgate.run.run import Run
from headgate.run.spec import Spec
from headgate.testing.contracts import check_controller, check_policy
from headgate_lab.figures.figure import Axis, Claim
from headgate_lab.figures.sweep import Caption, Sweep

ROOT = Path(__file__).parents[1]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


@pytest.mark.parametrize("package", ["headgate", "headgate_lab"])
def test_the_table_of_layers_is_the_contract(package: str) -> None:
    (contract,) = (c for c in CONTRACTS if c.get("containers") == [package])
    assert contract["exhaustive"], "a new package must find its place"
    page = (ROOT / "ARCHITECTURE.md").read_text()
    rows = page.split(f"| room of `{package}` |")[1].split("\n\n")[0].splitlines()[2:]
    table = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in rows]
    assert table == [layer.split(" | ") for layer in contract["layers"]]


def test_no_room_is_crowded() -> None:
    """A folder of many files is several rooms; the figures of one paper are one list by nature."""
    for folder in [ROOT / "src", ROOT / "lab", ROOT / "tests"]:
        for room in (f for f in folder.rglob("*") if f.is_dir() and f.name != "__pycache__"):
            files = [f for f in room.glob("*.py") if f.name != "__init__.py"]
            assert len(files) <= 17, f"{room.relative_to(ROOT)} has {len(files)} files"


def test_the_examples_of_the_page_run(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4, "a policy, a controller, a figure and a mechanism"
    names: dict[str, Any] = {
        **{"hg": hg, "dataclass": dataclass, "Spec": Spec, "Run": Run},
        **{"check_policy": check_policy, "check_controller": check_controller},
        **{"Axis": Axis, "Claim": Claim, "Caption": Caption, "Sweep": Sweep},
    }
    module = types.ModuleType("architecture_page")  # what pickles must be of a module
    monkeypatch.setitem(sys.modules, module.__name__, module)
    vars(module).update(names)
    for block in blocks:
        exec(block, vars(module))
    names = vars(module)
    sweep = names["sweep"](None, True)
    drawn = sweep.draw(map(sweep.run, sweep.items))
    assert [row.x for row in drawn.rows] == [0.1, 0.5]
    run = names["CountSpec"]("counted", Path("nowhere")).open("query")
    run.handle(Report(query="query", sample=hg.LoadSample(0, 0.0, 1.0, 10, 10)))
    assert run.last_batch == 0


def test_the_files_that_the_page_names_are_there() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text() + (ROOT / "docs" / "decisions.md").read_text()
    files = [path.as_posix() for path in ROOT.rglob("*.py") if ".venv" not in path.parts]
    for name in set(re.findall(r"`([\w/]+\.py)`", page)):
        assert any(path.endswith(f"/{name}") for path in files), f"{name} is named and not there"


def test_the_page_is_a_page() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text().splitlines()) <= 180


#: Rooms of the tests that are no room of the sources: the tests' own machinery, what needs a broker or a
#: Connect client, the control loop's tests that need no Spark and so are in the edit loop, and the
#: laboratory's numbers of two mechanisms.
_OF_THE_TESTS = {
    "harness",
    "soak",
    "kafka",
    "loop",
    "spark/connect",
    "spark/objects",
    "lab/las",
    "lab/join",
}


def test_the_tests_have_the_rooms_of_the_sources() -> None:
    rooms = {"", "lab"}
    for root, prefix in ((ROOT / "src" / "headgate", ""), (ROOT / "lab" / "headgate_lab", "lab/")):
        rooms |= {prefix + d.relative_to(root).as_posix() for d in root.rglob("*") if d.is_dir()}
    for module in (ROOT / "tests").rglob("test_*.py"):
        room = module.parent.relative_to(ROOT / "tests").as_posix().removeprefix(".")
        assert room in rooms | _OF_THE_TESTS, f"{module} is in a room that no source has"
