"""What a policy must do that draws rows by the groups of their own batch (`Policy.drawing`).

Its plans have no rate for a group: a group's quota follows from the plan and from the group's own rows,
in whichever Spark task those are. So the checks make batches of known groups, hand the policy what a
gate would have learned of them, and work out the quotas that its plans lead to: by the policy's own rule
(`Drawing.quotas`), or by one of `headgate.policies.by_group.level`.
"""

from __future__ import annotations

import itertools
import math
import pickle
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headgate.core.groups import GroupStats, Strata
from headgate.core.load import Budget
from headgate.core.plan import Plan
from headgate.policies import Drawing, Policy
from headgate.policies.by_group.level import LEVEL_RULES, Rule, grid
from headgate.testing.contracts.require import require

__all__ = [
    "DRAWING_CHECKS",
    "Batch",
    "check_drawing",
    "drawings_travel",
    "drawn_within_the_budget",
    "legal_batches",
    "more_budget_draws_no_group_less",
    "quotas_are_legal",
    "quotas_are_the_groups_own",
]

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: Shares of a batch that a controller may allow, all of it excepted.
_SHARES = (1e-6, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.99)
#: What each group of the made batches needs for an accuracy, in rows, and its standard deviation.
_NEED, _DEVIATION = 20.0, 1.0
#: A level is read off a grid of two points an octave, between which the curve is taken for straight.
_GRID_ERROR = 0.08


@dataclass(frozen=True)
class Batch:
    """The rows of each group of a batch, and what a gate would have learned from it."""

    sizes: Counts
    groups: GroupStats


def _drawing(policy: Policy) -> Drawing:
    drawing = policy.drawing
    require(drawing is not None, f"{policy!r} draws nothing: its drawing is None")
    assert drawing is not None
    return drawing


def _rule(drawing: Drawing, reference: float) -> tuple[Rule, Callable[[Counts], Floats]]:
    rule = Rule(drawing.rule, drawing.least, drawing.overflow, reference)

    def shares(sizes: Counts) -> Floats:
        needs = np.minimum(sizes, _NEED).astype(np.float64)
        return rule.shares(sizes, np.full(len(sizes), _DEVIATION), needs)

    return rule, shares


def legal_batches(drawing: Drawing, seed: int, count: int) -> Iterator[Batch]:
    """Batches that can happen: one group, many small ones, a few heavy ones, all of one size."""
    rng = random.Random(seed)
    for index in range(count):
        number = rng.choice((1, 2, 10, 300))
        top = rng.choice((1.0, 2.0, 5.0))
        drawn = [int(10.0 ** rng.uniform(0.0, top)) for _ in range(number)]
        sizes = np.array([drawn[0]] * number if index % 5 == 4 else drawn, np.int64)
        total, curve = int(sizes.sum()), ()
        if drawing.quotas is None:
            rule, shares = _rule(drawing, total / number if drawing.rule == "congress" else _DEVIATION)
            curve = tuple(rule.curve(sizes, shares(sizes)).tolist())
        yield Batch(sizes, GroupStats(total=total, strata=Strata(number, curve, _DEVIATION)))


def _plans(policy: Policy, batch: Batch) -> Iterator[tuple[float, Plan]]:
    for share in _SHARES:
        yield share, policy.plan(Budget(share, "shedding"), batch.groups)


def _wanted(drawing: Drawing, plan: Plan, sizes: Counts) -> Floats:
    """The rows to keep of each group under a plan, on average over what is rounded by lot."""
    if plan.keeps_everything:
        return sizes.astype(np.float64)
    if drawing.quotas is not None:
        return np.asarray(drawing.quotas(sizes, plan), np.float64)
    level, reference = plan.level, 1.0 if plan.draw is None else plan.draw.reference
    if level is None:  # what the tasks fall back to
        return np.asarray(np.minimum(np.maximum(plan.default * sizes, drawing.least), sizes), np.float64)
    rule, shares = _rule(drawing, reference)
    wanted = level * shares(sizes)
    if rule.overflow == "exceed":
        wanted = np.maximum(wanted, rule.least)
    elif rule.overflow == "smallest":
        wanted = np.where(wanted < 1.0, sizes * wanted >= 1.0, wanted)
    return np.asarray(np.minimum(wanted, sizes), np.float64)


def quotas_are_legal(policy: Policy) -> None:
    """A rule has a name and columns; it gives each group a number of rows, and changes no argument."""
    drawing = _drawing(policy)
    require(bool(drawing.by), f"{drawing} names no column that makes a group")
    require(
        (drawing.quotas is None) == (drawing.rule in LEVEL_RULES),
        f"rule={drawing.rule!r}: one of {', '.join(LEVEL_RULES)} without quotas=, or another name with",
    )
    for batch in legal_batches(drawing, 0, 15):
        for share, plan in _plans(policy, batch):
            before = batch.sizes.copy()
            quotas = _wanted(drawing, plan, batch.sizes)
            require(
                quotas.shape == batch.sizes.shape,
                f"{quotas.shape} quotas for {len(batch.sizes)} groups (a budget of {share})",
            )
            legal = bool(np.isfinite(quotas).all() and (quotas >= 0).all())
            require(legal, f"quotas {quotas} for groups of {batch.sizes} rows (a budget of {share})")
            require(bool((before == batch.sizes).all()), "a rule changed the sizes that it was given")


