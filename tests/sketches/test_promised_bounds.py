"""Stable keys and hashing, and every bound that the sketches promise, against exact truth."""

from __future__ import annotations

import datetime
import decimal
import os
import subprocess
import sys
import uuid
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import BadArgument, SnapshotError
from headgate.sketches import (
    AgedSketch,
    CostSketch,
    CostTable,
    HashFamily,
    SketchShape,
    stable_key,
    stable_keys,
    uniform,
    uniforms,
)
from headgate_lab.papers.las import ExactCosts

keys = st.integers(0, 2**64 - 1)
seeds = st.integers(0, 2**32)
#: A stream of few keys with durations of a microsecond to a second.
streams = st.lists(
    st.tuples(st.integers(0, 40).map(stable_key), st.integers(1, 10**6).map(lambda n: n * 1e-6)),
    min_size=1,
    max_size=300,
)
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2**63, -(2**80), 1.0, 0.5, float("inf"), "", "1", "é", b"1", b"",
    decimal.Decimal("1"), datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 1),
    datetime.timedelta(1), uuid.UUID(int=1), [], [1], ["1"], [[1]], [1, None], {"a": 1}, {"a": None},
]  # fmt: skip


def fill(store: Any, stream: list[tuple[int, float]]) -> Any:
    for key, seconds in stream:
        store.learn(key, seconds)
    return store


def test_a_key_is_the_same_in_every_process() -> None:
    code = "from headgate.sketches import stable_key as k; print(k('user-7'), k(1, None, 'x'), k(2.5))"
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert found == {f"{stable_key('user-7')} {stable_key(1, None, 'x')} {stable_key(2.5)}\n"}


def test_values_of_different_types_and_places_have_different_keys() -> None:
    assert len({stable_key(value) for value in VALUES}) == len(VALUES)
    pairs = [("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc"), ("abc",), (["ab", "c"],), ("c", "ab")]
    assert len({stable_key(*pair) for pair in pairs}) == len(pairs)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.int8(5), 5), (np.uint64(5), 5), (np.float32(0.5), 0.5), (-0.0, 0.0), (np.str_("x"), "x"),
        (float("nan"), -float("nan")), (decimal.Decimal("1.50"), decimal.Decimal("1.5")),
        ((1, 2), [1, 2]), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), (np.array([1, 2]), [1, 2]),
        (datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.UTC),
         datetime.datetime(2024, 1, 1, 14, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))),
    ],
)  # fmt: skip
def test_one_value_in_two_dresses_has_one_key(one: Any, other: Any) -> None:
    assert stable_key(one) == stable_key(other)


def test_decimals_keep_all_their_digits() -> None:
    long = decimal.Decimal("1" * 38)
    assert stable_key(long) != stable_key(decimal.Decimal("1" * 37 + "2"))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.lists(st.text(), min_size=1))
def test_columns_give_the_keys_of_their_rows(numbers: list[int], texts: list[str]) -> None:
    rows = min(len(numbers), len(texts))
    column = np.array(numbers[:rows], np.int64)
    assert stable_keys(column).tolist() == [stable_key(n) for n in numbers[:rows]]
    both = stable_keys(column, texts[:rows]).tolist()
    assert both == [stable_key(n, t) for n, t in zip(numbers, texts, strict=False)]


def test_a_key_of_something_odd_is_refused() -> None:
    with pytest.raises(BadArgument, match="type object"):
        stable_key(object())
    with pytest.raises(BadArgument, match="at least one"):
        stable_key()
    with pytest.raises(BadArgument, match="equal length"):
        stable_keys([1], [1, 2])


@given(st.lists(keys, min_size=1, max_size=20), seeds, st.integers(1, 5000))
def test_columns_are_in_range_and_the_same_one_by_one(some: list[int], seed: int, columns: int) -> None:
    family = HashFamily(3, columns, seed)
    together = family.columns_of_all(np.array(some, np.uint64))
    assert together.T.tolist() == [family.columns_of(key) for key in some]
    assert together.min() >= 0
    assert together.max() < columns


def test_two_keys_meet_as_rarely_as_2_universality_says() -> None:
    pairs = [(0, 1), (1, 2**32), (stable_key(1), stable_key(2)), (5, 2**64 - 1), (7 << 32, 9 << 32)]
    for one, other in pairs:
        met = sum(
            HashFamily(1, 16, s).columns_of(one) == HashFamily(1, 16, s).columns_of(other)
            for s in range(4000)
        )
        assert met / 4000 < 1 / 16 + 4 * (1 / 16 / 4000) ** 0.5


def test_uniform_numbers_are_uniform_and_the_same_one_by_one() -> None:
    drawn = uniforms(9, 20_000)
    assert drawn[:50].tolist() == [uniform(9, place) for place in range(50)]
    assert abs(drawn.mean() - 0.5) < 0.01
    counts = np.bincount((drawn * 10).astype(int), minlength=10)
    assert abs(counts - 2000).max() < 200


@given(streams, seeds)
def test_count_min_never_counts_too_few_and_a_duration_is_never_out_of_range(
    stream: list[tuple[int, float]], seed: int
) -> None:
    sketch = fill(CostSketch(SketchShape(3, 7, seed)), stream)
    exact = fill(ExactCosts(), stream)
    low, high = min(s for _, s in stream), max(s for _, s in stream)
    for key in {k for k, _ in stream} | {stable_key("never")}:
        assert sketch.frequency(key) >= exact.frequency(key)
        assert low * (1 - 1e-9) <= sketch.duration(key) <= high * (1 + 1e-9)
    assert sketch.mean == pytest.approx(exact.mean)


