"""How much a join may do: in virtual time, against a machine with known prices."""

import json
from dataclasses import replace

import numpy as np
import pytest

from headgate.control.allowance import Allowance, AllowanceConfig, Spent
from headgate.errors import BadArgument


class Machine:
    """Batches cost a fixed price, so much a comparison and so much a result, with some noise."""

    def __init__(self, fixed_s, comparison_s, emit_s, behind_s, shards=2, seed=1):
        self.fixed_s, self.comparison_s = fixed_s, comparison_s
        self.emit_s, self.behind_s, self.shards = emit_s, behind_s, shards
        self.noise = np.random.default_rng(seed)

    def batch(self, wanted, pay_off, work, result_units):
        """A batch that wants so many comparisons at each shard and may spend `work` units there."""
        made = min(wanted, work / (1.0 + result_units * pay_off))
        results = made * pay_off
        compare = made * self.comparison_s
        emit = results * self.emit_s
        behind = results * self.shards * self.behind_s
        duration = (self.fixed_s + compare + emit + behind) * self.noise.normal(1.0, 0.03)
        return Spent(duration, compare, made, emit, results, results * self.shards)


def run(machine, allowance, wanted, pay_off, batches=30):
    spent = []
    for _ in range(batches):
        spent.append(machine.batch(wanted, pay_off, allowance.work, allowance.result_units))
        allowance.learn(spent[-1])
    return spent


@pytest.mark.parametrize("fixed_s", [0.2, 1.0])
@pytest.mark.parametrize("pay_off", [0.0, 1e-4, 0.01])
@pytest.mark.parametrize("comparison_s", [5e-10, 2e-9, 1e-7])
def test_overload_ends_near_the_target(fixed_s, pay_off, comparison_s):
    machine = Machine(fixed_s, comparison_s, 2e-7, 1e-7)
    spent = run(machine, Allowance(2.0, 2), wanted=1e12, pay_off=pay_off)
    late = [s.duration_s for s in spent[10:]]
    assert 0.8 * 2.0 <= np.mean(late) <= 2.0
    assert np.percentile(late, 90) <= 2.1


@pytest.mark.parametrize("wanted", [1e3, 1e6, 2e8])
def test_below_capacity_everything_is_compared(wanted):
    machine = Machine(0.5, 1e-9, 2e-7, 1e-7)
    allowance = Allowance(2.0, 2)
    assert all(s.comparisons == wanted for s in run(machine, allowance, wanted, 1e-5))
    assert allowance.work > wanted


def test_a_burst_after_quiet_batches_is_met_at_once():
    machine = Machine(0.4, 1e-9, 2e-7, 1e-7)
    allowance = Allowance(2.0, 2)
    run(machine, allowance, wanted=1e8, pay_off=1e-4)
    burst = run(machine, allowance, wanted=1e11, pay_off=1e-4, batches=5)
    assert all(1.4 <= s.duration_s <= 2.1 for s in burst)
    after = run(machine, allowance, wanted=1e8, pay_off=1e-4, batches=3)
    assert all(s.comparisons == 1e8 for s in after)


def test_tiny_batches_say_nothing_of_the_speed():
    allowance = Allowance(2.0, 2)
    before = allowance.seconds_per_comparison
    allowance.learn(Spent(1.0, 0.004, 100, 0.0, 0, 0))
    assert allowance.seconds_per_comparison == before


def test_a_fixed_price_above_the_target_still_leaves_some_work():
    machine = Machine(3.0, 1e-9, 2e-7, 1e-7)
    allowance = Allowance(2.0, 2)
    spent = run(machine, allowance, wanted=1e12, pay_off=0.0)
    assert spent[-1].compare_s == pytest.approx(0.2, rel=0.05)


def test_what_was_learnt_goes_through_json():
    machine = Machine(0.4, 3e-9, 2e-7, 1e-7)
    allowance = Allowance(2.0, 2)
    run(machine, allowance, wanted=1e12, pay_off=1e-3)
    other = Allowance(2.0, 2)
    other.restore(json.loads(json.dumps(allowance.snapshot())))
    assert (other.work, other.result_units) == (allowance.work, allowance.result_units)


def test_a_slow_start_is_soon_forgotten():
    machine = Machine(0.5, 1e-9, 2e-7, 1e-7)
    allowance = Allowance(2.0, 2)
    for duration in (15.0, 9.0, 6.0, 4.0, 3.0):
        allowance.learn(Spent(duration, 0.05, 5e7, 0.0, 0, 0))
    spent = run(machine, allowance, wanted=1e12, pay_off=1e-5, batches=12)
    assert all(s.duration_s > 1.5 for s in spent[8:]), "the target is used again"


def test_a_fit_of_durations_alone_cannot_tell_comparisons_from_results():
    """Results are so many a comparison, until one batch's rows match ten times as often."""
    machine = Machine(0.5, 1e-9, 2e-7, 1e-7)
    allowance = Allowance(2.0, 2)
    seen = run(machine, allowance, wanted=1e12, pay_off=1e-3)[10:]

    def dear_results(spent):
        return 0.5 + 1e-9 * spent.comparisons + 4e-7 * spent.shard_results

    def dear_comparisons(spent):
        return 0.5 + (1e-9 + 4e-10) * spent.comparisons

    for spent in seen:
        assert dear_comparisons(spent) == pytest.approx(dear_results(spent)), "both explain all batches"
    after = machine.batch(1e12, 1e-2, allowance.work, allowance.result_units)
    assert after.duration_s == pytest.approx(dear_results(after), rel=0.1)
    assert after.duration_s > 1.5 * dear_comparisons(after)
    assert 1.4 <= after.duration_s <= 2.1, "measured prices hold the target in the batch of the change"


