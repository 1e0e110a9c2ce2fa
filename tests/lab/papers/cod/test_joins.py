"""Equi-joins: exact results, the intersection, and senate against uniform."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import BadArgument
from headgate_lab.papers.cod import (
    JOIN_RULES,
    JoinRows,
    cod_join_shed,
    missing_share,
    relative_error,
    uniform_join_shed,
)

KEYS = st.lists(st.integers(0, 9), min_size=1, max_size=80)


def _window(seed: int = 0) -> JoinRows:
    rng = np.random.default_rng(seed)
    first, second = rng.zipf(1.4, 8000) % 300, rng.zipf(1.4, 5000) % 300 + 20
    return JoinRows.of(first, rng.gamma(4.0, 1.0, 8000), second)


@given(KEYS, KEYS)
def test_the_result_is_that_of_nested_loops(first: list[int], second: list[int]) -> None:
    values = [float(3 + number) for number in range(len(first))]
    window = JoinRows.of(first, values, second)
    for code, key in enumerate(sorted({*first, *second})):
        pairs = [v for k, v in zip(first, values, strict=True) for other in second if k == other == key]
        assert window.result()[code] == pytest.approx(sum(pairs) if pairs else np.nan, nan_ok=True)


@given(KEYS, KEYS, st.floats(0.01, 1.0), st.sampled_from(JOIN_RULES))
def test_exact_histograms_miss_no_common_group_and_keep_no_other(
    first: list[int], second: list[int], keep: float, rule: str
) -> None:
    window = JoinRows.of(first, np.ones(len(first)), second)
    found = cod_join_shed(window, keep, np.random.default_rng(0), rule)
    assert missing_share(window.result(), found.estimate()) == 0.0
    assert relative_error(window.result(), found.estimate()) == pytest.approx(0.0)  # equal values
    common = set(first) & set(second)
    keys = np.array(sorted({*first, *second}))
    assert set(keys[window.first[found.first]].tolist()) == common
    assert set(keys[window.second[found.second]].tolist()) == common
    for codes, kept in ((window.first, found.first), (window.second, found.second)):
        assert len(kept) <= max(round(keep * len(codes)), len(common))


def test_senate_beats_uniform_and_a_sample_must_see_a_group_twice() -> None:
    window, rng = _window(), np.random.default_rng(1)
    exact = window.result()
    error = {
        "uniform": relative_error(exact, uniform_join_shed(window, 0.1, rng).estimate()),
        "sample": relative_error(exact, cod_join_shed(window, 0.1, rng, histograms="sample").estimate()),
        "senate": relative_error(exact, cod_join_shed(window, 0.1, rng).estimate()),
    }
    assert error["senate"] < 0.5 * error["sample"] < 0.5 * error["uniform"]
    kept = cod_join_shed(window, 0.1, rng, histograms="sample", outside="keep")
    assert missing_share(exact, kept.estimate()) == 0.0
    assert kept.kept_share > 0.15  # what no sample saw comes on top


def test_uniform_is_right_on_average() -> None:
    window, rng = _window(2), np.random.default_rng(3)
    total = np.nansum(window.result())
    found = [np.nansum(uniform_join_shed(window, 0.3, rng).estimate()) for _ in range(300)]
    assert np.mean(found) == pytest.approx(total, rel=0.03)


def test_what_is_not_legal_is_refused() -> None:
    with pytest.raises(BadArgument, match="senate"):
        cod_join_shed(_window(), 0.1, np.random.default_rng(0), "cross")
    with pytest.raises(BadArgument, match="exact"):
        cod_join_shed(_window(), 0.1, np.random.default_rng(0), histograms="none")  # type: ignore[arg-type]
    with pytest.raises(BadArgument, match="share"):
        cod_join_shed(_window(), 0.0, np.random.default_rng(0))
