"""`gate`: one line in front of a query, and it holds its target."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from headgate.control import ControllerConfig
from headgate.control.duration import FIRST_ROWS
from headgate.control.fixed import check_rate
from headgate.core.rescue import Rescue
from headgate.durations import Duration
from headgate.errors import BadArgument
from headgate.policies import Policy, Uniform, ValueClasses
from headgate.settings import RETENTION_S, GateSettings

# isort: split
from pyspark.sql import DataFrame

from headgate.spark.calls import ForTransform, explained
from headgate.spark.checkpoint import check_checkpoint
from headgate.spark.gate.frame import Gate
from headgate.spark.gate.identity import identity_of, seed_of
from headgate.spark.gate.shape import WEIGHT
from headgate.store.folder import check_gate_name, open_control_folder

__all__ = ["gate"]


@explained('frame.transform(hg.gate("rides", hold="2 seconds", control="/shared/headgate"))')
def gate(
    name: str,
    *,
    hold: Duration | None = None,
    delay: Duration | None = None,
    rate: float | None = None,
    control: str | os.PathLike[str] | None = None,
    keep: str | Sequence[str] | None = None,
    policy: Policy | None = None,
    controller: ControllerConfig | None = None,
    arrival: str | None = None,
    identity: str | Sequence[str] | None = None,
    mode: str = "shed",
    min_keep: float = 0.01,
    inside: float = 0.95,
    first_rows: float = FIRST_ROWS,
    on_failure: str = "open",
    start: float = 1.0,
    retention: Duration = RETENTION_S,
    seed: int | None = None,
    weight: bool = True,
    on_reshape: str = "refuse",
    checkpoint: str | os.PathLike[str] | None = None,
    rescue: Rescue | None = None,
) -> Callable[[DataFrame], DataFrame]:
    """A gate for ``DataFrame.transform``: keeps what the query behind it can process in time.

    How much (one of them):
        hold: the longest a batch may take, for instance ``"2 seconds"``.
        delay: the longest from a row's arrival to the end of its batch; needs `arrival`.
        rate: a fixed share of rows to keep. On a batch DataFrame this is the only one; on a stream
            without `control` it is a plain native filter, which real-time mode takes too.
        none of them: with ``policy=ConceptDriven(accuracy=...)``, what the accuracy needs.

    Which:
        keep: an SQL predicate, or several, the most valuable first; such rows are not shed while
            others remain.
        policy: any other `Policy`; by default every row is worth the same.
        identity: the columns that tell rows apart; by default all. Equal rows share one fate; where
            several rows have one identity, add them up with `hg.together` before you estimate.

    How:
        control: a folder that the driver and all executors share: plans, settings, ledger.
        mode: ``"off"``, ``"monitor"`` (sheds nothing, reports what it would shed) or ``"shed"``.
        min_keep: the least share ever kept.
        inside: the share of batches that should end within the target; the closer to 1, the further
            below it is aimed.
        first_rows: what the very first batch keeps at most for each second of the target, while nothing
            is known of what rows cost: a topic's whole backlog would take an hour. ``math.inf`` for no
            bound.
        on_failure: ``"open"`` keeps all when the control folder or loop is gone, ``"closed"`` keeps
            `min_keep` (in the mode ``"shed"``). The query goes on either way.
        start: keep rate of the very first batch, whatever its size.
        retention: how long the ledger keeps records, for instance ``"30 days"``; by default 7 days, as
            Kafka keeps its data. ``"forever"`` keeps all. Sums over all batches stay.
        seed: another seed than the one made from the name.
        weight: False adds no column, so that equal rows of different batches stay equal
            (``dropDuplicates()``, ``distinct()``); estimates need it.
        on_reshape: a batch that began under another identity, seed or keep and runs again:
            ``"refuse"`` ends the query with `ShapeChanged`, ``"accept"`` judges and records it anew.
        checkpoint: the query's checkpoint, where it is not found by itself (over Connect, unless it is
            in the session's default place): how many rows a batch has stands there before it runs.
        rescue: ``hg.Rescue(sink="files")`` runs a batch that failed at every restart with fewer rows,
            a subset of those that it would have kept; only for sinks of which a failed attempt leaves
            nothing.

    The result has one more column, ``_weight``: 1 / keep rate.
    """
    check_gate_name(name)
    if policy is not None and not isinstance(policy, Policy):
        raise BadArgument(
            f"policy={policy!r}: give hg.Uniform(), hg.ConceptDriven(...), hg.GroupRates(...), "
            "hg.ValueClasses(...), or a Policy of your own"
        )
    alone = hold is None and delay is None and rate is None
    if alone and policy is not None and policy.on_its_own() is not None:
        # The policy says how much: of a whole budget it takes what it needs.
        rate, policy = 1.0, policy.on_its_own()
    settings = GateSettings(hold, delay, rate, mode, min_keep, on_failure, retention, inside, first_rows)
    check_rate(start, "start")
    if not isinstance(weight, bool):
        raise BadArgument(f"weight={weight!r}: True adds the column {WEIGHT!r}, False adds none")
    if on_reshape not in ("refuse", "accept"):
        raise BadArgument(f"on_reshape={on_reshape!r}: give 'refuse' or 'accept'")
    if rescue is not None and not isinstance(rescue, Rescue):
        raise BadArgument(
            f"rescue={rescue!r}: give hg.Rescue(sink=...), which says for which sink it is safe"
        )
    if keep is not None and policy is not None:
        raise BadArgument("give keep= or policy=, not both: keep= is a policy (ValueClasses)")
    if keep is not None:
        policy = ValueClasses((keep,) if isinstance(keep, str) else tuple(keep))
    if delay is not None and arrival is None:
        raise BadArgument(
            f"delay={delay!r} needs arrival=, the timestamp column that says when a row arrived"
        )
    if control is None and rate is None:
        raise BadArgument(
            "hold= and delay= need control=, a folder shared by the driver and all executors: "
            "the plans, the settings and the ledger live there"
        )
    build = Gate(
        name=name,
        settings=settings,
        control=None if control is None else open_control_folder(control),
        policy=policy or Uniform(),
        controller=controller,
        arrival=arrival,
        identity=identity_of(identity),
        start=start,
        seed=seed_of(name, seed),
        weight=weight,
        on_reshape=on_reshape,
        checkpoint=None if checkpoint is None else check_checkpoint(checkpoint),
        rescue=rescue,
    )
    return ForTransform(build.apply, f"hg.gate({name!r}, ...)")
