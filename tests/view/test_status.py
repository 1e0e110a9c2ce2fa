"""`hg.status`: what a notebook shows of a store, from names that nobody has to trust."""

from __future__ import annotations

import math
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

import headgate as hg
from headgate.core.plan import KEEP_ALL
from headgate.settings import GateSettings
from headgate.store.ledger.record import Record
from headgate.store.ledger.records import Ledger
from headgate.store.plans import PlanStore
from headgate.store.settings_file import SettingsFile
from tests.view.virtual_gate import CAPACITY, VirtualGate

HOSTILE = ["<script>alert(1)</script>", '" onload="alert(1)', "a&amp;b", "'; DROP"]


class _Read(HTMLParser):
    """The text, the tags and the attributes of some HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def _held(control: Path) -> hg.Status:
    gate = VirtualGate(control)
    gate.batches(40, 4 * CAPACITY)
    return hg.status(control, clock=gate.clock)


def test_a_notebook_shows_what_the_page_says(control: Path) -> None:
    status = _held(control)
    assert status.level == "shedding"
    read = _Read(status._repr_html_())
    text = " ".join(read.words)
    assert status.sentence in text
    for said in ("rides", "0f3a6c51", "holding", "1.00 s"):
        assert said in text
    assert read.tags.count("polyline") == 1
    (gate,) = status.to_json()
    assert gate["gate"] == "rides"
    assert gate["queries"][0]["shed"] > 0


def test_it_is_whole_alone_and_in_no_colour_of_its_own(control: Path) -> None:
    text = _held(control)._repr_html_()
    ElementTree.fromstring(text.replace("<br>", ""))  # every tag is closed
    read = _Read(text)
    assert not {"script", "style", "link", "img", "iframe"} & set(read.tags)
    assert not any(name.startswith("on") or name in ("href", "src") for name in read.attributes)
    assert "http" not in text
    assert "currentColor" in text
    assert "color:" not in text


def test_as_text_it_is_a_line_for_each_query(control: Path) -> None:
    first, *lines = repr(_held(control)).splitlines()
    assert first.startswith("shedding: ")
    assert len(lines) == 1
    assert lines[0].startswith("  rides (0f3a6c51): holding; last batch ")


@pytest.mark.parametrize("name", HOSTILE)
def test_what_others_wrote_is_text_and_nothing_else(control: Path, name: str) -> None:
    """A gate's name is checked at the call; a folder on a shared disk may be called anything."""
    name = name.replace("/", "\u2044")
    gate = VirtualGate(control, query="<b>query")
    gate.batches(3, 1000, takes=lambda _: 9.0)
    (control / "gates" / "rides").rename(control / "gates" / name)
    status = hg.status(control)
    read = _Read(status._repr_html_())
    assert not {"script", "b"} & set(read.tags)
    assert not any(attribute.startswith("on") for attribute in read.attributes)
    assert name in " ".join(read.words)


def test_before_the_first_batch_and_with_odd_times(control: Path) -> None:
    SettingsFile(control, "new").declare(GateSettings(rate=0.5))
    PlanStore(control, "new", "q").beat()
    assert hg.status(control).level == "waiting"
    ledger = Ledger(control, "new", "q")
    for batch, seconds in enumerate((0.0, 0.0, 1.0)):
        ledger.append(Record("new", "q", batch, 0, 0, 0, KEEP_ALL, state="idle", duration_s=seconds))
    text = hg.status(control)._repr_html_()
    assert str(math.nan) not in text
    assert "polyline" in text


def test_a_folder_that_no_gate_has_used_is_told(tmp_path: Path) -> None:
    with pytest.raises(hg.ControlFolderError, match="there is no folder"):
        hg.status(tmp_path / "nowhere")
