"""A shard of a join, batch by batch, without Spark: every pair once, whatever the batches and blocks."""

from __future__ import annotations

import functools
import struct
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.plan import KEEP_ALL, Plan
from headgate.core.plan_parts import WorkLimit
from headgate.errors import BadArgument, GuardedFunctionError, SnapshotError
from headgate.joins.conditions import overlap, predicate
from headgate.spark.join.block import Block, Summary
from headgate.spark.join.pack import HASH, KEY, TIME, Grid, packed, shard_keys, unpacked
from headgate.spark.join.state import Stored
from headgate.spark.join.state_store import StateStore
from headgate.spark.join.tally import Done
from headgate.spark.join.terms import JoinTerms, WorkConfig, columns_digest
from headgate.spark.join.work import NO_WATERMARK, JoinWork


def _work(*args, **more) -> JoinWork:
    return JoinWork(JoinTerms(*args, **more))


class Memory:
    """A store as Spark's state is one: what comes back went through bytes."""

    def __init__(self, work: JoinWork) -> None:
        self.work, self.index = work, work.fresh()
        self.payloads: dict[int, bytes] = {}
        self.summaries: dict[int, bytes] = {}
        self.read: list[int] = []

    def block(self, stored: Stored) -> Block:
        self.read.append(stored.number)
        return Block(
            stored.side, stored.bucket, unpacked(self.payloads[stored.number]), self.work.terms.condition
        )

    def summary(self, stored: Stored) -> Summary:
        return Summary.from_bytes(self.summaries[stored.number])

    def put(self, block: Block) -> Stored:
        number, self.index.next_number = self.index.next_number, self.index.next_number + 1
        self.payloads[number] = block.payload
        self.summaries[number] = block.summary.to_bytes()
        size = len(block.payload)
        drawn = () if block.chances is None else (block.stands_for, block.heaviest)
        own = number, block.side, block.bucket, block.n, block.rows.span, block.digest, size
        return Stored(*own, *drawn)

    def remove(self, stored: Stored) -> None:
        del self.payloads[stored.number], self.summaries[stored.number]

    def batch(self, arrived, watermark=NO_WATERMARK, plan=KEEP_ALL, number=0) -> Done:
        done = self.work.run(self.index, self, arrived, watermark, plan, number)
        self.index = self.work.restored(self.index.to_bytes())
        assert {s.number for s in self.index.blocks} == set(self.payloads) == set(self.summaries)
        return done


def _payload(rows: list[tuple[int, int, list[int]]]) -> bytes:
    """Rows as (id, time, items)."""
    return packed(
        pa.RecordBatch.from_pydict(
            {
                TIME: pa.array([r[1] for r in rows], pa.int64()),
                KEY: pa.array([sorted(set(r[2])) for r in rows], pa.list_(pa.int64())),
                HASH: pa.array([r[0] * 7919 % 10007 for r in rows], pa.int64()),
                "id": pa.array([r[0] for r in rows], pa.int64()),
            }
        )
    )


def _ids(done: Done) -> list[tuple[int, int]]:
    found = []
    for p in done.pairs:
        left = p.left.batch.column("id").to_numpy()[p.i]
        right = p.right.batch.column("id").to_numpy()[p.j]
        found += list(zip(left.tolist(), right.tolist(), strict=True))
    return found


ROW = st.tuples(st.integers(0, 400), st.lists(st.integers(0, 6), max_size=4))
BATCHES = st.lists(st.tuples(st.lists(ROW, max_size=12), st.lists(ROW, max_size=12)), max_size=5)


@settings(max_examples=60, deadline=None)
@given(BATCHES, st.integers(1, 60), st.integers(1, 60), st.integers(1, 80), st.integers(1, 2))
def test_all_pairs_once_in_any_order_of_arrival(batches, before, after, basic, k):
    work = _work(overlap("items", at_least=k), (before, after), basic, seed=1)
    memory = Memory(work)
    found, rows = [], ([], [])
    for number, sides in enumerate(batches):
        arrived = []
        for side, new in enumerate(sides):
            named = [(1000 * number + i, t, items) for i, (t, items) in enumerate(new)]
            rows[side].extend(named)
            if named:
                half = len(named) // 2
                arrived += [(side, _payload(part)) for part in (named[:half], named[half:]) if part]
        found += _ids(memory.batch(arrived, number=number))
    wanted = sorted(
        (a[0], b[0])
        for a in rows[0]
        for b in rows[1]
        if -after <= b[1] - a[1] <= before and len(set(a[2]) & set(b[2])) >= k
    )
    assert sorted(found) == wanted