def quotas_are_the_groups_own(policy: Policy) -> None:
    """A group's quota is the same whichever groups are beside it in its task, and in any order."""
    drawing = _drawing(policy)
    for batch in legal_batches(drawing, 1, 15):
        for share, plan in _plans(policy, batch):
            whole = _wanted(drawing, plan, batch.sizes)
            cut = len(batch.sizes) // 3
            parts = [batch.sizes[:cut], batch.sizes[cut:]]
            apart = np.concatenate([_wanted(drawing, plan, part) for part in parts])
            turned = _wanted(drawing, plan, batch.sizes[::-1].copy())[::-1]
            for other, how in ((apart, "in two tasks"), (turned, "in another order")):
                require(
                    bool(np.allclose(whole, other, rtol=1e-9)),
                    f"groups of {batch.sizes} rows keep {whole}, and {how} {other} (a budget of "
                    f"{share}): a quota must follow from the group's own rows and the plan",
                )


def more_budget_draws_no_group_less(policy: Policy) -> None:
    """Quotas never fall when the budget rises."""
    drawing = _drawing(policy)
    for batch in legal_batches(drawing, 2, 15):
        drawn = [(s, _wanted(drawing, plan, batch.sizes)) for s, plan in _plans(policy, batch)]
        for (less, lower), (more, higher) in itertools.pairwise(drawn):
            require(
                bool((lower <= higher * (1.0 + 1e-9) + 1e-9).all()),
                f"groups of {batch.sizes} rows keep {lower} with a budget of {less}, and {higher} with "
                f"{more}",
            )


def drawn_within_the_budget(policy: Policy) -> None:
    """A level keeps what the budget allows of the batch that it was read off, or what was promised.

    Promised are the least rows of each group, unless groups may yield, and what an accuracy needs. A
    rule of one's own may promise anything, so it is not asked.
    """
    drawing = _drawing(policy)
    if drawing.quotas is not None:
        return
    levels = grid(drawing.rule)
    for batch in legal_batches(drawing, 3, 15):
        least = np.minimum(drawing.least, batch.sizes).sum() if drawing.overflow == "exceed" else 0.0
        strata = batch.groups.strata
        assert strata is not None
        needed = 0.0 if drawing.accuracy is None else float(np.interp(1.0, levels, strata.curve))
        for share, plan in _plans(policy, batch):
            kept = float(_wanted(drawing, plan, batch.sizes).sum())
            allowed = max(share * batch.groups.total, float(least), needed)
            # Where a whole group yields or stays, a budget between the two cannot be met.
            grain = float(batch.sizes.max()) if drawing.overflow == "smallest" else 1.0
            require(
                kept <= allowed * (1.0 + _GRID_ERROR) + grain,
                f"a budget of {share} of {batch.groups.total} rows in groups of {batch.sizes}: "
                f"{kept:.1f} would be kept, {allowed:.1f} are allowed",
            )
            answer = policy.would_keep(plan, batch.groups)
            require(
                answer is None or (math.isfinite(answer) and 0.0 <= answer <= 1.0),
                f"would_keep answered {answer} for {plan}: give a share in [0, 1], or None",
            )


def drawings_travel(policy: Policy) -> None:
    """The drawing is the same each time it is asked for, and in another process."""
    drawing = _drawing(policy)
    fresh: Policy = pickle.loads(pickle.dumps(policy))
    for other, how in ((policy.drawing, "asked again"), (fresh.drawing, "pickled")):
        require(other == drawing, f"a policy that is {how} draws by {other}, not by {drawing}")
        assert other is not None
        for batch in legal_batches(drawing, 4, 10):
            for _, plan in _plans(policy, batch):
                same = np.array_equal(
                    _wanted(drawing, plan, batch.sizes), _wanted(other, plan, batch.sizes)
                )
                require(same, f"a policy that is {how} gives groups of {batch.sizes} other quotas")


DRAWING_CHECKS: tuple[Callable[[Policy], None], ...] = (
    quotas_are_legal,
    quotas_are_the_groups_own,
    more_budget_draws_no_group_less,
    drawn_within_the_budget,
    drawings_travel,
)


def check_drawing(policy: Policy) -> None:
    """Run every check of a policy that draws; raises AssertionError at the first that fails."""
    for check in DRAWING_CHECKS:
        check(policy)
