"""What every controller must do: legal budgets, snapshots that go on exactly, no clock and no chance."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator

from headgate.control import Controller, ControllerConfig
from headgate.core.load import Budget, LoadSample
from headgate.testing.contracts.require import require

__all__ = [
    "CONTROLLER_CHECKS",
    "LARGEST_SNAPSHOT",
    "answers_are_deterministic",
    "budgets_are_legal",
    "builds_are_independent",
    "check_controller",
    "empty_batches_are_harmless",
    "legal_samples",
    "snapshot_continues_exactly",
    "snapshot_stays_small",
]

#: The largest snapshot allowed, in bytes of JSON: it is written after every batch.
LARGEST_SNAPSHOT = 8192


def legal_samples(seed: int, count: int) -> Iterator[LoadSample]:
    """Samples that can happen: jumps of load, empty batches, lost clocks, backlogs, no arrivals."""
    rng = random.Random(seed)
    now, keep = 1.7e9, 1.0
    for batch in range(count):
        scale = 10.0 ** rng.uniform(0, 8)
        arrived = 0 if rng.random() < 0.1 else int(scale * rng.random())
        keep = rng.choice((keep, 1.0, rng.random(), 0.01))
        duration = rng.choice((0.0, 0.05, rng.expovariate(1.0), 10.0 ** rng.uniform(-3, 4)))
        oldest = None if rng.random() < 0.3 else now - rng.expovariate(0.5)
        backlog = rng.choice((None, 0, int(scale)))
        yield LoadSample(batch, now, duration, arrived, round(arrived * keep), oldest, backlog)
        # A clock that was set back, or two starts in one millisecond, are legal too.
        now += rng.choice((duration, duration + rng.expovariate(1.0), 0.0, -0.5))


def _overload(count: int, seed: int = 1) -> Iterator[LoadSample]:
    """A plain overload: three times what fits into a second, at a steady pace."""
    rng = random.Random(seed)
    for batch in range(count):
        arrived = 30_000 + rng.randrange(1000)
        kept = round(arrived * rng.uniform(0.2, 0.4))
        start = 1.7e9 + 1.5 * batch
        yield LoadSample(batch, start, 0.25 + 0.75e-4 * kept, arrived, kept, start - 1.0)


def _decide_all(controller: Controller, samples: Iterator[LoadSample]) -> list[Budget]:
    return [controller.decide(sample) for sample in samples]


def budgets_are_legal(config: ControllerConfig) -> None:
    """The keep share is a number in [0, 1], whatever the samples are, and for a batch of any size."""
    for seed in range(20):
        controller = config.build()
        budget = controller.opening(1.7e9)
        require(_legal(budget), f"opening of a fresh controller answered {budget}")
        for sample in legal_samples(seed, 60):
            budget = controller.decide(sample)
            require(_legal(budget), f"keep must be in [0, 1]; {budget} after {sample}")
            _check_sizes(budget, f"{budget} after {sample}")
        budget = config.build(controller.snapshot()).opening(1.8e9)
        require(_legal(budget), f"opening after a restart answered {budget}")
        budget = config.build(controller.snapshot()).resumed(1.8e9)
        require(_legal(budget), f"after a change of settings it answered {budget}")


#: Sizes of batches for which a budget is asked.
_SIZES = (0, 1, 10, 1_000, 10**5, 10**7, 10**10)


def _check_sizes(budget: Budget, when: str) -> None:
    """For a batch of any size the share is legal; a larger batch keeps no larger share of its rows."""
    before = 1.0
    for rows in _SIZES:
        resolved = budget.at(rows)
        require(_legal(resolved), f"a batch of {rows} rows gets {resolved}: {when}")
        if budget.fits is not None and rows:
            require(
                resolved.keep <= before + 1e-9,
                f"a batch of {rows} rows keeps {resolved.keep}, and a smaller one {before}: {when}",
            )
            before = resolved.keep


def _legal(budget: Budget) -> bool:
    keep = budget.keep
    return isinstance(keep, int | float) and math.isfinite(keep) and 0.0 <= keep <= 1.0


def snapshot_continues_exactly(config: ControllerConfig) -> None:
    """A snapshot is JSON, and a controller built from it goes on as the original does."""
    for seed in range(6):
        samples = list(legal_samples(seed, 80)) + list(_overload(40, seed))
        original = config.build()
        copies: list[tuple[int, Controller]] = []
        for cut, sample in enumerate(samples):
            answer = original.decide(sample)
            for begun, copy in copies:
                require(
                    copy.decide(sample) == answer,
                    f"built from the snapshot after sample {begun}, it answered otherwise than "
                    f"the original after sample {cut}: {sample}",
                )
            if cut % 17 == 0:
                stored = json.loads(json.dumps(original.snapshot(), allow_nan=False))
                copies.append((cut, config.build(stored)))


def snapshot_stays_small(config: ControllerConfig) -> None:
    """What is learned does not grow with the number of batches."""
    controller = config.build()
    _decide_all(controller, legal_samples(0, 500))
    _decide_all(controller, _overload(500))
    size = len(json.dumps(controller.snapshot()))
    require(size <= LARGEST_SNAPSHOT, f"a snapshot after 1,000 batches has {size} bytes")


def empty_batches_are_harmless(config: ControllerConfig) -> None:
    """A batch without rows is no reason to shed more."""
    fresh = config.build()
    keep = fresh.opening(1.7e9).keep
    for batch in range(5):
        after = fresh.decide(LoadSample(batch, 1.7e9 + batch, 0.1, 0, 0)).keep
        require(after >= keep, f"empty batches alone lowered keep from {keep} to {after}")
    controller = config.build()
    keep = _decide_all(controller, _overload(50))[-1].keep
    for batch in range(50, 60):
        after = controller.decide(LoadSample(batch, 1.7e9 + 1.5 * batch, 0.1, 0, 0)).keep
        require(after >= keep - 1e-12, f"an empty batch lowered keep from {keep} to {after}")
        keep = after


def builds_are_independent(config: ControllerConfig) -> None:
    """Two controllers of one configuration share nothing, and the configuration does not change."""
    before = repr(config)
    alone = _decide_all(config.build(), _overload(30))
    first, second = config.build(), config.build()
    _decide_all(first, legal_samples(3, 60))
    beside = _decide_all(second, _overload(30))
    require(alone == beside, "a controller answered otherwise because another one of its config ran")
    require(repr(config) == before, f"building changed the configuration: {before} -> {config!r}")


def answers_are_deterministic(config: ControllerConfig) -> None:
    """The same samples give the same budgets: no clock, no chance."""
    for seed in range(5):
        first = _decide_all(config.build(), legal_samples(seed, 80))
        second = _decide_all(config.build(), legal_samples(seed, 80))
        require(first == second, f"the samples of seed {seed} gave other budgets the second time")


CONTROLLER_CHECKS: tuple[Callable[[ControllerConfig], None], ...] = (
    budgets_are_legal,
    snapshot_continues_exactly,
    snapshot_stays_small,
    empty_batches_are_harmless,
    builds_are_independent,
    answers_are_deterministic,
)


def check_controller(config: ControllerConfig) -> None:
    """Run every controller check; raises AssertionError at the first that fails."""
    for check in CONTROLLER_CHECKS:
        check(config)