def _stream(rng: np.random.Generator, n: int, since: int, until: int, hot: int) -> list:
    """Sets of 4 of 60 items, half of which are from a hot group that moves."""
    found = []
    for i, t in enumerate(np.sort(rng.integers(since, until, n))):
        items = [*((hot + rng.integers(0, 8, 2)) % 60), *rng.integers(0, 60, 2)]
        found.append((since + i, int(t), [int(x) for x in items]))
    return found


@functools.cache
def _drifting(batches: int) -> list[list[tuple[int, bytes]]]:
    """The same rows for every play: to make them takes as long as to join them."""
    rng = np.random.default_rng(7)
    return [
        [
            (side, _payload(_stream(rng, 400, 1000 * number, 1000 * (number + 1), 7 * (number - lag))))
            for side, lag in ((0, 0), (1, 3))
        ]
        for number in range(batches)
    ]


def _play(plan: Plan, seed: int, condition=None, batches: int = 8, **more) -> tuple[list, list[Done]]:
    """A stream with drift; the right one is late by three batches."""
    work = _work(condition or overlap("items", at_least=2), (8000, 8000), 500, seed=seed, **more)
    memory = Memory(work)
    found, dones = [], []
    for number, arrived in enumerate(_drifting(batches)):
        dones.append(memory.batch(arrived, plan=plan, number=number))
        found += _ids(dones[-1])
    return found, dones


def test_a_budget_is_kept_and_better_spent_than_at_random():
    full, whole = _play(KEEP_ALL, 1)
    wanted = sum(d.wanted for d in whole)
    found, dones = _play(Plan(1.0, work=WorkLimit(100_000.0)), 1)
    made = sum(d.made for d in dones)
    assert set(found) < set(full)
    assert len(found) == len(set(found))
    assert all(d.made <= 1.05 * 100_000 for d in dones)
    assert len(found) / len(full) > 1.5 * made / wanted


@pytest.mark.parametrize("seeds", [12, pytest.param(30, marks=pytest.mark.long)])
def test_the_estimate_of_what_was_missed_is_right_on_average(seeds):
    full, _ = _play(KEEP_ALL, 1)
    estimates, errors = [], []
    for seed in range(seeds):
        found, dones = _play(Plan(1.0, work=WorkLimit(60_000.0)), seed)
        missed = sum(d.total("missed") for d in dones)
        estimates.append(len(found) + missed)
        errors.append(sum(d.total("variance") for d in dones) ** 0.5)
    assert np.mean(estimates) == pytest.approx(len(full), rel=0.05)
    spread = np.std(estimates)
    assert 0.5 * spread < np.mean(errors) < 2.0 * spread, "the error says how far off it is"


def test_equal_plans_and_seeds_choose_equally():
    one, two, other = (_play(Plan(1.0, work=WorkLimit(60_000.0)), seed)[0] for seed in (3, 3, 4))
    assert one == two
    assert one != other


def test_a_share_of_the_full_join_is_a_plan_too():
    _, dones = _play(Plan(0.25), 1)
    assert sum(d.made for d in dones) == pytest.approx(0.25 * sum(d.wanted for d in dones), rel=0.06)


def test_a_predicate_is_learnt():
    near = predicate(lambda a, b: (a["id"] - b["id"]).between(2900, 3100), "id")
    full, whole = _play(KEEP_ALL, 1, near, batches=11)
    found, dones = _play(Plan(0.15), 1, near, batches=11)
    assert set(found) < set(full)
    late = [i for i, d in enumerate(dones) if i >= 8]
    share = sum(dones[i].total("found") for i in late) / sum(whole[i].total("found") for i in late)
    assert share > 0.5, "15 % of the comparisons, where they pay"


def test_blocks_that_are_not_chosen_are_not_read():
    work = _work(overlap("items", at_least=3), (10**6, 10**6), 1000, seed=1)
    memory = Memory(work)
    hot = [(i, 10 + i, [1, 2, 3]) for i in range(300)]
    cold = [(i, 500_000 + i, [50, 51, 52]) for i in range(300)]
    memory.batch([(1, _payload(hot)), (1, _payload(cold))])
    assert len(memory.index.blocks) == 2
    done = memory.batch([(0, _payload([(i, 500_300 + i, [1, 2, 3]) for i in range(100)]))],
                        plan=Plan(1.0, work=WorkLimit(30_000.0)), number=1)  # fmt: skip
    assert done.total("found") > 0.8 * 100 * 300
    assert done.made < 0.6 * done.wanted


