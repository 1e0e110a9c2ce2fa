"""Where a rescue is refused: at the gate's call, and at the first batch of a query that it may harm.

What a query writes to is not known where its gate is built, so people say it (`Rescue.sink`), and
whoever pins a plan compares that with what the driver has seen since the query started. Over Connect
nobody sees it, and people's word holds.
"""

from __future__ import annotations

import time

from headgate.core.rescue import Rescue, kind_of_sink
from headgate.errors import BadArgument, RescueRefused
from headgate.policies import Policy
from headgate.spark.checkpoint import checkpoint_place, state_kept_apart
from headgate.store.folder import is_used
from headgate.store.places.place import Place
from headgate.store.query_facts import told_of

__all__ = [
    "STATE_FORMAT",
    "refuse_frame",
    "refuse_run",
    "refuse_sink",
    "refuse_state",
    "refuse_unseen_checkpoint",
]

#: Spark's setting for the format of the state of new checkpoints.
STATE_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
#: How long a run's first batch waits for the driver's word of what it writes to, which takes some
#: milliseconds where the driver has anything to do besides. Each look is a request where the control
#: store is in an object store, so that they come less and less often.
_TOLD_WITHIN_S, _STEP_S, _STEP_AT_MOST_S = 5.0, 0.01, 0.25


def refuse_frame(gate: str, streaming: bool, control: bool, policy: Policy) -> None:
    """At the call: only a stream's batch runs again, and only rates can be lowered without a count."""
    if not streaming or not control:
        what = "has no control=" if streaming else "is in front of a batch DataFrame"
        raise BadArgument(
            f"gate {gate!r} {what}, and rescue= is for a stream with control=: the attempts at a batch "
            "are counted there. Put the gate in front of the stream and give control=, or leave "
            "rescue= out"
        )
    if policy.drawing is not None:
        raise BadArgument(
            f"gate {gate!r}: rescue= lowers the rates of a plan, and {type(policy).__name__} draws rows "
            "by the groups of their own batch, which are counted only as it runs: take another policy, "
            "or leave rescue= out"
        )


def refuse_unseen_checkpoint(gate: str, checkpoint: str | None, checkpoints: str | None) -> None:
    """At the call over Connect, where no driver can say where a query's checkpoint is.

    `checkpoint` is people's word, `checkpoints` the session's place for those of which nobody says it.
    """
    given = checkpoint if checkpoint is not None else checkpoints
    if given is not None and checkpoint_place(given) is not None:
        return
    why = "nobody says where that is" if given is None else f"no worker can read {given!r}"
    raise BadArgument(
        f"gate {gate!r}: rescue= must see in the query's checkpoint whether it keeps state, and over "
        f"Connect {why}: give checkpoint= what the query gets as checkpointLocation, a folder or an "
        "address in an object store, or leave rescue= out"
    )


def refuse_run(gate: str, query: str, batch: int, run: str) -> None:
    """In a task: one that cannot tell its run from others could not tell a new attempt from its own."""
    if not run:
        raise RescueRefused(
            f"gate {gate!r}: rescue= must know the run of query {query}, and a job of its batch {batch} "
            "bears another name: leave setJobGroup out of foreachBatch, or leave rescue= out"
        )


def refuse_sink(gate: str, rescue: Rescue, control: Place, query: str, run: str, *, wait: bool) -> bool:
    """In a task: of another sink than people said, what a failed attempt wrote might stay.

    With `wait`: the driver knows it, and a run's first batch may be sooner than its word. False where
    that does not come: nothing is known of the query then, and nothing may be done.
    """
    until, step_s = time.monotonic() + (_TOLD_WITHIN_S if wait else 0.0), _STEP_S
    while not (facts := told_of(control, query, run)) and time.monotonic() < until:
        time.sleep(step_s)
        step_s = min(2 * step_s, _STEP_AT_MOST_S)
    told = facts.get("sink")
    if told is None or kind_of_sink(told) == rescue.sink:
        return bool(facts) or not wait
    raise RescueRefused(
        f"gate {gate!r} has rescue=Rescue(sink={rescue.sink!r}), and query {query} writes to {told}: a "
        "batch that runs again may keep fewer rows only where nothing of the attempt before is left. "
        "Name the sink that it is, if Rescue takes it, or leave rescue= out"
    )


def refuse_state(
    gate: str, checkpoint: Place | None, query: str, batch: int, *, kept_apart: bool
) -> None:
    """In a task: state that a failed attempt has written may stay, under the name of the batch.

    Spark writes a batch's state as its tasks end, and counts on an attempt that runs again to write the
    same. It asks for what is there to be replaced, and goes on where a file system does not do that
    (seen on 4.3.0 through Hadoop's plain `FileSystem`). Only state of Spark's second format has a name
    for each attempt: `kept_apart` says that new checkpoints have it, and what was committed tells of
    old ones. A query with state has a folder for it in its checkpoint from before its first task.
    """
    if checkpoint is None:
        raise RescueRefused(
            f"gate {gate!r}: rescue= must see in the checkpoint of query {query} whether it keeps "
            "state, and this process cannot read that: give checkpoint=, a folder or an address in an "
            "object store, or leave rescue= out"
        )
    if not is_used(checkpoint / "state") or (kept_apart and state_kept_apart(checkpoint, batch)):
        return
    raise RescueRefused(
        f"gate {gate!r}: query {query} keeps state (an aggregate, dropDuplicates, a stream join), and a "
        "batch that runs again with fewer rows may leave there what the attempt before has written. A "
        f"new checkpoint with RocksDB and {STATE_FORMAT}=2 keeps attempts apart; or leave rescue= out"
    )
