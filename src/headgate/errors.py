"""What can go wrong, as a tree.

::

    HeadgateError
    ├── BadArgument          (also ValueError)    a value given at a call is not legal
    │   ├── NamedTwice                            two gates of one name in one query
    │   ├── UnknownColumn                         a column that the DataFrame does not have
    │   └── WrongKindOfFrame                      a stream where a batch is needed, or the reverse
    ├── MissingExtra         (also ImportError)   a feature needs a package that is not installed
    ├── UnsupportedSpark                          this Spark cannot run Headgate
    ├── ControlFolderError   (also OSError)       the control folder cannot be read or written
    │   └── DamagedFile                           a file in it makes no sense; the others can be read
    ├── OwnedElsewhere                            another living process steers this gate in this query
    ├── CoordinatorGone                           a coordinator does not answer
    ├── CoordinatorRefused                        a coordinator answers, and says no
    ├── WorkerError                               Python workers cannot do what is asked
    ├── ShapeChanged                              a batch began under another identity, seed or keep
    ├── RescueRefused                             the query's sink is none that a rescue is safe for
    ├── NotAsRecorded                             a batch that was read again is not what was recorded
    ├── GuardedFunctionError                      a guarded function failed on a row
    ├── JobProblems                               a job file cannot run as it is (headgate.job.problems)
    ├── ArtifactsUnavailable                      jars cannot be had (headgate.testing.artifacts)
    ├── ServerFailed                              a server failed (headgate.testing.tied_server)
    │   └── DriverFailed                          a driver failed (headgate.testing.cluster)
    ├── BrokerFailed                              a test broker cannot serve (headgate.testing.broker)
    ├── DeliveryFailed                            test messages were not taken (headgate.testing.bursts)
    └── SnapshotError        (also ValueError)    stored bytes of another version, shape or seed

Every message states the value given, what is legal, and the next step.
"""

from __future__ import annotations

import collections.abc

__all__ = [
    "BadArgument",
    "ControlFolderError",
    "CoordinatorGone",
    "CoordinatorRefused",
    "DamagedFile",
    "GuardedFunctionError",
    "HeadgateError",
    "MissingExtra",
    "NamedTwice",
    "NotAsRecorded",
    "OwnedElsewhere",
    "RescueRefused",
    "ShapeChanged",
    "SnapshotError",
    "UnknownColumn",
    "UnsupportedSpark",
    "WorkerError",
    "WrongKindOfFrame",
]


class HeadgateError(Exception):
    """Base of every error that Headgate raises on purpose."""


class BadArgument(HeadgateError, ValueError):
    """A value given at a call is not legal."""


class NamedTwice(BadArgument):
    """Two gates of one name in one query: they would share plans, counts and records."""


class UnknownColumn(BadArgument):
    """A column named at a call is not in the DataFrame."""


class WrongKindOfFrame(BadArgument):
    """A streaming DataFrame where a batch one is needed, or the reverse."""


class MissingExtra(HeadgateError, ImportError):
    """A feature needs a package that is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"this needs the package {package!r}, which is not installed: "
            f"pip install 'headgate[{extra}]'"
        )


class UnsupportedSpark(HeadgateError):
    """This Spark cannot run Headgate."""


class ControlFolderError(HeadgateError, OSError):
    """The control folder cannot be read or written."""


class DamagedFile(ControlFolderError):
    """A file in the control folder was cut off, or changed by hand; the others can be read."""


class OwnedElsewhere(HeadgateError):
    """Another process steers this gate in this query, and lives."""


class CoordinatorGone(HeadgateError):
    """A coordinator does not answer, or answers what is no answer: go on alone, and try again."""


class CoordinatorRefused(HeadgateError):
    """A coordinator says no, and why; nothing of what was sent has had an effect.

    `status` is the HTTP status, `code` one word for programs (``site-taken``, ``replayed``, ...), and
    `retry_after_s` the wait that was asked for, if one was.
    """

    def __init__(
        self,
        reason: str,
        *,
        status: int = 400,
        code: str = "bad-report",
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(reason)
        self.status, self.code, self.retry_after_s = status, code, retry_after_s


class WorkerError(HeadgateError):
    """Spark's Python workers cannot serve the plan, or lack what a job needs."""


class ShapeChanged(HeadgateError):
    """A batch that runs again began under another identity, seed or keep than the gate has now."""


class RescueRefused(HeadgateError):
    """A gate was told to rescue batches, and the query writes to another sink than it was told."""


class NotAsRecorded(HeadgateError):
    """Batches that were read again are not what the ledger recorded; nothing was handed on.

    `batches` says why, by batch.
    """

    def __init__(self, message: str, batches: collections.abc.Mapping[int, str]) -> None:
        super().__init__(message)
        self.batches = dict(batches)


class GuardedFunctionError(HeadgateError):
    """A person's function raised, or returned what it may not: a guard's, or a join's predicate."""


class SnapshotError(HeadgateError, ValueError):
    """Stored bytes of another version, shape or seed."""