def test_late_rows_are_counted_and_old_blocks_forgotten():
    work = _work(overlap("items", at_least=1), (100, 50), 10, seed=1)
    memory = Memory(work)
    memory.batch([(0, _payload([(1, 0, [1])])), (1, _payload([(2, 0, [2])]))])
    # A row is late if it is behind the watermark of the batch before.
    done = memory.batch([(0, _payload([(3, 59, [1])]))], watermark=60, number=1)
    assert (done.late, done.rows) == ([0, 0], [1, 0])
    done = memory.batch([(0, _payload([(4, 59, [1]), (5, 61, [1])]))], watermark=60, number=2)
    assert (done.late, done.rows) == ([1, 0], [1, 0])
    assert {s.side for s in memory.index.blocks} == {0}, "a right row waits 50, a left one 100"
    memory.batch([], watermark=162, number=3)
    assert not memory.index.blocks


def test_an_empty_batch_costs_nothing():
    memory = Memory(_work(overlap("items", at_least=1), (100, 100), 10, seed=1))
    done = memory.batch([])
    assert (done.wanted, done.made, done.pairs) == (0.0, 0.0, [])


@pytest.mark.parametrize("shards", [1, 2, 3, 4, 6, 7])
@pytest.mark.parametrize("by_key", [False, True])
def test_every_pair_meets_in_one_shard(shards, by_key):
    grid = Grid.of(shards, by_key)
    assert grid.shards == shards
    for left in range(grid.choices(0)):
        for right in range(grid.choices(1)):
            if by_key and left != right:
                continue
            both = set(grid.shards_of(0, left)) & set(grid.shards_of(1, right))
            assert len(both) == 1
            assert all(0 <= shard < shards for shard in both)


def test_a_sample_that_found_nothing_proves_nothing():
    work = _work(overlap("items", at_least=4), (10**6, 10**6), 1000, seed=1)
    memory = Memory(work)
    memory.batch([(1, _payload([(i, i, [1, 2, 3]) for i in range(300)]))])
    done = memory.batch([(0, _payload([(i, 400 + i, [1, 2, 9]) for i in range(300)]))],
                        plan=Plan(1.0, work=WorkLimit(30_000.0)), number=1)  # fmt: skip
    assert done.total("found") == done.total("missed") == 0
    assert done.total("variance") > 0


def test_a_predicate_that_raises_says_what_it_was_given():
    broken = predicate(lambda a, b: a["nothing"] > 1, "id")
    memory = Memory(_work(broken, (100, 100), 10, seed=1))
    rows = [(side, _payload([(1, 5, [1])])) for side in (0, 1)]
    with pytest.raises(GuardedFunctionError, match=r"KeyError: 'nothing'.*\['id'\]"):
        memory.batch(rows)


def test_a_predicate_that_answers_for_other_pairs_is_refused():
    short = predicate(lambda a, b: [True] * (len(a) + 1), "id")
    memory = Memory(_work(short, (100, 100), 10, seed=1))
    rows = [(side, _payload([(1, 5, [1]), (2, 6, [1])])) for side in (0, 1)]
    with pytest.raises(BadArgument, match="one a pair"):
        memory.batch(rows)


class RealStore(Memory):
    """The operator's own store, with what the process remembers, over a state made of dictionaries."""

    def __init__(self, work: JoinWork) -> None:
        super().__init__(work)
        self._maps = (_Map(self.payloads), _Map(self.summaries))

    def _store(self) -> StateStore:
        return StateStore(self.work.terms.condition, *self._maps, self.index)

    def block(self, stored: Stored) -> Block:
        return self._store().block(stored)

    def summary(self, stored: Stored) -> Summary:
        return self._store().summary(stored)

    def put(self, block: Block) -> Stored:
        return self._store().put(block)

    def remove(self, stored: Stored) -> None:
        self._store().remove(stored)


class _Map:
    def __init__(self, held: dict[int, bytes]) -> None:
        self._held = held

    def getValue(self, key):
        return (self._held[key[0]],)

    def updateValue(self, key, value):
        self._held[key[0]] = value[0]

    def removeKey(self, key):
        del self._held[key[0]]


