"""The notebooks run from top to bottom, each in a kernel of its own, and are stored without outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "notebooks"
BOOKS = sorted(FOLDER.glob("*.ipynb"))


def _run(book: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The outputs of all cells, from a fresh kernel in an empty folder; a cell that fails raises."""
    nbclient = pytest.importorskip("nbclient", reason="make setup installs nbclient and ipykernel")
    pytest.importorskip("ipykernel", reason="make setup installs nbclient and ipykernel")
    import nbformat

    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(name, str(folder / name))
    (folder / "work").mkdir()
    notebook = nbformat.read(book, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=500, resources={"metadata": {"path": str(folder / "work")}}
    )
    client.execute()
    assert list((folder / "work").iterdir()) == [], "it leaves nothing behind"
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    return [output for cell in cells for output in cell.outputs]


def _texts(outputs: list[dict[str, Any]], kind: str) -> list[str]:
    data = [o["data"] for o in outputs if "data" in o]
    return [str(shown[kind]) for shown in data if kind in shown]


def test_there_are_three_and_the_page_names_them() -> None:
    assert len(BOOKS) == 3
    page = (ROOT / "docs" / "notebooks.md").read_text()
    assert all(f"](../examples/notebooks/{book.name})" in page for book in BOOKS)


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_nothing_that_it_said_is_stored(book: Path) -> None:
    content = json.loads(book.read_text())
    assert content["nbformat"] == 4
    for cell in content["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
    assert content["cells"][0]["cell_type"] == "markdown"
    assert "/home/" not in book.read_text()


@pytest.mark.slow
def test_what_if_needs_no_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = _run(FOLDER / "what-if.ipynb", tmp_path, monkeypatch)
    assert len(_texts(outputs, "image/png")) == 2


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(600)
def test_error_bars_hold_the_truth_and_shed_rows_are_repaid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = _run(FOLDER / "error-bars.ipynb", tmp_path, monkeypatch)
    assert any("<svg" in text or "rides" in text for text in _texts(outputs, "text/html"))
    said = "".join(o.get("text", "") for o in outputs)
    assert "intervals hold the truth" in said
    assert "= 40,000 arrived" in said


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_target_is_held_and_its_status_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tutorial's test runs the same job on the shared session; this one tries the notebook."""
    outputs = _run(FOLDER / "held-target.ipynb", tmp_path, monkeypatch)
    (shown,) = _texts(outputs, "text/html")
    assert "<svg" in shown
    assert "are estimated" in "".join(o.get("text", "") for o in outputs)
