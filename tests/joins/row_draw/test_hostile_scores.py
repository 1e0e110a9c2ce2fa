"""What rows are scored by is part of a plan, and a plan may have been changed by somebody."""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.partners import MOST_BYTES, packed, unpacked
from headgate.errors import SnapshotError
from headgate.joins.conditions import overlap
from headgate.joins.row_draw.scores import Part, RowScores, Shares
from headgate.joins.rows import SetRows
from headgate.policies.by_group.key_filter import KeyFilter
from tests.hostile import VALUES, mangled

_SCORES = RowScores(((Part(2.0, Shares(5.0, np.arange(128, dtype=np.uint8))),), ()), (1.0, 0.5))
_HEAD = {"flat": [1.0, 0.5], "parts": [[[2.0, False, 5.0, 128]], []]}


@functools.cache  # compiled when a test asks for it, and not whenever tests are collected
def _rows() -> SetRows:
    return SetRows.of([1, 2, 3], [0, 2, 3, 3], [1, 2, 3])


def _text(head: Any) -> str:
    text = json.dumps(head).encode()
    return packed(len(text).to_bytes(4, "little") + text + bytes(range(128)))


@given(mangled(_HEAD) | st.sampled_from(VALUES))
def test_scores_are_read_or_refused_in_words(head: Any) -> None:
    with contextlib.suppress(SnapshotError):
        found = RowScores.from_text(_text(head))
        met, ahead = found.expected(overlap("items", at_least=1), _rows(), 0)
        assert len(met) == len(ahead) == 3


@given(st.text(max_size=40) | st.binary(max_size=40).map(lambda b: base64.b64encode(b).decode()))
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    for read in (RowScores.from_text, KeyFilter.from_text, unpacked):
        with contextlib.suppress(SnapshotError):
            read(text)  # type: ignore[operator]


def test_a_few_bytes_do_not_become_many() -> None:
    assert RowScores.from_text(_SCORES.to_text()).flat == (1.0, 0.5)
    bomb = base64.b64encode(zlib.compress(bytes(4 * MOST_BYTES), 9)).decode()
    assert len(bomb) < 1 << 17
    for read in (RowScores.from_text, KeyFilter.from_text):
        with pytest.raises(SnapshotError, match="stands for more than"):
            read(bomb)
