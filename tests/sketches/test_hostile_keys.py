"""Keys of every kind that a row can have: each is one number, and nothing but that."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headgate.guards.inline_policy import InlinePolicy
from headgate.guards.targets import average
from headgate.sketches.cost_table import CostTable
from headgate.sketches.keys import stable_key, stable_keys
from tests.hostile import texts

_SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | texts() | st.binary() | st.datetimes()
)


@given(_SCALARS | st.lists(_SCALARS, max_size=3) | st.dictionaries(texts(), _SCALARS, max_size=3))
def test_any_value_of_a_row_is_a_key(value: object) -> None:
    key = stable_key(value)
    assert 0 <= key < 1 << 64
    assert stable_key(value) == key
    assert stable_keys([value])[0] == key


def test_what_looks_alike_is_told_apart_and_what_is_alike_is_not() -> None:
    alike = ["\u00e9", "e\u0301", "E\u0301", "\u00e9 ", "\u00e9\x00", "\u00e9\u200d", "\ud800", "?", ""]
    assert len({stable_key(text) for text in alike}) == len(alike), "no two texts are one group"
    assert len({stable_key(nan) for nan in (math.nan, -math.nan, float("nan"), np.nan)}) == 1
    assert stable_key(0.0) == stable_key(-0.0) != stable_key(math.inf) != stable_key(-math.inf)


def test_a_key_of_a_megabyte_costs_its_length_and_leaves_a_number() -> None:
    """What is remembered of keys is as long for a key of 1 MB as for one of a byte."""
    long = ["\U0001f469\u200d" * 150_000 + str(n) for n in range(3)]
    assert len({stable_key(text) for text in long}) == 3
    costs = InlinePolicy("balanced", average("1 second")).costs()
    assert isinstance(costs, CostTable)
    for text in ("a", *long):
        costs.learn(stable_key(text), 0.5, 1)
    again = CostTable.from_bytes(costs.to_bytes())
    assert len(again.to_bytes()) < 1 << 20
    assert all(abs(again.duration(stable_key(text)) - 0.5) < 1e-6 for text in ("a", *long))
