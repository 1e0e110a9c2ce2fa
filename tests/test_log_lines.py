"""Whatever a message quotes, it is one line of the log, and every logger of ours sees to it."""

from __future__ import annotations

import io
import logging
import re
from pathlib import Path

import pytest
from hypothesis import given

import headgate
from headgate.log_lines import LOGGERS, MOST_CHARACTERS, one_line
from tests.hostile import TEXTS, texts


@given(texts())
def test_nothing_in_a_line_is_obeyed(text: str) -> None:
    found = one_line(text)
    assert len(found.splitlines()) <= 1
    assert "\x1b" not in found
    found.encode()


@pytest.mark.parametrize("name", LOGGERS)
def test_a_forged_line_is_none(name: str) -> None:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    try:
        for text in (*TEXTS, "x" * 1_000_000):
            logger.error("group %s of %r: %s", text, text, Path("a\nb"))
        logger.error("100 %", exc_info=None)
    finally:
        logger.removeHandler(handler)
    lines = out.getvalue().splitlines()
    assert len(lines) == len(TEXTS) + 2
    assert all(len(line) < MOST_CHARACTERS + 100 for line in lines)


def test_no_logger_is_forgotten() -> None:
    root = Path(headgate.__file__).parent
    found = {
        name
        for path in root.rglob("*.py")
        for name in re.findall(r'getLogger\("(headgate[a-z.]*)"\)', path.read_text())
    }
    assert found == set(LOGGERS)
