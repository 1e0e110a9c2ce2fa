"""What a stream costs, and whether its batches keep their time."""

from __future__ import annotations

from headgate.core.load import LoadSample
from headgate.sites.streams import StreamCost


def _sample(batch: int, kept: int, work_s: float, duration_s: float = 0.5) -> LoadSample:
    return LoadSample(
        batch, float(batch), duration_s, kept, kept, stream="s", work_s=work_s, interval_s=1.0
    )


def _cost(rows: int) -> float:
    return 0.1 + 1e-4 * rows


def _fed(stream: StreamCost, batches: int, order: tuple[str, ...] = ("g",)) -> StreamCost:
    for batch in range(batches):
        rows = 1000 * (1 + batch % 4)
        for gate in order if batch % 2 else order[::-1]:
            stream.add(gate, _sample(batch, rows // len(order), _cost(rows)), 2.0, float(batch))
    return stream


def test_the_price_is_fixed_plus_rows() -> None:
    stream = StreamCost(1.0)
    stream.enter("g", 1.0)
    assert not stream.known
    _fed(stream, 12)
    assert abs(stream.per_row_s - 1e-4) < 1e-6
    assert abs(stream.fixed_per_second - 0.1) < 0.01
    assert abs(stream.usage - (0.1 + 4000e-4)) < 0.05


def test_two_gates_are_one_batch_in_whatever_order_they_report() -> None:
    stream = StreamCost(1.0)
    for gate in ("a", "b"):
        stream.enter(gate, 1.0)
    _fed(stream, 12, ("a", "b"))
    assert abs(stream.per_row_s - 1e-4) < 1e-6


def test_a_second_gate_that_shows_only_later_makes_no_second_batch() -> None:
    stream = StreamCost(1.0)
    for batch in range(2):
        for gate in ("a", "b"):
            stream.enter(gate, 1.0)
            stream.add(gate, _sample(batch, 500, _cost(1000)), 2.0, float(batch))
    assert stream._batches == 2


def test_a_gate_without_a_report_does_not_hold_the_batch_up_for_good() -> None:
    stream = StreamCost(1.0)
    for gate in ("a", "b"):
        stream.enter(gate, 1.0)
    taken = [
        stream.add("a", _sample(batch, rows, _cost(rows)), 2.0, float(batch))
        for batch, rows in enumerate([1000, 2000, 3000, 4000, 1000, 2000, 3000, 4000])
    ]
    assert taken == [False] + [True] * 7, "each is taken in when the next one begins"
    assert abs(stream.per_row_s - 1e-4) < 1e-6


def test_a_gate_that_has_left_is_not_waited_for() -> None:
    stream = StreamCost(1.0)
    for gate in ("a", "b"):
        stream.enter(gate, 1.0)
    stream.leave("b")
    assert stream.add("a", _sample(0, 1000, _cost(1000)), 2.0, 0.0)


def test_a_report_that_comes_twice_counts_once() -> None:
    stream = StreamCost(1.0)
    stream.enter("g", 1.0)
    for batch in range(8):
        for _ in range(2):
            rows = 1000 * (1 + batch % 4)
            stream.add("g", _sample(batch, rows, _cost(rows)), 2.0, float(batch))
    assert abs(stream.per_row_s - 1e-4) < 1e-6


def test_the_strictest_target_of_its_gates_holds() -> None:
    stream = StreamCost(5.0)
    stream.enter("a", 3.0)
    stream.enter("b", 4.0)
    assert stream.hold_s == 3.0


def test_lateness_counts_only_where_fewer_rows_would_help() -> None:
    def late(rows: int, duration_s: float, fixed_s: float = 0.1) -> float:
        stream = StreamCost(1.0)
        stream.enter("g", 1.0)
        for batch in range(8):
            kept = rows // (1 + batch % 3)
            sample = _sample(batch, kept, fixed_s + 1e-4 * kept, duration_s)
            stream.add("g", sample, 1.0, float(batch))
        stream.add("g", _sample(8, rows, fixed_s + 1e-4 * rows, duration_s), 1.0, 8.0)
        return stream.lateness

    assert late(10_000, 1.4) == 1.4, "a second of its 1.4 went into rows"
    assert late(500, 1.4) == 0.0, "a twentieth of a second did"
    assert late(10_000, 3.5, fixed_s=2.4) == 0.0, "without any rows it would take 2.5"


def test_the_first_batches_pay_for_compiling_and_say_nothing_of_lateness() -> None:
    stream = StreamCost(1.0)
    stream.enter("g", 1.0)
    seen = []
    for batch in range(4):
        stream.add("g", _sample(batch, 50_000, 5.0, 5.0), 1.0, float(batch))
        seen.append(stream.lateness)
    assert seen[:2] == [0.0, 0.0]
    assert seen[-1] == 5.0


def test_its_own_limit_is_found_and_let_go() -> None:
    stream = _fed(StreamCost(1.0), 8)
    stream.add("g", _sample(8, 20_000, 2.1, 2.0), 1.0, 8.0)
    stream.own_limit()
    first = stream.most_rows(2.0)
    assert first < 20_000 / 2
    for batch in range(9, 40):
        stream.add("g", _sample(batch, int(stream.most_rows(2.0)), 0.5, 0.5), 1.0, float(batch))
        stream.relax()
    assert stream.most_rows(2.0) > 1.5 * first


def test_a_long_batch_is_no_silence_where_it_is_seen_at_work() -> None:
    stream = _fed(StreamCost(1.0), 4)
    assert not stream.silent(10.0)
    assert stream.silent(30.0)
    assert stream.collects_s(30.0) == 1.0
    stream.at_work_s = 29.5
    assert not stream.silent(30.0)
    assert stream.collects_s(30.0) == 27.0, "since the report of the batch before"


def test_a_longer_target_is_taken_too() -> None:
    stream = StreamCost(1.0)
    stream.enter("g", 1.0)
    stream.enter("h", 3.0)
    assert stream.hold_s == 1.0, "the strictest"
    stream.enter("g", 5.0)
    assert stream.hold_s == 3.0
    stream.leave("h")
    assert stream.hold_s == 5.0


def test_what_was_learned_comes_back() -> None:
    stream, again = _fed(StreamCost(1.0), 12), StreamCost(1.0)
    again.restore(stream.snapshot())
    assert again.known
    assert again.per_row_s == stream.per_row_s
