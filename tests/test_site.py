"""The documentation site is built strictly and offline, and every link inside leads somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import headgate

ROOT = Path(__file__).parents[1]
#: An address at which nobody listens: whoever asks for something over the network fails at once.
_NO_NETWORK = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")


class _Page(HTMLParser):
    """What a page links to, what it loads, and the names that can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.names |= {value for name in ("id", "name") if (value := given.get(name))}
        target = given.get("href") or given.get("src")
        if tag == "a" and target:
            self.links.append(target)
        elif tag in ("script", "img", "link") and target:
            self.loads.append(target)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for name in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(name, reason="make setup installs the generator")
    made = tmp_path_factory.mktemp("site")
    options = ["-W", "--keep-going", "-q", "-b", "html", "-c", "docs/site", "-d", str(made / "trees")]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, ".", str(made / "html")],
        cwd=ROOT,
        env=os.environ | _NO_NETWORK,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return made / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, _Page]:
    return {path: _Page(path.read_text()) for path in site.rglob("*.html")}


@pytest.mark.slow
def test_every_link_inside_leads_somewhere(site: Path, pages: dict[Path, _Page]) -> None:
    followed = 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            assert target.is_file(), f"{path.relative_to(site)} links to {link}"
            if parts.fragment and target.suffix == ".html":
                assert unquote(parts.fragment) in pages[target].names, f"{path.name} links to {link}"
            followed += 1
    assert followed > 500


@pytest.mark.slow
def test_it_loads_nothing_from_elsewhere(site: Path, pages: dict[Path, _Page]) -> None:
    for path, page in pages.items():
        for loaded in page.loads:
            parts = urlsplit(loaded)
            assert not parts.netloc, f"{path.name} loads {loaded}"
            if parts.path and parts.scheme != "data":
                assert (path.parent / unquote(parts.path)).is_file(), f"{path.name} loads {loaded}"


@pytest.mark.slow
def test_every_page_of_the_docs_is_on_it_and_no_path_of_the_machine(site: Path) -> None:
    for page in (ROOT / "docs").glob("*.md"):
        assert (site / "docs" / f"{page.stem}.html").is_file(), page.name
    assert (site / "index.html").read_text() == (site / "README.html").read_text()
    for path in site.rglob("*.html"):
        assert str(ROOT) not in path.read_text(), path.name


def test_the_reference_has_every_public_name_once() -> None:
    text = (ROOT / "docs" / "site" / "reference.rst").read_text()
    named = re.findall(r"^\.\. auto(?:function|class):: headgate\.(\w+)$", text, re.MULTILINE)
    assert len(named) == len(set(named))
    modules = re.findall(r"^\.\. automodule:: (\S+)$", text, re.MULTILINE)
    assert modules == ["headgate.spark.sic", "headgate.errors"]
    from headgate import errors

    others = {"__version__", "sic", *errors.__all__}
    assert set(named) == set(headgate.__all__) - others
