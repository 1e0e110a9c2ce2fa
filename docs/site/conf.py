"""The documentation site: the repository's own Markdown files as they are, and the docstrings.

The sources are the repository itself, so that a link between two files is the same link on the site, and
every page stays readable without it. What order the pages have is said here and not in them.
"""

from __future__ import annotations

import inspect
import re
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "src"))

import headgate  # noqa: E402

project, author, release = "Headgate", "The Headgate authors", headgate.__version__
version = release
copyright = f"{author}, Apache-2.0"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "README"
include_patterns = [
    *("*.md", "docs/*.md", "docs/site/*.rst", "benchmarks/*.md", "lab/*.md", "examples/README.md"),
]
exclude_patterns = [".*", "out", "figures", "src", "tests", "lab/headgate_lab", "examples/notebooks"]
highlight_language = "text"
default_role = "literal"

myst_heading_anchors = 4
myst_enable_extensions: list[str] = []

html_theme = "furo"
html_title = "Headgate"
html_copy_source = False
html_show_sphinx = False
html_favicon = str(ROOT / "src" / "headgate" / "page" / "static" / "icon.svg")

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_use_unqualified_type_names = True
maximum_signature_line_length = 88
add_module_names = False

#: The pages in their order; one that is not there is left out, and one that is nowhere here comes last.
PAGES = {
    "Begin": [
        "docs/shedding",
        "docs/tutorial",
        "docs/how-to",
        "docs/guide",
        "docs/notebooks",
        "examples/README",
    ],
    "Four systems": ["docs/guard", "docs/groups", "docs/joins", "docs/sites"],
    "Run it": [
        *("docs/operations", "docs/page", "docs/job", "docs/what-if", "docs/sources", "docs/kafka"),
        *("docs/ledger", "docs/backfill", "docs/rescue", "docs/estimates", "docs/control-store"),
        *(
            "docs/clusters",
            "docs/coordinator",
            "docs/compatibility",
            "docs/spark-versions",
            "docs/real-time-mode",
        ),
    ],
    "Look up": ["docs/site/reference", "docs/json", "docs/sic", "docs/glossary", "CHANGELOG"],
    "Know why": [
        *("docs/promises", "docs/results", "benchmarks/README", "benchmarks/join-figures"),
        *("benchmarks/themis-figures", "docs/papers", "docs/decisions", "ARCHITECTURE"),
        *("CONTRIBUTING", "lab/README", "SECURITY"),
    ],
}


def navigation() -> dict[str, list[str]]:
    """The sections of the site, of the pages that are there."""
    known = {name for names in PAGES.values() for name in names}
    there = {name: [page for page in names if _file(page)] for name, names in PAGES.items()}
    others = sorted(p.relative_to(ROOT).with_suffix("").as_posix() for p in ROOT.glob("docs/*.md"))
    more = [name for name in others if name not in known]
    return {**there, **({"More": more} if more else {})}


def _file(page: str) -> bool:
    return any((ROOT / f"{page}{suffix}").is_file() for suffix in (".md", ".rst"))


def _add_navigation(app: Any, docname: str, source: list[str]) -> None:
    if docname == root_doc:
        trees = [
            "\n".join(
                [
                    "```{toctree}",
                    ":hidden:",
                    f":caption: {caption}",
                    "",
                    *(f"/{p}" for p in pages),
                    "```",
                ]
            )
            for caption, pages in navigation().items()
        ]
        source[0] = "\n\n".join([source[0], *trees])


#: A line such as "Which:", and what is explained under it or by itself, "keep: an SQL predicate".
_SECTION = re.compile(r"^\S.*:$")
_ENTRY = re.compile(r"^( *)(\S[^:]*): (.*)$")


def _arguments_as_lists(
    app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    """Docstrings explain arguments in sections of their own words: each becomes an item of a list."""
    made: list[str] = []
    arguments = _arguments(thing)
    depth: int | None = None  # of the entry that goes on
    for number, line in enumerate(lines):
        entry = _ENTRY.match(line)
        following = _ENTRY.match(lines[number + 1]) if number + 1 < len(lines) else None
        indented = len(line) - len(line.lstrip())
        if _SECTION.match(line) and following and following[1]:
            made += [f"**{line}**", ""]
            depth = 0
        elif entry and (entry[2] in arguments or (depth is not None and indented == 4)):
            made += ([] if depth is not None or not made or not made[-1] else [""]) + [
                f"- **{entry[2]}**: {entry[3]}"
            ]
            depth = indented
        elif depth is not None and line.strip() and indented > depth:
            made.append("  " + line.strip())
        else:
            if depth is not None and line.strip() and made[-1]:
                made.append("")
            depth = depth if not line.strip() and following else None
            made.append(line)
    lines[:] = made


def _arguments(thing: Any) -> set[str]:
    try:
        return set(inspect.signature(thing).parameters)
    except (TypeError, ValueError):
        return set()


def _front_page(app: Any, exception: Exception | None) -> None:
    if exception is None and app.builder.format == "html":
        shutil.copy(Path(app.outdir) / f"{root_doc}.html", Path(app.outdir) / "index.html")


def setup(app: Any) -> None:
    """Called by the generator."""
    app.connect("source-read", _add_navigation)
    app.connect("autodoc-process-docstring", _arguments_as_lists)
    app.connect("build-finished", _front_page)
