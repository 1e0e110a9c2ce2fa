"""Windows by time, count and session; both buffer designs give the same; nothing is lost unseen."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.errors import BadArgument
from headgate_lab.papers.cod import (
    CountWindows,
    MultipleBuffers,
    SessionWindows,
    SingleBuffer,
    Span,
    TimeWindows,
)
from headgate_lab.papers.cod.windows import Windows
from tests.lab.papers.cod import naive

KINDS = (
    TimeWindows(6, 2),
    TimeWindows(5, 2, 1),
    TimeWindows(4),
    CountWindows(6, 2),
    CountWindows(3),
    SessionWindows(3),
)
#: Rows by their instants, and watermarks (None: at the greatest instant so far, less a lag).
STREAMS = st.lists(st.one_of(st.integers(0, 40), st.none()), max_size=60)


def test_figure_3_counts_a_boundary_twice() -> None:
    """Instant 70 is in three windows of 15 by 5, and not in (55, 70)."""
    assert [span.start for span in TimeWindows(15, 5).of(70)] == [60, 65, 70]
    assert TimeWindows(15, 5).last_start(70) == 70 - (70 + 5) % 5  # the paper's formula, for offset 0
    assert TimeWindows(15, 5, 2).last_start(70) == 67


@example(0.0, 1.0, 1, 3.75e-135)
@given(st.floats(-1e4, 1e4), st.floats(0.01, 100), st.integers(1, 7), st.floats(-5, 5))
def test_an_instant_is_in_the_windows_that_have_it(
    instant: float, slide: float, times: int, offset: float
) -> None:
    windows = TimeWindows(slide * times, slide, offset)
    found = windows.of(instant)
    rounding = 1e-9
    assert all(span.start - rounding <= instant < span.end for span in found)
    assert abs(len(found) - times) <= 1  # rounding may move a boundary
    assert found[-1].start == windows.last_start(instant)
    for span in found:  # the same window has the same name, whoever asks
        middle = span.start + 0.5 * windows.size
        assert span in windows.of(middle)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(-20, 20))
def test_panes_make_up_a_window_and_no_other_window_cuts_them(
    size: int, slide: int, offset: int
) -> None:
    windows = TimeWindows(max(size, slide), slide, offset)
    span = windows.of(0)[0]
    panes = windows.panes(span)
    assert (panes[0].start, panes[-1].end) == span
    assert all(before.end == after.start for before, after in itertools.pairwise(panes))
    for pane in panes:
        memberships = {
            tuple(windows.of(pane.start + step / 4)) for step in range(int(4 * (pane.end - pane.start)))
        }
        assert len(memberships) == 1


@given(st.lists(st.integers(0, 50), min_size=1, max_size=80), st.integers(1, 5), st.integers(1, 4))
def test_slices_are_the_complete_windows(instants: list[int], slide: int, times: int) -> None:
    ordered = sorted(map(float, instants))
    windows = TimeWindows(slide * times, slide)
    found = {
        span.start: list(range(rows.start, rows.stop))
        for span, rows in windows.slices(np.array(ordered))
    }
    twin = naive.windows(ordered, slide * times, slide, ordered[-1])
    assert {start: rows for start, rows in found.items() if rows} == {
        start: rows for start, rows in twin.items() if start >= ordered[0]
    }


def _fed(
    buffer: SingleBuffer[int] | MultipleBuffers[int], stream: list[int | None]
) -> list[tuple[Span, list[int]]]:
    found, high, row = [], 0, 0
    for instant in [*stream, None]:
        if instant is None:
            found += buffer.on_watermark(high - 2)
        else:
            buffer.add(instant, row)
            high, row = max(high, instant), row + 1
    return found


@given(st.sampled_from(KINDS), STREAMS)
def test_both_designs_give_the_same_windows(windows: Windows, stream: list[int | None]) -> None:
    single, multiple = SingleBuffer[int](windows), MultipleBuffers[int](windows)
    found = _fed(single, stream)
    assert found == _fed(multiple, stream)
    assert (single.late, single.lost) == (multiple.late, multiple.lost)
    spans = [span for span, _ in found]
    assert len(set(spans)) == len(spans)  # each window once
    assert single.lost <= single.late <= single.arrived


@given(st.sampled_from(KINDS), STREAMS)
def test_no_row_is_lost_unseen(windows: Windows, stream: list[int | None]) -> None:
    buffer = SingleBuffer[int](windows)
    found = _fed(buffer, stream)
    found += buffer.on_watermark(1000)
    given_ = {row for _, rows in found for row in rows}
    left = buffer.stored if isinstance(windows, CountWindows) else 0
    assert buffer.stored == left
    if isinstance(windows, CountWindows):
        assert buffer.lost == 0
    else:
        assert len(given_) + buffer.lost == buffer.arrived


@given(st.lists(st.integers(0, 40), min_size=1, max_size=60), st.integers(0, 60))
def test_a_watermark_completes_what_the_naive_twin_completes(
    instants: list[int], watermark: int
) -> None:
    buffer = SingleBuffer[int](TimeWindows(6, 2))
    for row, instant in enumerate(instants):
        buffer.add(instant, row)
    found = {span.start: rows for span, rows in buffer.on_watermark(watermark)}
    assert found == naive.windows([float(i) for i in instants], 6, 2, watermark)


def test_figure_4_a_watermark_completes_and_evicts() -> None:
    buffer = SingleBuffer[str](TimeWindows(15, 5))
    for instant in (47, 51, 58, 63, 66):
        buffer.add(instant, f"at {instant}")
    buffer.on_watermark(60)
    assert buffer.stored == 4  # 47 is in no window that ends after 60
    assert buffer.on_watermark(69) == [(Span(50, 65), ["at 51", "at 58", "at 63"])]
    buffer.add(52, "late: its windows end at 65 or earlier")
    buffer.add(57, "late, and in time for (55, 70)")
    assert (buffer.late, buffer.lost) == (2, 1)
    assert [rows for _, rows in buffer.on_watermark(70)] == [
        ["at 58", "at 63", "at 66", "late, and in time for (55, 70)"]
    ]
    assert buffer.on_watermark(70) == buffer.on_watermark(3) == []


def test_sessions_merge_when_a_row_bridges_them() -> None:
    for buffer in (SingleBuffer[str](SessionWindows(3)), MultipleBuffers[str](SessionWindows(3))):
        for instant, row in ((0, "a"), (4, "b"), (2, "between"), (20, "c")):
            buffer.add(instant, row)
        assert buffer.on_watermark(10) == [(Span(0, 7), ["a", "b", "between"])]


def test_the_single_buffer_stores_a_row_once() -> None:
    single, multiple = SingleBuffer[int](TimeWindows(6, 2)), MultipleBuffers[int](TimeWindows(6, 2))
    for buffer in (single, multiple):
        buffer.add(10, 1)
    assert (single.stored, multiple.stored) == (1, 3)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: TimeWindows(0),
        lambda: TimeWindows(5, 6),
        lambda: TimeWindows(5, -1),
        lambda: CountWindows(0),
        lambda: CountWindows(2, 3),
        lambda: SessionWindows(0),
    ],
)
def test_windows_that_cannot_be_are_refused(wrong: object) -> None:
    with pytest.raises(BadArgument, match="give"):
        wrong()  # type: ignore[operator]
