"""The jobs that Spark ran for one micro-batch, whatever a person's code calls them.

A stream's jobs bear its run as their job group. Code in ``foreachBatch`` may set a group of its own
(``setJobGroup``), and what it runs from then on is not in the stream's any more. But Spark runs a
batch as one execution, and everything inside it is an execution below that one (its *root*): nobody
sets that. The root's description names run and batch; it is written before a person's code begins.

The store that knows this hears of a batch beside whoever asks. When it has heard of the root's end, it
has heard of all jobs in it.
"""

from __future__ import annotations

import re
import time
from typing import Any

__all__ = ["jobs_of_batch"]

#: How a description says which batch an execution is for.
_RUN, _BATCH = re.compile(r"\brunId = ([0-9a-f-]{36})"), re.compile(r"\bbatch = (\d+)")
#: Executions that are looked at, latest first: a batch with more of them is taken for unknown.
_MOST = 400
#: How long to wait for the end of a batch that has been reported already, in steps.
_WAITS, _WAIT_S = 10, 0.02


def jobs_of_batch(session: Any, run: str, batch: int) -> set[int] | None:
    """The numbers of the batch's jobs; None where Spark does not know the batch, or not yet its end.

    `session` is the JVM's.
    """
    for _ in range(_WAITS):
        found, ended = _look(session.sharedState().statusStore(), run, batch)
        if ended:
            return found
        time.sleep(_WAIT_S)
    return None


def _look(store: Any, run: str, batch: int) -> tuple[set[int], bool]:
    """What the store knows of the batch's jobs now, and whether the batch has ended."""
    count = int(store.executionsCount())
    latest = store.executionsList(max(0, count - _MOST), _MOST)
    below: dict[int, set[int]] = {}
    for place in range(latest.length() - 1, -1, -1):
        one = latest.apply(place)
        number, root = int(one.executionId()), int(one.rootExecutionId())
        jobs = {int(n) for n in str(one.jobs().keys().mkString(",")).split(",") if n}
        if number != root:
            below.setdefault(root, set()).update(jobs)
            continue
        about = _about(str(one.description()))
        if about == (run, batch):  # what is below it came later, and has been seen
            return jobs | below.get(number, set()), bool(one.completionTime().isDefined())
        if about is not None and about[0] == run and about[1] < batch:
            break
    return set(), False


def _about(description: str) -> tuple[str, int] | None:
    """The run and the batch that a root execution is for.

    >>> _about("rides<br/>id = 1<br/>runId = 6c1d6d7e-0000-4000-8000-000000000001<br/>batch = 12")
    ('6c1d6d7e-0000-4000-8000-000000000001', 12)
    >>> _about("count at report.py:12") is None
    True
    """
    run, batch = _RUN.search(description), _BATCH.search(description)
    return None if run is None or batch is None else (run[1], int(batch[1]))