def test_both_sides_may_have_the_same_rows():
    """A stream joined with itself: blocks of equal content are still of different sides."""
    work = _work(overlap("items", at_least=1), (1000, 1000), 10, seed=1)
    memory = RealStore(work)
    found, rows = [], []
    for number in range(4):
        new = [(10 * number + i, 10 * number + i, [i % 3]) for i in range(10)]
        rows += new
        found += _ids(memory.batch([(0, _payload(new)), (1, _payload(new))], number=number))
    assert sorted(found) == sorted((a[0], b[0]) for a in rows for b in rows if a[2] == b[2])


def test_a_batch_that_is_split_otherwise_makes_the_same_comparisons():
    rng = np.random.default_rng(3)
    rows = [
        (i, int(t), [int(x) for x in rng.integers(0, 9, 3)])
        for i, t in enumerate(rng.integers(0, 40, 600))
    ]
    found = []
    for parts in (1, 3):
        memory = Memory(_work(overlap("items", at_least=2), (100, 100), 10, seed=1))
        order = rng.permutation(len(rows))
        chunks = [[rows[i] for i in part] for part in np.array_split(order, parts)]
        arrived = [(side, _payload(chunk)) for side in (0, 1) for chunk in chunks]
        found.append(sorted(_ids(memory.batch(arrived, plan=Plan(1.0, work=WorkLimit(40_000.0))))))
    assert found[0] == found[1]
    assert found[0]


def test_the_state_of_another_join_is_refused():
    one = _work(overlap("items", at_least=1), (100, 100), 10, seed=1, shards=2)
    for other in (
        _work(overlap("items", at_least=1), (100, 100), 10, seed=1, shards=4),
        _work(overlap("items", at_least=1), (100, 200), 10, seed=1, shards=2),
        _work(overlap("items", at_least=1), (100, 100), 20, seed=1, shards=2),
    ):
        with pytest.raises(SnapshotError, match="another join"):
            other.restored(one.fresh().to_bytes())


SIDE = [("id", "bigint"), ("home", "string"), ("items", "array<bigint>"), ("at", "timestamp")]


@pytest.mark.parametrize(
    ("left", "on", "time"),
    [
        pytest.param([SIDE[1], SIDE[0], *SIDE[2:]], "items", "at", id="another order"),
        pytest.param([*SIDE, ("work", "string")], "items", "at", id="one more column"),
        pytest.param([("id", "int"), *SIDE[1:]], "items", "at", id="another type"),
        pytest.param(SIDE, "others", "at", id="another column compared"),
        pytest.param(SIDE, "items", "seen", id="another time"),
    ],
)
def test_the_state_of_other_columns_is_refused(left: list[tuple[str, str]], on: str, time: str) -> None:
    def work(left: list[tuple[str, str]], on: str, time: str) -> JoinWork:
        condition = overlap(on, "items", at_least=1)
        columns = columns_digest([left, SIDE], condition, [time, "at"])
        return _work(condition, (100, 100), 10, seed=1, columns=columns)

    one = work(SIDE, "items", "at")
    assert one.restored(one.fresh().to_bytes()).columns == one.terms.columns
    with pytest.raises(SnapshotError, match=r"another join .* same columns"):
        work(left, on, time).restored(one.fresh().to_bytes())


def test_a_state_that_says_no_columns_is_taken_up_and_says_them_from_then_on() -> None:
    plain = _work(overlap("items", at_least=1), (100, 100), 10, seed=1)
    work = JoinWork(replace(plain.terms, columns="those of now"))
    index = work.restored(plain.fresh().to_bytes())
    assert work.restored(index.to_bytes()).columns == "those of now"


def test_the_columns_of_a_predicate_are_all_that_it_names() -> None:
    one, other = (predicate(len, ["id", name]) for name in ("home", "items"))
    assert columns_digest([SIDE, SIDE], one, ["at"] * 2) != columns_digest(
        [SIDE, SIDE], other, ["at"] * 2
    )


