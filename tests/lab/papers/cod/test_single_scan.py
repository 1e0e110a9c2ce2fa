"""The design of section VI keeps what the two passes keep, in both buffer designs, for all windows."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import BadArgument
from headgate_lab.papers.cod import (
    READINGS,
    CountWindows,
    MergingReservoir,
    Reservoir,
    SessionWindows,
    SingleScan,
    TimeWindows,
    cod_shed,
)
from headgate_lab.papers.cod.windows import Windows

KINDS = (TimeWindows(12, 4), TimeWindows(10), CountWindows(40, 20), SessionWindows(2))
Event = tuple[int, int, int]  # instant, group, number


def _stream(seed: int, rows: int = 300) -> list[Event]:
    rng = np.random.default_rng(seed)
    instants = np.sort(rng.integers(0, 60, rows)) + rng.integers(-2, 3, rows)
    groups = rng.zipf(1.5, rows) % 40
    return list(zip(instants.tolist(), groups.tolist(), range(rows), strict=True))


def _scanned(
    windows: Windows, name: str, design: Literal["single", "multiple"], seed: int
) -> tuple[SingleScan[Event], list]:
    scan = SingleScan[Event](
        windows,
        0.15,
        READINGS[name],
        group_of=lambda row: row[1],
        seed=seed,
        design=design,
        first_window=40,
    )
    found = []
    for number, row in enumerate(_stream(seed), 1):
        scan.add(row[0], row)
        if number % 50 == 0:
            found += scan.on_watermark(row[0] - 4)
    return scan, found + scan.on_watermark(1000)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(KINDS), st.sampled_from(list(READINGS)), st.integers(0, 5))
def test_one_scan_keeps_what_two_passes_keep(windows: Windows, name: str, seed: int) -> None:
    reading = READINGS[name]
    _, found = _scanned(windows, name, "single", seed)
    rows = {row: at for at, row in enumerate(_stream(seed))}
    assert found
    for number, window in enumerate(found):
        if isinstance(windows, CountWindows):
            inside = [row for row, at in rows.items() if window.span.has(at)]
        else:
            inside = [row for row in rows if window.span.has(row[0])]
        groups, codes = np.unique([row[1] for row in inside], return_inverse=True)
        assert window.counts == dict(zip(groups.tolist(), np.bincount(codes).tolist(), strict=True))
        sample = None
        if not reading.exact:  # any rows of the sampled groups make the same concept
            left = {g: [at for at, row in enumerate(inside) if row[1] == g] for g in groups.tolist()}
            sample = [left[group].pop() for group in window.sample]
        rng = np.random.default_rng([seed, number])
        kept = cod_shed(codes.astype(np.int64), 0.15, rng, reading, sample=sample)
        assert window.kept == [inside[at] for at in kept]


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(KINDS), st.sampled_from(list(READINGS)), st.integers(0, 5))
def test_both_designs_keep_the_same(windows: Windows, name: str, seed: int) -> None:
    single, found = _scanned(windows, name, "single", seed)
    multiple, same = _scanned(windows, name, "multiple", seed)
    assert found == same
    assert single.buffer.late == multiple.buffer.late == 0


def test_the_buffer_is_scanned_once_a_watermark() -> None:
    scan = SingleScan[Event](TimeWindows(12, 4), 0.1, group_of=lambda row: row[1], seed=0)
    for row in _stream(1):
        scan.add(row[0], row)
    held = scan.buffer.stored
    assert len(scan.on_watermark(70)) > 5
    assert scan.buffer.scanned == held


def test_a_sample_is_sized_by_the_window_before() -> None:
    reading = READINGS["cod sample, absent kept"]
    scan = SingleScan[int](
        TimeWindows(10), 0.1, reading, group_of=lambda row: row % 3, seed=0, first_window=50
    )
    for start in (0, 10):
        for row in range(200):
            scan.add(start + row / 20, row)
    first, second = scan.on_watermark(10) + scan.on_watermark(20)
    assert (first.rows, second.rows) == (200, 200)
    assert (
        len(first.sample) == len(second.sample) == 5
    )  # the second window was open before the first was known
    for row in range(200):
        scan.add(20 + row / 20, row)
    assert len(scan.on_watermark(30)[0].sample) == 20


@pytest.mark.parametrize("kind", [Reservoir, MergingReservoir])
def test_a_reservoir_is_a_uniform_sample(
    kind: type[Reservoir[int]] | type[MergingReservoir[int]],
) -> None:
    rng, hits = np.random.default_rng(3), np.zeros(30)
    for _ in range(3000):
        sample = kind(6, rng)
        for row in range(30):
            sample.add(row)
        assert len(set(sample.rows)) == 6
        hits[sample.rows] += 1
    assert hits / 3000 == pytest.approx(np.full(30, 0.2), abs=0.035)


def test_merged_reservoirs_are_a_uniform_sample_of_both() -> None:
    rng, hits = np.random.default_rng(4), np.zeros(30)
    for _ in range(3000):
        one, two = MergingReservoir[int](6, rng), MergingReservoir[int](6, rng)
        for row in range(30):
            (one if row < 20 else two).add(row)
        one.merge(two)
        assert (len(one.rows), one.offered) == (6, 30)
        hits[one.rows] += 1
    assert hits / 3000 == pytest.approx(np.full(30, 0.2), abs=0.035)


def test_what_is_not_legal_is_refused() -> None:
    with pytest.raises(BadArgument, match="single"):
        SingleScan[int](TimeWindows(1), 0.1, group_of=id, seed=0, design="both")  # type: ignore[arg-type]
    with pytest.raises(BadArgument, match="share"):
        SingleScan[int](TimeWindows(1), 0.0, group_of=id, seed=0)
    with pytest.raises(BadArgument, match="at least 1"):
        Reservoir[int](0, np.random.default_rng(0))
    small, large = (
        MergingReservoir[int](1, np.random.default_rng(0)),
        MergingReservoir[int](9, np.random.default_rng(0)),
    )
    for row in range(5):
        small.add(row)
    with pytest.raises(BadArgument, match="merge into the smaller"):
        large.merge(small)