@settings(max_examples=25)
@given(seeds, st.floats(0, 2), st.integers(5, 400))
def test_count_min_counts_too_many_as_rarely_as_promised(seed: int, skew: float, wide: int) -> None:
    """P(f-hat - f >= epsilon (m - f)) <= delta, over hash draws and keys (las-2020, Section 3.2)."""
    shares = np.arange(1, wide + 1) ** -skew
    items = np.random.default_rng(seed).choice(wide, 600, p=shares / shares.sum()).tolist()
    epsilon, delta = 0.1, 0.1
    wrong = asked = 0
    distinct = {item: items.count(item) for item in items}
    for draw in range(8):
        sketch = CostSketch(SketchShape.of(epsilon, delta, seed + draw))
        for key in stable_keys(np.array(items)).tolist():
            sketch.add(key, 1.0)
        for item, count in distinct.items():
            asked += 1
            wrong += sketch.frequency(stable_key(item)) - count >= epsilon * (len(items) - count)
    assert wrong <= delta * asked


@given(streams)
def test_with_room_for_all_the_sketch_is_exact(stream: list[tuple[int, float]]) -> None:
    sketch, exact = fill(CostSketch(SketchShape(6, 4096)), stream), fill(ExactCosts(), stream)
    for key in {k for k, _ in stream}:
        assert sketch.frequency(key) == exact.frequency(key)
        assert sketch.duration(key) == pytest.approx(exact.duration(key))
    assert sketch.duration(stable_key("never")) == pytest.approx(exact.mean)


@given(streams, streams, seeds)
def test_merging_is_adding_and_bytes_come_back(
    one: list[tuple[int, float]], other: list[tuple[int, float]], seed: int
) -> None:
    shape = SketchShape(4, 54, seed)
    merged, whole = fill(CostSketch(shape), one), fill(CostSketch(shape), one + other)
    merged.merge(fill(CostSketch(shape), other))
    back = CostSketch.from_bytes(whole.to_bytes())
    for twin in (merged, back):
        assert np.array_equal(twin.F, whole.F)
        assert np.allclose(twin.W, whole.W)
        assert twin.count == whole.count
    assert back.to_bytes() == whole.to_bytes()


@pytest.mark.parametrize("shape", [SketchShape(4, 54, 1), SketchShape(4, 55), SketchShape(3, 54)])
def test_another_shape_or_seed_is_refused(shape: SketchShape) -> None:
    with pytest.raises(BadArgument, match="cannot be merged"):
        CostSketch(SketchShape(4, 54)).merge(CostSketch(shape))


def test_damaged_or_foreign_bytes_are_refused() -> None:
    data = CostSketch(SketchShape(4, 54)).to_bytes()
    for bad, why in (
        (b"x", "no count-min"),
        (data[:-1], "cut"),
        (data[:5] + b"\7" + data[6:], "version 7"),
    ):
        with pytest.raises(SnapshotError, match=why):
            CostSketch.from_bytes(bad)
    table = CostTable(8).to_bytes()
    for bad, why in ((data, "no cost table"), (table[:-1], "cut"), (table[:5] + b"\7" + table[6:], "7")):
        with pytest.raises(SnapshotError, match=why):
            CostTable.from_bytes(bad)


@pytest.mark.parametrize(
    ("epsilon", "delta", "rows", "columns"), [(0.05, 0.1, 4, 54), (0.7, 0.25, 2, 4), (1.0, 0.5, 1, 3)]
)
def test_the_papers_own_shapes(epsilon: float, delta: float, rows: int, columns: int) -> None:
    assert SketchShape.of(epsilon, delta) == SketchShape(rows, columns)


def test_halving_keeps_durations_and_follows_change() -> None:
    sketch = AgedSketch(SketchShape(4, 272), every=64)
    for _ in range(1000):
        sketch.learn(1, 0.001)
    assert sketch.duration(1) == pytest.approx(0.001)
    for _ in range(512):
        sketch.learn(1, 0.002)
    assert sketch.duration(1) == pytest.approx(0.002, rel=0.01)
    assert sketch.count < 129


@given(streams, seeds)
def test_a_table_with_room_follows_the_last_executions_of_each_key(
    stream: list[tuple[int, float]], seed: int
) -> None:
    table = fill(CostTable(sets=4096, ways=8, memory=10**6, seed=seed), stream)
    exact = fill(ExactCosts(), stream)
    for key in {k for k, _ in stream}:
        assert table.duration(key) == pytest.approx(exact.duration(key))
    assert table.duration(stable_key("never")) == pytest.approx(exact.mean)
    again = CostTable.from_bytes(table.to_bytes())
    assert again.to_bytes() == table.to_bytes()


def test_a_full_table_keeps_the_frequent_keys() -> None:
    table = CostTable(sets=4, ways=4)
    for rare in range(4000):
        table.learn(stable_key("often"), 0.5)
        table.learn(stable_key(rare), 0.001)
    assert table.duration(stable_key("often")) == pytest.approx(0.5)
    assert table.keys.size == 16
