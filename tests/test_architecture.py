"""The page that newcomers read first says what the import contract says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

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
