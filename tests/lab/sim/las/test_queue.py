"""The compiled kernels against the shipped classes, and LAS's figures against measured truth."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import BadArgument
from headgate_lab.papers.las import (
    AbsoluteLatency,
    AckedPrice,
    AverageLatency,
    BaseLine,
    FullKnowledge,
    LasSettings,
    PriceRule,
    SlidingAverageLatency,
    StrawMan,
    clairvoyant_bound,
)
from headgate_lab.sim.las.queue import LasRun, PublishedPolicy, learnt_pair, run, simulate
from headgate_lab.sim.las.stream import LasStream, StreamLaw, phases

pytestmark = pytest.mark.slow

targets = st.one_of(
    st.builds(AverageLatency, st.sampled_from([0.0, 0.002, 0.0064]), st.sampled_from(["long", "short"]),
              st.integers(0, 1)),
    st.builds(AbsoluteLatency, st.sampled_from([0.0, 0.0064])),
    st.builds(SlidingAverageLatency, st.just(0.0064), st.integers(1, 200)),
)  # fmt: skip
laws = st.builds(
    StreamLaw,
    zipf=st.sampled_from([None, 0.5, 1.0, 2.0]),
    under=st.sampled_from([-0.3, 0.0, 0.25, 0.6, 0.9]),
    tuples=st.just(1500),
    items=st.sampled_from([64, 512]),
)
seeds = st.integers(0, 2**32)


def same(fast: LasRun, slow: LasRun) -> None:
    assert np.array_equal(fast.keep, slow.keep)
    assert np.array_equal(fast.latency_s, slow.latency_s)
    assert np.array_equal(fast.chance, slow.chance)
    assert fast.guarded == slow.guarded


@settings(max_examples=40, deadline=None)
@given(laws, targets, seeds, st.booleans(), st.sampled_from(["reset", "halve", "keep"]), st.data())
def test_the_las_kernel_decides_as_the_classes_do(
    law: StreamLaw, target: Any, seed: int, warm: bool, after: Any, data: Any
) -> None:
    stream = law.draw(seed)
    config = LasSettings(
        target, window=data.draw(st.sampled_from([16, 64, 200])), stability=0.3,
        epsilon=data.draw(st.sampled_from([0.7, 0.05])), seed=seed, after_send=after,
        clamp_idle=data.draw(st.booleans()), guard_delta=data.draw(st.booleans()),
    )  # fmt: skip
    delay = data.draw(st.sampled_from([0.0, 0.013]))
    shedder = config.shedder()
    if warm:
        shedder.receive(learnt_pair(stream, config))
    same(
        run(stream, config, warm=warm, delay_s=delay),
        simulate(stream, shedder, config.operator(), delay_s=delay),
    )


@settings(max_examples=40, deadline=None)
@given(
    laws,
    targets,
    seeds,
    st.sampled_from(["hard", "soft", "balanced"]),
    st.sampled_from(["table", "sketch", "known"]),
    st.data(),
)
def test_the_price_kernel_decides_as_the_class_does(
    law: StreamLaw, target: Any, seed: int, shape: Any, costs: Any, data: Any
) -> None:
    stream = law.draw(seed)
    rule = PriceRule(
        shape, gamma=data.draw(st.sampled_from([1.0, 4.0])), ki=data.draw(st.sampled_from([0.01, 0.03])),
        fade=data.draw(st.sampled_from([0.99, 0.9999])), lowest=data.draw(st.sampled_from([0.001, 0.1])),
        recent=data.draw(st.sampled_from([20.0, 4000.0])),
        most_credit=data.draw(st.sampled_from([0.0, 8.0])),
    )  # fmt: skip
    config = AckedPrice(
        target, rule, costs, seed=seed, ack_every=data.draw(st.sampled_from([1, 10, 16])), half_life=100,
        epsilon=0.05, memory=data.draw(st.sampled_from([4, 8])),
        ack_memory=data.draw(st.sampled_from([0.5, 0.9])),
    )  # fmt: skip
    delay = data.draw(st.sampled_from([0.0, 0.013]))
    same(
        run(stream, config, delay_s=delay),
        simulate(stream, config.shedder(), config.operator(), delay_s=delay),
    )


@settings(max_examples=20, deadline=None)
@given(laws, targets, seeds)
def test_the_competitors_kernels_decide_as_their_classes_do(
    law: StreamLaw, target: Any, seed: int
) -> None:
    stream = law.draw(seed)
    for name, shedder in (
        ("Base Line", BaseLine(law.under, seed)),
        ("Straw-Man", StrawMan(stream.mean_s, target)),
        ("Full Knowledge", FullKnowledge(target)),
    ):
        same(run(stream, PublishedPolicy(name, target, law.under, seed=seed)), simulate(stream, shedder))


def test_a_compiled_run_is_many_times_as_fast_as_the_classes() -> None:
    """Beside each other, so that a busy machine slows down both; it is 20 times and more."""

    def least_s(work: Callable[[], object]) -> float:
        found = []
        for _ in range(3):
            began = time.process_time()
            work()
            found.append(time.process_time() - began)
        return min(found)

    stream = StreamLaw(tuples=8000).draw(1)
    for policy in (LasSettings(), AckedPrice()):
        run(stream, policy)
        compiled = least_s(lambda policy=policy: run(stream, policy))
        classes = least_s(lambda policy=policy: simulate(stream, policy.shedder(), policy.operator()))
        assert classes > 5 * compiled


def test_numba_is_loaded_only_by_a_run() -> None:
    code = "import sys, headgate_lab.sim.las.queue, headgate_lab.figures; print('numba' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


def test_an_unknown_competitor_is_refused() -> None:
    with pytest.raises(BadArgument, match="Straw-Man"):
        run(StreamLaw(tuples=10).draw(0), PublishedPolicy("x"))


def draws(law: StreamLaw, count: int, first: int = 0) -> list[LasStream]:
    return [law.draw(seed) for seed in range(first, first + count)]


def mean(runs: list[LasRun]) -> tuple[float, float]:
    return float(np.mean([r.dropped_ratio for r in runs])), float(
        np.mean([r.average_latency_s for r in runs])
    )


@pytest.mark.parametrize(
    ("zipf", "under", "alpha", "latency_ms", "within"),
    [
        (1.0, 0.25, 0.285, 6.9, 0.03),
        (1.0, 0.5, 0.524, 6.4, 0.03),
        (None, 0.25, 0.285, 10.7, 0.03),
        # The reference for this latency is a mean of 20 runs, whose standard error is 4.2 %. Over 1,000
        # runs ours is 10.47 +- 0.07, 3.9 % below it: outside 3 %, inside two of its standard errors.
        (None, 0.5, 0.524, 10.9, 0.084),
    ],
)
def test_las_drops_and_waits_as_measured(
    zipf: float | None, under: float, alpha: float, latency_ms: float, within: float
) -> None:
    law = StreamLaw(zipf=zipf, under=under)
    dropped, latency = mean([run(law.draw(seed), LasSettings(seed=seed)) for seed in range(400)])
    assert dropped == pytest.approx(alpha, rel=0.03)
    assert latency * 1e3 == pytest.approx(latency_ms, rel=within)


def test_the_competitors_drop_and_wait_as_measured() -> None:
    streams = draws(StreamLaw(), 60)
    full = [run(s, PublishedPolicy("Full Knowledge")) for s in streams]
    assert mean(full)[0] == pytest.approx(0.2525, rel=0.01)
    assert mean(full)[1] == pytest.approx(0.0064, rel=0.001)
    for result in full:
        assert result.running_average_s.max() <= 0.0064
        assert np.allclose(result.expected_s[result.keep], result.latency_s[result.keep], atol=1e-9)
    for name in ("Base Line", "Straw-Man"):
        runs = [run(s, PublishedPolicy(name, seed=seed)) for seed, s in enumerate(streams)]
        dropped, latency = mean(runs)
        assert dropped == pytest.approx(0.25, abs=0.001)
        assert latency > 0.1


def test_each_target_costs_full_knowledge_what_was_measured() -> None:
    streams = draws(StreamLaw(), 30)
    for target, alpha in (
        (AverageLatency(0.0064, counted_before=1), 0.2522),
        (AbsoluteLatency(0.0064), 0.2557),
        (SlidingAverageLatency(0.0064, 100), 0.285),
        (SlidingAverageLatency(0.0064, 1000), 0.278),
        (AverageLatency(0.0064, form="short"), 0.9994),
    ):
        runs = [run(s, PublishedPolicy("Full Knowledge", target)) for s in streams]
        assert mean(runs)[0] == pytest.approx(alpha, rel=0.01)


def test_the_default_price_drops_far_fewer_than_full_knowledge() -> None:
    streams = draws(StreamLaw(), 60, first=200)
    full = mean([run(s, PublishedPolicy("Full Knowledge")) for s in streams])[0]
    bound = np.mean([clairvoyant_bound(s.durations_s, s.durations_s.sum() * 0.75) for s in streams])
    learnt = [run(s, AckedPrice(seed=seed)) for seed, s in enumerate(streams)]
    known = [run(s, AckedPrice(costs="known", seed=seed)) for seed, s in enumerate(streams)]
    assert mean(learnt)[0] <= 0.75 * full
    assert mean(learnt)[1] <= 0.0064 * 1.03
    assert mean(known)[0] <= 0.60 * full
    assert mean(known)[0] > bound
    assert all(r.running_average_s.max() <= 0.0064 for r in known)


@pytest.mark.parametrize(("under", "most"), [(0.5, 0.70), (0.1, 0.75), (0.9, 0.95)])
def test_the_default_price_beats_full_knowledge_at_other_loads(under: float, most: float) -> None:
    streams = draws(StreamLaw(under=under), 20, first=300)
    full = mean([run(s, PublishedPolicy("Full Knowledge")) for s in streams])[0]
    ours = mean([run(s, AckedPrice(seed=seed)) for seed, s in enumerate(streams)])
    assert ours[0] <= most * full
    assert ours[1] <= 0.0064 * 1.15


def test_weights_are_unbiased() -> None:
    """With a guard that never acts every drop had a coin: weighted sums are right on average."""
    for rule in (PriceRule("soft"), PriceRule("balanced"), PriceRule("balanced", spread=0.05)):
        counts, work = [], []
        for seed in range(40):
            stream = StreamLaw(tuples=8000).draw(seed)
            result = run(
                stream, AckedPrice(AverageLatency(0.0064, counted_before=10**6), rule, seed=seed)
            )
            weights = 1.0 / result.chance[result.keep]
            counts.append(weights.sum() / len(stream) - 1)
            work.append((weights * stream.durations_s[result.keep]).sum() / stream.durations_s.sum() - 1)
        for errors in (counts, work):
            assert abs(np.mean(errors)) < 4 * np.std(errors) / np.sqrt(len(errors))
            assert abs(np.mean(errors)) < 0.02


def test_the_guard_drops_few_rows_and_weights_stay_within_half_a_percent() -> None:
    for law in (StreamLaw(), StreamLaw(zipf=None), StreamLaw(under=0.5)):
        streams = draws(law, 10)
        runs = [run(s, AckedPrice(seed=seed)) for seed, s in enumerate(streams)]
        assert np.mean([r.guarded / len(r.keep) for r in runs]) < 0.005
        total = np.mean([(1.0 / r.chance[r.keep]).sum() / len(r.keep) - 1 for r in runs])
        assert abs(total) < 0.02


def test_phase_f_is_over_after_one_window() -> None:
    """Every cost doubles at once: the default needs at most one window, LAS the whole phase."""
    target = AverageLatency(0.064)
    ours, las = [], []
    for seed in range(6):
        stream = phases(seed)
        ours.append(run(stream, AckedPrice(target, seed=seed)).windows(4000)[0][25:30])
        las.append(run(stream, LasSettings(target, seed=seed), warm=False).windows(4000)[0][25:30])
    assert np.max(np.array(ours)[:, 1:]) <= 0.064 * 1.05
    # In the first window rows wait 1.63 targets over 30 seeds (none more than 1.71): a price spends the
    # credit of the short waits before it. Without a credit it is 1.03 targets, with a memory twice as
    # long 2.09. Each seed is looked at, and not their mean.
    assert np.max(np.array(ours)[:, 0]) < 1.75 * 0.064
    assert np.nanmean(las, axis=0)[1] > 5.0


def test_the_phases_are_the_papers() -> None:
    stream = phases(0, length=1000)
    parts = np.split(stream.durations_s, 7)
    gaps = np.diff(stream.arrivals_s)[np.arange(7) * 1000 + 10] / stream.mean_s
    assert gaps == pytest.approx([1, 0.5, 1, 1, 1.5, 1, 1])
    assert parts[3].mean() > parts[2].mean()
    assert parts[5].max() == pytest.approx(2 * 0.0064)


def test_the_bench_reaches_what_was_promised() -> None:
    from headgate_lab.bench.las import run as bench

    ratios = bench(quick=True)["ratios"]
    assert ratios["saving_learnt"] > 0.25
    assert ratios["saving_known"] > 0.40
    assert ratios["phase_f_windows"] <= 1
    assert ratios["highest_running_average_known_s"] <= 0.0064
