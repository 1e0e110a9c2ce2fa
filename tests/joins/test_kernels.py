"""Block kernels find exactly the pairs that Python sets find."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import BadArgument, MissingExtra
from headgate.joins import rows as rows_module
from headgate.joins.blocks_match import Reach, match
from headgate.joins.conditions import (
    Condition,
    equal,
    inner_product,
    overlap,
    predicate,
    subset,
    superset,
)
from headgate.joins.rows import KeyRows, PlainRows, Rows, SetRows, VectorRows, WeightedRows
from headgate.sketches import mix64
from tests.joins import naive_pairs

pytestmark = pytest.mark.slow

#: The first call compiles.
RELAXED = settings(deadline=None)
HUGE = st.integers(-(2**63), 2**63 - 1)
EXACT = st.integers(0, 127)
FEW = st.sampled_from([0, 1, 63, 64, 127, 128, -1, -(2**63), 2**63 - 1, 10**9, 5000])
TIMES = st.integers(-6, 6)
REACHES = st.tuples(st.integers(-3, 9), st.integers(-3, 9)).filter(lambda reach: sum(reach) >= 0)


def _lists(items: st.SearchStrategy[int], most: int = 12) -> st.SearchStrategy[list[list[int]]]:
    return st.lists(st.lists(items, max_size=most), max_size=20)


def _flat(lists: list[list[Any]]) -> tuple[list[int], list[Any]]:
    return [0, *np.cumsum([len(x) for x in lists]).tolist()], [x for part in lists for x in part]


def _sets(times: list[int], lists: list[list[int]]) -> SetRows:
    return SetRows.of(times, *_flat(lists))


def _weighted(times: list[int], maps: list[dict[int, float]]) -> WeightedRows:
    offsets, items = _flat([list(part) for part in maps])
    return WeightedRows.of(times, offsets, items, [w for part in maps for w in part.values()])


def _check(condition: Condition, build: Any, ours: list[Any], theirs: list[Any], data: Any) -> None:
    """The kernel against the twin, for drawn times, reach, picked probes and side."""
    probe_times = data.draw(st.lists(TIMES, min_size=len(ours), max_size=len(ours)))
    row_times = data.draw(st.lists(TIMES, min_size=len(theirs), max_size=len(theirs)))
    before, after = data.draw(REACHES)
    left, picked = data.draw(st.booleans()), None
    if ours and data.draw(st.booleans()):
        picked = data.draw(st.lists(st.integers(0, len(ours) - 1), unique=True))
    probe, rows = build(probe_times, ours), build(row_times, theirs)
    many = data.draw(st.sampled_from([0, 10**9]))  # whether the block is indexed, or scanned
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headgate.joins.blocks_match._MANY", {True: many, False: many})
        found = match(condition, probe, rows, picked, Reach(before, after), probe_is_left=left)
    assert [part.dtype for part in found] == [np.int32, np.int32]
    want = naive_pairs.pairs(
        condition, ours, probe_times, theirs, row_times, picked, before, after, left
    )
    assert list(zip(*(part.tolist() for part in found), strict=True)) == want


CONDITIONS = st.one_of(
    st.sampled_from([1, 2, 3, 4, 5, 200]).map(lambda k: overlap("x", at_least=k)),
    st.just(subset("x")),
    st.just(superset("x")),
)


@RELAXED
@given(CONDITIONS, _lists(EXACT), _lists(EXACT), st.data())
def test_exact_sets(condition: Condition, ours: Any, theirs: Any, data: Any) -> None:
    _check(condition, _sets, ours, theirs, data)


@RELAXED
@given(CONDITIONS, _lists(FEW), _lists(FEW), st.data())
def test_hashed_sets_that_share_much(condition: Condition, ours: Any, theirs: Any, data: Any) -> None:
    _check(condition, _sets, ours, theirs, data)


@RELAXED
@given(CONDITIONS, _lists(EXACT, 4), _lists(HUGE | EXACT), st.data())
def test_exact_and_hashed_blocks_meet(condition: Condition, ours: Any, theirs: Any, data: Any) -> None:
    _check(condition, _sets, ours, theirs, data)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 900), st.integers(0, 2**32), st.data())
def test_large_sets_lose_bits_but_no_pairs(need: int, seed: int, data: Any) -> None:
    # sets of hundreds of items hide far more than 255 of them behind 128 bits
    random = np.random.default_rng(seed)

    def draw() -> list[list[int]]:
        return [random.integers(0, 1200, random.integers(0, 1500)).tolist() for _ in range(5)]

    _check(overlap("x", at_least=need), _sets, draw(), draw(), data)


@RELAXED
@given(st.lists(FEW, max_size=40), st.lists(FEW, max_size=40), st.data())
def test_keys_nested(ours: Any, theirs: Any, data: Any) -> None:
    _check(equal("x"), lambda times, keys: KeyRows.of(times, keys), ours, theirs, data)


@RELAXED
@given(st.lists(FEW, max_size=40), st.lists(FEW | HUGE, max_size=40), st.data())
def test_keys_sorted(ours: Any, theirs: Any, data: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headgate.joins.blocks_match._SMALL", -1)
        patch.setattr(KeyRows, "is_sorted", True)
        _check(equal("x"), lambda times, keys: KeyRows.of(times, keys), ours, theirs, data)


def test_a_large_block_is_sorted_once() -> None:
    random = np.random.default_rng(1)
    ours = KeyRows.of(np.zeros(2000, np.int64), random.integers(0, 900, 2000))
    theirs = KeyRows.of(np.zeros(1000, np.int64), random.integers(0, 900, 1000))
    nested = match(equal("x"), ours, theirs, np.arange(5), Reach(0, 0))
    assert not theirs.is_sorted
    whole = match(equal("x"), ours, theirs, None, Reach(0, 0))
    assert theirs.is_sorted
    first = whole[0] < 5
    assert [part[first].tolist() for part in whole] == [part.tolist() for part in nested]


WEIGHTS = st.integers(-8, 8).map(float)


@RELAXED
@given(
    st.lists(st.dictionaries(FEW, WEIGHTS, max_size=8), max_size=15),
    st.lists(st.dictionaries(FEW, WEIGHTS, max_size=8), max_size=15),
    st.integers(1, 40),
    st.data(),
)
def test_weighted_sets(ours: Any, theirs: Any, least: int, data: Any) -> None:
    _check(inner_product("x", at_least=least), _weighted, ours, theirs, data)


@RELAXED
@given(st.integers(0, 5), st.integers(1, 40), st.data())
def test_vectors(size: int, least: int, data: Any) -> None:
    vectors = st.lists(st.lists(WEIGHTS, min_size=size, max_size=size), max_size=15)
    _check(
        inner_product("x", at_least=least),
        lambda times, rows: VectorRows.of(times, np.array(rows, np.float32).reshape(len(rows), size)),
        data.draw(vectors),
        data.draw(vectors),
        data,
    )


@RELAXED
@given(st.integers(0, 2**32), st.data())
def test_a_product_at_the_threshold_is_computed_in_doubles(seed: int, data: Any) -> None:
    random = np.random.default_rng(seed)
    ours = random.normal(size=(9, 40)).astype(np.float32)
    theirs = random.normal(size=(9, 40)).astype(np.float32)
    exact = ours.astype(np.float64) @ theirs.T.astype(np.float64)
    least = float(exact[exact > 0].min()) * data.draw(st.sampled_from([1 - 1e-9, 1 + 1e-9]))
    found = match(
        inner_product("x", at_least=least), VectorRows.of(np.zeros(9), ours),
        VectorRows.of(np.zeros(9), theirs), None, Reach(0, 0),
    )  # fmt: skip
    assert set(zip(*(p.tolist() for p in found), strict=True)) == set(
        zip(*(p.tolist() for p in np.nonzero(exact >= least)), strict=True)
    )


@RELAXED
@given(st.lists(st.integers(0, 9), max_size=15), st.lists(st.integers(0, 9), max_size=15), st.data())
def test_a_predicate_sees_only_pairs_inside_the_window(ours: Any, theirs: Any, data: Any) -> None:
    condition = predicate(lambda a, b: abs(a - b) <= 2, "x")
    probe_times = data.draw(st.lists(TIMES, min_size=len(ours), max_size=len(ours)))
    row_times = data.draw(st.lists(TIMES, min_size=len(theirs), max_size=len(theirs)))
    before, after = data.draw(REACHES)
    seen: list[tuple[int, int]] = []

    def test(probes: Any, rows: Any) -> Any:
        seen.extend(zip(probes.tolist(), rows.tolist(), strict=True))
        return np.abs(np.array(ours)[probes] - np.array(theirs)[rows]) <= 2

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headgate.joins.blocks_match._CANDIDATES", 20)  # so that there are several calls
        found = match(
            condition, PlainRows.of(probe_times), PlainRows.of(row_times), None, Reach(before, after),
            test=test,
        )  # fmt: skip
    arguments = (ours, probe_times, theirs, row_times, None, before, after, True)
    assert list(zip(*(p.tolist() for p in found), strict=True)) == naive_pairs.pairs(
        condition, *arguments
    )
    always = predicate(lambda a, b: True, "x")
    assert seen == naive_pairs.pairs(always, *arguments)


def test_many_pairs_and_blocks_that_are_no_multiple_of_eight() -> None:
    for count in (1, 7, 8, 9, 1023, 4097):
        ours = _sets([0] * 3, [[1], [2], [1, 2]])
        theirs = _sets([0] * count, [[1, 2]] * count)
        probes, rows = match(overlap("x", at_least=1), ours, theirs, None, Reach(0, 0))
        assert probes.tolist() == [p for p in range(3) for _ in range(count)]
        assert rows.tolist() == list(range(count)) * 3


@pytest.mark.parametrize("many", [0, 10**9])
def test_more_hidden_items_than_a_byte_counts(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # 600 items have at most 128 bits: 472 or more are hidden, and `lost` says 255
    monkeypatch.setattr("headgate.joins.blocks_match._MANY", {True: many, False: many})
    rows = _sets([0, 0, 0], [list(range(1000, 1600)), list(range(1100, 1700)), [1100, 1200]])
    assert rows.lost.tolist()[:2] == [255, 255]
    for need, want in ((500, 4), (501, 2), (600, 2), (601, 0)):
        assert len(match(overlap("x", at_least=need), rows, rows, None, Reach(0, 0))[0]) == want


@pytest.mark.parametrize("items", [100, 3000])
def test_an_index_finds_what_a_scan_finds_in_a_large_block(items: int) -> None:
    random, found = np.random.default_rng(items), []

    def skewed(count: int) -> Any:
        return (items * random.random(count * 6) ** 3).astype(np.int64)

    # more rows than a tile of the planes has, no multiple of 64; some items are in many rows
    ours = SetRows.of(random.integers(0, 100, 90), np.arange(91) * 6, skewed(90))
    times, flat = random.integers(0, 100, 40_001), skewed(40_001)
    for condition in (overlap("x", at_least=2), overlap("x", at_least=4), subset("x")):
        for many in (0, 10**9):
            theirs = SetRows.of(times, np.arange(40_002) * 6, flat)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("headgate.joins.blocks_match._MANY", {True: many, False: many})
                found.append(match(condition, ours, theirs, None, Reach(60, 10)))
            assert theirs.is_indexed == (many == 0 and (items <= 128 or condition != subset("x")))
        scan, index = found[-1], found[-2]
        assert [part.tolist() for part in scan] == [part.tolist() for part in index]
    assert len(found[0][0]) > 1000


@RELAXED
@given(_lists(EXACT), _lists(EXACT), st.integers(1, 4))
def test_overlaps_are_counted(ours: list[list[int]], theirs: list[list[int]], need: int) -> None:
    left, right = _sets([0] * len(ours), ours), _sets([0] * len(theirs), theirs)
    count = rows_module.compiled().count_overlaps(need, left.lo, left.hi, right.lo, right.hi)
    assert count == sum(len(set(a) & set(b)) >= need for a in ours for b in theirs)


@RELAXED
@given(_lists(FEW | HUGE))
def test_signatures(lists: list[list[int]]) -> None:
    rows = _sets([0] * len(lists), lists)
    assert rows.exact == all(0 <= x < 128 for part in lists for x in part)
    for index, part in enumerate(lists):
        bits = {x if 0 <= x < 128 else mix64(x) % 128 for x in part}
        assert int(rows.lo[index]) | int(rows.hi[index]) << 64 == sum(1 << bit for bit in bits)
        assert rows.lost[index] == len(set(part)) - len(bits)
        assert rows.items[rows.offsets[index] : rows.offsets[index + 1]].tolist() == sorted(set(part))


def test_rows_from_stored_bytes_do_not_compile_anew() -> None:
    rows = _sets([1, 2], [[1, 2], [3]])
    stored = SetRows(
        **{name: np.frombuffer(getattr(rows, name).tobytes(), getattr(rows, name).dtype)
           for name in ("time", "lo", "hi", "lost", "offsets", "items")}, exact=rows.exact,
    )  # fmt: skip
    kernels = rows_module.compiled()
    match(overlap("x", at_least=1), rows, rows, None, Reach(9, 9))
    before = len(kernels.set_pairs.signatures)
    found = match(overlap("x", at_least=1), rows, stored, [0], Reach(9, 9))
    assert len(kernels.set_pairs.signatures) == before
    assert [part.tolist() for part in found] == [[0], [0]]


def test_a_reach_of_any_length_does_not_overflow() -> None:
    late = _sets([4 * 10**17, -(4 * 10**17)], [[1], [1]])
    found = match(overlap("x", at_least=1), late, late, None, Reach(2**70, 2**70))
    assert len(found[0]) == 4


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        (overlap("x", at_least=1), KeyRows.of([0], [1])),
        (equal("x"), PlainRows.of([0])),
        (inner_product("x", at_least=1), KeyRows.of([0], [1])),
        (predicate(lambda a, b: True, "x"), PlainRows.of([0])),
    ],
)
def test_wrong_rows_are_refused(condition: Condition, rows: Rows) -> None:
    with pytest.raises(BadArgument):
        match(condition, rows, rows, None, Reach(1, 1))


def test_what_else_is_refused() -> None:
    rows = KeyRows.of([0, 0], [1, 2])
    for picked in ([-1], [2]):
        with pytest.raises(BadArgument, match="picked"):
            match(equal("x"), rows, rows, picked, Reach(1, 1))
    with pytest.raises(BadArgument, match="no pair"):
        Reach(-2, 1)
    with pytest.raises(BadArgument, match="key has 1 entries"):
        KeyRows.of([0, 0], [1])
    for offsets in ([], [0, 3], [0, 2, 1], [-1, 2]):
        with pytest.raises(BadArgument, match="offsets"):
            SetRows.of([0], offsets, [1, 2])
    vectors, longer = VectorRows.of([0], [[1.0]]), VectorRows.of([0], [[1.0, 2.0]])
    for ours, theirs in ((vectors, longer), (longer, vectors)):
        i, j = match(inner_product("x", at_least=1), ours, theirs, None, Reach(1, 1))
        assert (i.tolist(), j.tolist()) == ([0], [0]), "the shorter vector has zeros behind it"


def test_without_numba_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "headgate.joins.packing_kernels", None)
    with pytest.raises(MissingExtra, match=r"headgate\[join\]"):
        SetRows.of([0], [0, 1], [5])