def test_a_predicate_that_knows_not_is_no_match():
    unsure = predicate(lambda a, b: [None, float("nan"), True][: len(a)] * (len(a) // 3), "id")
    memory = Memory(_work(unsure, (100, 100), 10, seed=1))
    done = memory.batch([(0, _payload([(1, 5, [1])])), (1, _payload([(i, 5, [1]) for i in range(3)]))])
    assert done.total("found") == 1


def test_many_scores_are_shared_by_neighbouring_blocks():
    full, whole = _play(KEEP_ALL, 1)
    few = WorkConfig(scores=2000)
    found, dones = _play(Plan(1.0, work=WorkLimit(100_000.0)), 1, config=few)
    made, wanted = sum(d.made for d in dones), sum(d.wanted for d in whole)
    assert set(found) < set(full)
    assert len(found) / len(full) > 1.2 * made / wanted
    played = [_play(Plan(1.0, work=WorkLimit(60_000.0)), seed, config=few) for seed in range(12)]
    estimates = [len(f) + sum(d.total("missed") for d in ds) for f, ds in played]
    assert np.mean(estimates) == pytest.approx(len(full), rel=0.1)


def test_a_window_that_was_not_looked_at_does_not_claim_to_be_complete():
    _, dones = _play(Plan(1.0, work=WorkLimit(20_000.0)), 1)
    for done in dones[2:]:
        for window in done.windows.values():
            if window.made < window.wanted - 1:
                assert window.variance > 0


@pytest.mark.parametrize("shards", [1, 2, 3, 4, 8])
def test_shards_have_partitions_of_their_own(spark, shards):
    """With as many partitions as shards, and with any multiple of them."""
    keys = shard_keys(spark, shards)
    assert 0 in keys, "so that a restart with other shards meets a state that is not its own"
    rows = spark.createDataFrame([(key,) for key in keys], "key int").selectExpr("hash(key) h").collect()
    for partitions in (shards, 3 * shards):
        assert len({row.h % partitions for row in rows}) == shards


@pytest.mark.parametrize(
    ("shards", "keys"), [(1, (0,)), (2, (2, 0)), (3, (0, 1, 11)), (8, (12, 6, 5, 1, 25, 15, 2, 0))]
)
def test_shards_have_the_keys_that_the_first_version_gave_them(spark, shards, keys):
    """Version 0.1.0 computed Spark's hash by itself; a checkpoint of its time has its keys."""
    assert shard_keys(spark, shards) == keys


def test_the_state_of_the_first_version_is_read():
    """An index as 0.1.0 wrote it, with one block and some matches at lag 3."""
    head = (
        b'{"v":1,"layout":"overlap, within 0.0001 s and 0.0001 s, basic window 1e-05 s, 2 places, '
        b'1 row types","watermark":60,"next":8,"paid":[5.0,100.0],'
        b'"blocks":[[7,1,3,20,30,39,"abc",512]]}'
    )
    lags = 2 * 11 + 1
    comparisons = np.zeros((2, lags, 1))
    matches = np.zeros((2, lags, 1))
    comparisons[0, 3, 0], matches[0, 3, 0] = 100.0, 5.0
    stats = struct.pack("<4sB3xII", b"HGCS", 1, lags, 1)
    stats += comparisons.astype("<f8").tobytes() + matches.astype("<f8").tobytes()
    value = len(head).to_bytes(4, "little") + head + stats
    work = _work(overlap("items", at_least=1), (100, 100), 10, seed=1, shards=2)
    index = work.restored(value)
    assert index.blocks == [Stored(7, 1, 3, 20, (30, 39), "abc", 512)]
    assert (index.watermark_us, index.next_number, index.pay_off) == (60, 8, 0.05)
    assert index.stats.matches[0, 3, 0] == 5.0
    assert index.to_bytes() == value, "and written again byte for byte"


def test_a_choice_uses_the_units_that_it_is_given():
    """Expected matches are an upper bound; what results do not take goes to more comparisons."""
    random = np.random.default_rng(3)
    memory = Memory(_work(overlap("items", at_least=2), (4000, 4000), 500, seed=1))
    plan, used = Plan(1.0, work=WorkLimit(60_000.0, 50.0)), []
    for number in range(10):
        sides = []
        for side in (0, 1):
            times = 1000 * number + np.sort(random.integers(0, 1000, 150))
            items = np.floor(30 * random.random((150, 5)) ** 2).astype(int)
            rows = [
                (i, int(t), row) for i, (t, row) in enumerate(zip(times, items.tolist(), strict=True))
            ]
            sides.append((side, _payload(rows)))
        done = memory.batch(sides, plan=plan, number=number)
        used.append((done.made + 50.0 * done.total("found")) / 60_000.0)
    assert used[3] < 1.15
    assert 0.9 <= np.mean(used[5:]) <= 1.1
    assert memory.index.used < 0.95, "as the state remembers"
