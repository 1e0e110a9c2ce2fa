"""The page of results: every figure in virtual time, every claim with its verdict."""

from __future__ import annotations

import re
from pathlib import Path

from headgate_lab.figures import MEASURED, NAMES, SWEEPS, Claim, Drawn
from headgate_lab.figures.meaning import PAPERS, in_order, meaning
from headgate_lab.figures.results import page, write

ROOT = Path(__file__).parents[3]


def _drawn(name: str, *claims: Claim) -> Drawn:
    return Drawn(name, "title", "x", 1, (), claims, ())


def test_every_claim_has_its_verdict_and_its_number() -> None:
    claims = Claim("LAS drops | less", True, 0.12345), Claim("and waits less", False, 7.0)
    text = page([("las_fig9", _drawn("las_fig9", *claims))], "few runs")
    assert "| LAS drops \\| less | yes | 0.123 |" in text
    assert "| and waits less | **no** | 7 |" in text
    assert "| Guarded functions (las-2020) | 1 | 2 | 1 | 1 |" in text
    assert "`headgate figures las-fig11`" in text, "what was not drawn is named"


def test_a_figure_that_is_drawn_is_on_the_page(tmp_path: Path) -> None:
    text = write(tmp_path / "results.md", ["las_fig9"]).read_text()
    assert f"### {meaning('las_fig9')}" in text
    assert text.count("| yes |") + text.count("| **no** |") >= 5


def test_papers_have_all_figures_in_order() -> None:
    assert sorted(name for paper in PAPERS for name in in_order(paper)) == sorted(NAMES)
    assert in_order("las")[0] == "las_fig4"


def test_the_page_in_the_docs_is_of_all_figures() -> None:
    text = (ROOT / "docs" / "results.md").read_text()
    named = set(re.findall(r"`headgate figures (\w+-\w+)(?: --quick)?`", text))
    assert named == {name.replace("_", "-") for name in (*SWEEPS, *MEASURED)}
    for title in PAPERS.values():
        row = re.search(rf"^\| {re.escape(title)} ((?:\| \d+ )+)\|$", text, re.MULTILINE)
        assert row is not None
        figures, claims, seen, unseen = map(int, re.findall(r"\d+", row[1]))
        assert seen + unseen == claims >= figures > 0