def test_a_stall_says_nothing_of_what_results_cost():
    """Every fifteenth batch waits six seconds for something else."""
    machine, calm = Machine(0.5, 1e-9, 2e-7, 1e-7), Machine(0.5, 1e-9, 2e-7, 1e-7)
    stalled, other = Allowance(2.0, 2), Allowance(2.0, 2)
    run(calm, other, wanted=1e12, pay_off=1e-3, batches=60)
    made = []
    for number in range(60):
        spent = machine.batch(1e12, 1e-3, stalled.work, stalled.result_units)
        made.append(spent.comparisons)
        stalled.learn(replace(spent, duration_s=spent.duration_s + (6.0 if number % 15 == 14 else 0.0)))
    assert stalled.seconds_per_result == pytest.approx(other.seconds_per_result, rel=0.2)
    assert np.mean(made[30:]) > 0.9 * other.work / (1.0 + other.result_units * 1e-3)


def test_a_quiet_night_does_not_make_comparisons_look_dear():
    """Two hundred batches of next to nothing, whose calls take longer than their comparisons."""
    machine = Machine(0.5, 1e-9, 2e-7, 1e-7)
    allowance = Allowance(2.0, 2)
    run(machine, allowance, wanted=1e12, pay_off=1e-3)
    before = allowance.seconds_per_comparison
    for _ in range(200):
        allowance.learn(Spent(0.5, 0.003, 1e5, 0.003, 100, 200))
    assert allowance.seconds_per_comparison == before


@pytest.mark.parametrize(
    "wrong", [{"aim": 0.0}, {"memory": 1.0}, {"inside": 0.0}, {"stall": 0.5}, {"telling_s": 0.0}]
)
def test_numbers_that_mean_nothing_are_refused(wrong):
    with pytest.raises(BadArgument, match=next(iter(wrong))):
        AllowanceConfig(**wrong)


def _rows_batch(rows, budget, noise, price_s=1e-5, fixed_s=0.6):
    """A batch of so many rows on a machine where rows cost, and little is left to compare."""
    kept = budget.rows(rows)
    duration = fixed_s + price_s * kept + 5e-7 * rows + 0.1
    return Spent(duration * noise.lognormal(0.0, 0.05), 0.1, 1e8, 0.0, 1e3, 2e3, kept, rows)


def test_rows_that_fit_are_never_left_out():
    noise, allowance = np.random.default_rng(3), Allowance(2.0, 2)
    for batch in range(60):
        spent = _rows_batch(60_000 + 20_000 * (batch % 3), allowance.rows, noise)
        assert spent.kept_rows == spent.arrived_rows, f"batch {batch} left rows out, and all of them fit"
        allowance.learn(spent)


def test_where_rows_alone_do_not_fit_so_many_are_left_out_that_batches_do():
    noise, allowance, inside, kept = np.random.default_rng(4), Allowance(2.0, 2), [], []
    for batch in range(60):
        spent = _rows_batch(300_000, allowance.rows, noise)
        allowance.learn(spent)
        if batch >= 10:
            inside.append(spent.duration_s <= 2.0)
            kept.append(spent.kept_rows)
    assert np.mean(inside) >= 0.9
    # 300,000 rows cost 0.15 s to be left out; 1.05 s are left for those that are kept.
    assert 0.75 * 105_000 <= np.mean(kept) <= 110_000


def test_a_burst_of_rows_is_met_in_the_batch_in_which_it_comes():
    noise, allowance = np.random.default_rng(5), Allowance(2.0, 2)
    for batch in range(30):
        allowance.learn(_rows_batch(50_000 + 25_000 * (batch % 3), allowance.rows, noise))
    spent = _rows_batch(1_000_000, allowance.rows, noise)
    assert spent.kept_rows < 130_000
    assert spent.duration_s <= 2.6
    allowance.learn(spent)
    after = [_rows_batch(60_000, allowance.rows, noise) for _ in range(3)]
    assert all(s.kept_rows == s.arrived_rows for s in after)


def test_a_slow_start_leaves_no_rows_out():
    """The first batches start workers and compile; they say nothing of what rows cost."""
    noise, allowance = np.random.default_rng(6), Allowance(2.0, 2)
    for seconds in (14.0, 6.0):
        allowance.learn(Spent(seconds, 0.1, 1e8, 0.0, 1e3, 2e3, 60_000, 60_000))
        assert allowance.rows.keep(60_000) == 1.0
    for _ in range(20):
        spent = _rows_batch(60_000, allowance.rows, noise)
        assert spent.kept_rows == 60_000
        allowance.learn(spent)


def test_a_first_batch_of_which_nothing_is_known_is_bounded():
    allowance = Allowance(2.0, 2)
    assert allowance.rows.keep(100_000) == 1.0
    assert allowance.rows.rows(10**7) == pytest.approx(200_000)


def test_more_rows_leave_less_time_to_compare():
    noise, allowance = np.random.default_rng(7), Allowance(2.0, 2)
    for batch in range(30):
        allowance.learn(_rows_batch(30_000 + 25_000 * (batch % 3), allowance.rows, noise))
    budget, rows = allowance.budget, allowance.rows
    few, many = (budget.units(rows.seconds(n)) for n in (20_000, 90_000))
    assert few > 1.3 * many


def test_what_0_1_0_learnt_is_read():
    allowance = Allowance(2.0, 2)
    recent = [[1e5, 1.1], [1e5, 1.0], [1e5, 1.2]]
    old = {"compared": [1.0, 5e8], "emitted": [0.5, 1e6], "elsewhere": [0.0] * 5, "recent": recent}
    allowance.restore(old)
    assert allowance.seconds_per_comparison == pytest.approx(2e-9)
    assert allowance.fixed_s == pytest.approx(1.1, rel=0.1)
    assert allowance.rows.keep(100_000) == 1.0
