"""Settings of a session that are worth changing before gates run in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from headgate.spark.doctor.findings import Finding

__all__ = ["look_at_settings", "shown_location"]

#: What a session's setting is; None where it has none.
Conf = Callable[[str], str | None]

_SOCKETS = "spark.python.unix.domain.socket.enabled"
_REUSE = "spark.python.worker.reuse"
_CHECKPOINTS = "spark.sql.streaming.checkpointLocation"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_FAILURES = "spark.task.maxFailures"


def look_at_settings(conf: Conf, *, local: bool) -> Iterator[Finding]:
    """One finding for each setting; `local` is a session whose executors are its driver.

    >>> from headgate.spark.doctor.configuration import look_at_settings
    >>> [f.level for f in look_at_settings({"spark.python.worker.reuse": "false"}.get, local=True)]
    ['warning', 'warning', 'ok', 'warning', 'ok', 'ok']
    """
    yield _sockets(conf)
    yield _reuse(conf)
    yield _speculation(conf)
    yield _state_store(conf)
    yield _checkpoints(conf, local)
    yield _retries(conf, local)


def _on(value: str | None, default: bool) -> bool:
    return default if value is None else value.strip().lower() == "true"


def _sockets(conf: Conf) -> Finding:
    if _on(conf(_SOCKETS), False):
        return Finding("sockets", "ok", "Python workers answer over socket files.")
    return Finding(
        "sockets",
        "warning",
        "Python workers answer over TCP: each batch behind a gate waits some 40 ms longer than need be.",
        f"Build the session with {_SOCKETS}=true.",
    )


def _reuse(conf: Conf) -> Finding:
    if _on(conf(_REUSE), True):
        return Finding("worker reuse", "ok", "Python workers serve one batch after the other.")
    return Finding(
        "worker reuse",
        "warning",
        "Each task starts a Python worker of its own, which takes about as long as a small batch.",
        f"Build the session with {_REUSE}=true, which is Spark's default.",
    )


def _speculation(conf: Conf) -> Finding:
    if not _on(conf("spark.speculation"), False):
        return Finding("speculation", "ok", "Slow tasks are not started a second time.")
    return Finding(
        "speculation",
        "ok",
        "Slow tasks are started a second time: both attempts meet the same plan, and a function behind "
        "hg.guard is called twice for such rows.",
    )


def _state_store(conf: Conf) -> Finding:
    if "RocksDB" in (conf(_PROVIDER) or ""):
        return Finding("state store", "ok", "Streaming state is kept in RocksDB, which hg.join needs.")
    return Finding(
        "state store",
        "warning",
        "Streaming state is not kept in RocksDB: hg.join is refused in this session, and nothing else.",
        f"Only for hg.join: set {_PROVIDER}={_ROCKSDB} before the call.",
    )


def _checkpoints(conf: Conf, local: bool) -> Finding:
    location = shown_location(conf(_CHECKPOINTS) or "")
    if not location:
        return Finding("checkpoints", "ok", "Each query names its own checkpoint location.")
    if not local and urlsplit(location).scheme in ("", "file"):
        return Finding(
            "checkpoints",
            "warning",
            f"Checkpoints are below {location!r}, a folder: unless it is on a volume that the driver "
            "and all executors share, state is lost and a driver on another machine begins anew.",
            f"Set {_CHECKPOINTS} to an address that all of them reach, such as s3a://bucket/checkpoints.",
        )
    return Finding("checkpoints", "ok", f"Checkpoints are below {location!r}.")


def shown_location(location: str) -> str:
    """An address as it may be printed: without a password, and without what is behind a '?' or '#'.

    >>> shown_location("s3a://key:secret@bucket/x?sig=y"), shown_location("abfss://box@host/x")
    ('s3a://...@bucket/x', 'abfss://box@host/x')
    """
    if "://" not in location:
        return location
    return re.sub(r"//[^/@]*:[^/@]*@", "//...@", re.split(r"[?#]", location, maxsplit=1)[0])


def _retries(conf: Conf, local: bool) -> Finding:
    most = int(conf(_FAILURES) or 4)
    if local or most > 1:
        return Finding("task retries", "ok", "A task that is lost with its executor is run again.")
    return Finding(
        "task retries",
        "warning",
        f"{_FAILURES}={most}: a query ends with the first task that is lost.",
        f"Leave {_FAILURES} at Spark's default of 4.",
    )
