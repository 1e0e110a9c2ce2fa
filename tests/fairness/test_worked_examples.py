"""The paper's worked examples, with rates reconstructed from its text; whole sets where ties decide."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headgate.fairness import BalanceSic, Batch, Reading, Selection, jain, water_level
from headgate_lab.papers.themis import CostModel, OverloadDetector, derived_sic, window_sics
from tests.fairness import naive

EXAMPLES: dict[str, Any] = json.loads((Path(__file__).parent / "examples.json").read_text())


# Figure 2: SIC from sources to results.


def figure2(b_in: int, c_in: int, c_out: int) -> float:
    """q_SIC with so many inputs of b and c processed, and so many outputs of c kept."""
    given = EXAMPLES["figure2"]
    source = given["source_tuple_sic"]
    b = derived_sic([source["b"]] * b_in, given["outputs"]["b"])
    c = derived_sic([source["c"]] * c_in, given["outputs"]["c"])
    result = derived_sic([b] * given["outputs"]["b"] + [c] * c_out, given["outputs"]["a"])
    return result * given["outputs"]["a"]


def test_figure_2_source_tuples() -> None:
    given = EXAMPLES["figure2"]
    for source, count in given["sources"].items():
        assert 1 / (count * given["n_sources"]) == given["source_tuple_sic"][source]


def test_figure_2_results() -> None:
    readings = EXAMPLES["figure2"]["q_sic_by_reading"]
    assert figure2(4, 2, 2) == EXAMPLES["figure2"]["no_shedding"]["q_sic"] == 1.0
    assert figure2(2, 2, 1) == readings["output"] == 0.5
    assert figure2(2, 1, 2) == readings["input"] == 0.5
    assert figure2(2, 1, 1) == readings["both"] == 0.375


def test_figure_2_derived_tuples() -> None:
    shed = EXAMPLES["figure2"]["shedding"]
    assert [derived_sic([0.125] * shed["b_inputs_kept"], 2)] * 2 == shed["b_out"]
    assert [derived_sic([0.25] * shed["c_inputs_kept"], 2)] * shed["c_outputs_kept"] == shed["c_out"]
    assert [derived_sic(shed["b_out"] + shed["c_out"], 2)] * 2 == shed["result"]


# Figure 3: one node.


def figure3_tuples(order: str) -> dict[str, list[Fraction]]:
    tuples: dict[str, list[Fraction]] = {}
    for query, rates in EXAMPLES["figure3"]["rates"].items():
        sics = {source: Fraction(1, rate * len(rates)) for source, rate in rates.items()}
        if order == "tuple":
            tuples[query] = sorted(
                (sic for s, sic in sics.items() for _ in range(rates[s])), reverse=True
            )
        else:  # s5 sends twice as often as s4
            arrivals = [(Fraction(n + 1, rate), s) for s, rate in rates.items() for n in range(rate)]
            tuples[query] = [sics[source] for _, source in sorted(arrivals)]
    return tuples


def figure3_trace(seed: int, order: str) -> tuple[list[tuple[str, int]], dict[str, float]]:
    tuples = figure3_tuples(order)
    names = list(tuples)
    query = [names.index(name) for name in names for _ in tuples[name]]
    sics = [float(sic) for name in names for sic in tuples[name]]
    selection = Selection(
        query,
        [1] * len(query),
        sics,
        [0.0] * len(names),
        EXAMPLES["figure3"]["capacity"],
        Reading(order=order),
        np.random.default_rng(seed),
    )
    trace = []
    while taken := selection.turn():
        trace.append((names[query[taken[0]]], len(taken)))
    return trace, dict(zip(names, selection.sic, strict=True))


def test_figure_3_told_trace_can_happen_in_arrival_order() -> None:
    told = [tuple(turn) for turn in EXAMPLES["figure3"]["told_trace"]]
    found = [
        sic for trace, sic in (figure3_trace(seed, "arrival") for seed in range(2000)) if trace == told
    ]
    assert found
    for query, value in EXAMPLES["figure3"]["final_q_sic"].items():
        assert found[0][query] == pytest.approx(value)


def test_figure_3_told_trace_cannot_happen_with_the_highest_first() -> None:
    told = [tuple(turn) for turn in EXAMPLES["figure3"]["told_trace"]]
    assert all(figure3_trace(seed, "tuple")[0] != told for seed in range(300))


@pytest.mark.parametrize(
    ("order", "key"), [("arrival", "arrival_order"), ("tuple", "highest_sic_first")]
)
def test_figure_3_tuples_of_q4_to_reach_a_tenth(order: str, key: str) -> None:
    reached, count = Fraction(0), 0
    for sic in figure3_tuples(order)["q4"]:
        if reached >= Fraction(1, 10):
            break
        reached, count = reached + sic, count + 1
    assert count == EXAMPLES["figure3"]["tuples_of_q4_to_reach_0.1"][key]


@pytest.mark.parametrize("order", ["arrival", "tuple"])
def test_figure_3_traces_are_those_of_the_twin(order: str) -> None:
    def play(choose: naive.Choose) -> object:
        node = naive.Node(EXAMPLES["figure3"]["capacity"], figure3_tuples(order))
        sic = dict.fromkeys(node.tuples, Fraction(0))
        trace = []
        while taken := node.turn(sic, choose):
            trace.append((taken[0], len(taken)))
        return tuple(trace)

    every = Counter(naive.every_choice(play))
    assert sum(every.values()) == {"arrival": 96, "tuple": 504}[order]
    seen = {tuple(figure3_trace(seed, order)[0]) for seed in range(300)}
    assert seen <= set(every)
    assert len(seen) > 20


# Figure 4: two nodes in lockstep.


def figure4_nodes() -> dict[str, naive.Node]:
    given = EXAMPLES["figure4"]
    return {
        name: naive.Node(
            given["capacity"][name],
            {
                query: [Fraction(1, rate * given["n_sources"][query])] * rate
                for query, sources in rates.items()
                for rate in sources.values()
            },
        )
        for name, rates in given["rates"].items()
    }


def figure4_play(choose: naive.Choose, *, update: bool, one: bool = False) -> tuple[float, ...]:
    """Each node takes a turn; with updateSIC all then know what both accepted."""
    nodes, total = figure4_nodes(), dict.fromkeys(("q1", "q2", "q3"), Fraction(0))
    local = {name: dict.fromkeys(node.tuples, Fraction(0)) for name, node in nodes.items()}
    going = True
    while going:
        going = False
        gained = dict.fromkeys(total, Fraction(0))
        for name, node in nodes.items():
            before = dict(local[name])
            going |= bool(node.turn(local[name], choose, one=one))
            for query, sic in local[name].items():
                gained[query] += sic - before[query]
        for query, sic in gained.items():
            total[query] += sic
        if update:
            local = {name: {query: total[query] for query in local[name]} for name in nodes}
    return tuple(float(sic) for sic in total.values())


@pytest.mark.parametrize("update", [False, True])
def test_figure_4_every_outcome_of_the_twin(update: bool) -> None:
    told = EXAMPLES["figure4"][f"all_outcomes_{'with' if update else 'without'}_update"]
    every = Counter(naive.every_choice(lambda choose: figure4_play(choose, update=update)))
    assert every == {tuple(each["q_sic"]): each["tie_break_sequences"] for each in told}


def test_figure_4_one_tuple_a_turn_is_always_fair() -> None:
    every = set(naive.every_choice(lambda choose: figure4_play(choose, update=True, one=True)))
    assert every == {tuple(EXAMPLES["figure4"]["told_with_update"])}


def figure4_shipped(seed: int, *, update: bool, reach: str = "reach") -> tuple[float, ...]:
    given, random = EXAMPLES["figure4"], np.random.default_rng(seed)
    selections, names, owners = {}, {}, {}
    for name, node in figure4_nodes().items():
        names[name] = list(node.tuples)
        owners[name] = [
            names[name].index(query) for query, tuples in node.tuples.items() for _ in tuples
        ]
        sics = [float(sic) for tuples in node.tuples.values() for sic in tuples]
        selections[name] = Selection(
            owners[name],
            [1] * len(sics),
            sics,
            [0.0] * len(names[name]),
            given["capacity"][name],
            Reading(reach=reach),
            random,
        )
    total = dict.fromkeys(("q1", "q2", "q3"), 0.0)
    while True:
        before = {name: list(selection.sic) for name, selection in selections.items()}
        turns = [selection.turn() for selection in selections.values()]
        for name, selection in selections.items():
            for query, was, now in zip(names[name], before[name], selection.sic, strict=True):
                total[query] += now - was
        if update:
            for name, selection in selections.items():
                selection.update({number: total[query] for number, query in enumerate(names[name])})
        if not any(turns):
            return tuple(round(sic, 9) for sic in total.values())


@pytest.mark.parametrize("update", [False, True])
def test_figure_4_every_outcome_of_the_shipped(update: bool) -> None:
    told = EXAMPLES["figure4"][f"all_outcomes_{'with' if update else 'without'}_update"]
    seen = {figure4_shipped(seed, update=update) for seed in range(150)}
    assert seen == {tuple(each["q_sic"]) for each in told}
    assert tuple(EXAMPLES["figure4"][f"told_{'with' if update else 'without'}_update"]) in seen


def test_figure_4_shipped_one_tuple_a_turn() -> None:
    seen = {figure4_shipped(seed, update=True, reach="one") for seed in range(100)}
    assert seen == {(0.3, 0.3, 0.3)}


# The rest: Jain's index, windows, cost model, selections of batches, quotas.


@pytest.mark.parametrize("case", EXAMPLES["jain"])
def test_jain(case: dict[str, Any]) -> None:
    assert jain(case["x"]) == pytest.approx(case["jain"], abs=1e-12)


@pytest.mark.parametrize(("slide", "key"), [(None, "tumbling_1s"), (1.0, "sliding_2s_slide_1s_split")])
def test_windows(slide: float | None, key: str) -> None:
    times = np.arange(40) * 0.25
    ends, worth = window_sics(times, np.full(40, 1 / 40), 1.0 if slide is None else 2.0, slide)
    assert np.column_stack([ends, worth]) == pytest.approx(np.array(EXAMPLES["windows"][key]))


def test_sliding_windows_without_the_split_count_twice() -> None:
    ends, worth = window_sics(np.arange(40) * 0.25, np.full(40, 1 / 40), 2.0, 1.0)
    whole = 2 * worth.sum()  # each tuple is in two windows
    assert whole == pytest.approx(EXAMPLES["windows"]["sliding_total_without_split"])
    assert len(ends) == 11


def test_cost_model() -> None:
    given = EXAMPLES["cost_model"]
    cost = CostModel(given["window"], given["initial_seconds_per_tuple"])
    detector = OverloadDetector(cost, interval_s=0.25)
    for (seconds, tuples), capacity in zip(given["observed"], given["capacity_for_0.25s"], strict=True):
        cost.add(tuples, seconds)
        assert detector.threshold == capacity
        assert detector.overloaded(capacity + 1)
        assert not detector.overloaded(capacity)


@pytest.mark.parametrize("reading", ["reach/skip", "reach/stop", "nearest/skip", "one/skip"])
@pytest.mark.parametrize("case", EXAMPLES["selection_cases"], ids=lambda case: str(case["capacity"]))
def test_selection_of_batches(case: dict[str, Any], reading: str) -> None:
    reach, misfit = reading.split("/")
    batches = [Batch(query, name, size, sic / size) for name, query, size, sic in case["batches"]]
    shedder = BalanceSic(Reading(reach=reach, misfit=misfit))
    kept = shedder.select(batches, case["capacity"], case["reported"], np.random.default_rng(1))
    expected = case["expected"][reading]
    assert sorted(str(batch.source) for batch in kept) == sorted(expected["kept"])
    assert sum(batch.tuples for batch in kept) <= case["capacity"]
    for query, value in expected["q_sic"].items():
        reached = case["projected"][query] + sum(batch.total for batch in kept if batch.query == query)
        assert reached == pytest.approx(value, abs=1e-5)


@pytest.mark.parametrize("case", EXAMPLES["selection_cases"], ids=lambda case: str(case["capacity"]))
def test_projection(case: dict[str, Any]) -> None:
    names = list(case["reported"])
    start = BalanceSic().project(
        np.array([names.index(query) for _, query, _, _ in case["batches"]]),
        np.array([sic for *_, sic in case["batches"]]),
        np.array(list(case["reported"].values())),
    )
    for name, value in zip(names, start, strict=True):
        assert value == pytest.approx(case["projected"][name], abs=2e-6)


def test_quotas() -> None:
    given = EXAMPLES["quotas"]
    names, items = list(given["start"]), given["items"]
    found = water_level(
        [names.index(item["query"]) for item in items],
        [item["offered"] for item in items],
        [item["tuple_sic"] for item in items],
        list(given["start"].values()),
        given["capacity"],
    )
    assert found.keep.tolist() == [item["keep"] for item in items]
    assert found.sic == pytest.approx(list(given["final_q_sic"].values()))
