"""What every figure shows, by paper, said by the figure's own file; nothing heavy is imported for it."""

from __future__ import annotations

import ast
import math
import re
from importlib import resources

from headgate_lab.figures import NAMES

__all__ = ["PAPERS", "in_order", "meaning"]

#: What the figures of a paper are about, by how their names begin.
PAPERS = {
    "las": "Guarded functions (las-2020)",
    "cod": "Shedding by group (cod-2018)",
    "join": "Stream joins (join-2007)",
    "themis": "Fair shares of sites (themis-2016)",
}
#: How a figure's file begins; what it shows comes after that.
_FROM = re.compile(r"\w+-\d{4}(?:, (?:Figure|section) [\d.]+:| on) ")


def in_order(paper: str) -> list[str]:
    """A paper's figures, as they are numbered."""
    return sorted((name for name in NAMES if name.partition("_")[0] == paper), key=_number)


def meaning(name: str) -> str:
    """What the figure shows: the first line of its file. Importing it would take numpy and Spark."""
    package, _, module = NAMES[name].rpartition(".")
    file = resources.files(package) / f"{module}.py"
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return _FROM.sub("", text.partition("\n")[0]).rstrip(".")


def _number(name: str) -> float:
    found = re.search(r"\d+", name)
    return math.inf if found is None else int(found[0])
