"""`hg.doctor`: look at the driver, the executors, the store and the settings, in under a minute."""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from pyspark.sql import SparkSession

import headgate
from headgate.durations import Duration, seconds
from headgate.errors import BadArgument, HeadgateError
from headgate.spark.doctor.configuration import look_at_settings
from headgate.spark.doctor.executors import Reached, reach_executors
from headgate.spark.doctor.findings import Diagnosis, Finding
from headgate.spark.doctor.machines import look_at_executors
from headgate.spark.doctor.probe import versions
from headgate.spark.doctor.store_trial import raced, timed
from headgate.spark.session import check_session, is_connect
from headgate.store.folder import open_control_folder
from headgate.store.places.place import Place, control_place
from headgate.store.places.stores import store_of

__all__ = ["doctor"]

#: A store that takes longer than this for a request makes each batch wait twice as long.
_SLOW_MS = 50.0


def doctor(
    spark: SparkSession, control: str | os.PathLike[str], *, within: Duration = "45 seconds"
) -> Diagnosis:
    """Can this session run Headgate with this control store, and what should be changed first?

    Runs a small job on the executors and reports versions on the driver and on each executor, whether
    executors can import Headgate and use the store, whether the store refuses to create a name twice,
    how quickly it answers, how far clocks are apart, and settings that are worth changing.

    ::

        found = hg.doctor(spark, "s3://bucket/headgate")
        print(found)                  # ok, warning or problem, and the next step
        assert found.ok               # nothing keeps gates from working

    Args:
        spark: the session that gates will run in, classic or Connect.
        control: what gates will get as ``control=``: a folder that is shared, or an address.
        within: how long executors are waited for; without an answer that is a problem, too.

    It writes below a name of its own in the control store, and removes that again.
    """
    if not hasattr(spark, "range"):
        raise BadArgument(f"spark={spark!r}: give the SparkSession that gates will run in")
    within_s = seconds(within, "within")
    check_session(spark)
    began, place = time.monotonic(), control_place(control)
    found = _Looked(spark, place, within_s)
    findings = list(found.findings())
    return Diagnosis(
        control=str(place),
        master=_master(spark),
        findings=findings,
        driver=found.driver,
        executors=found.reached.executors,
        store_ms=found.store_ms,
        seconds=round(time.monotonic() - began, 2),
    )


class _Looked:
    """What was looked at so far; each step needs what the one before it found."""

    def __init__(self, spark: SparkSession, place: Place, within_s: float) -> None:
        self.spark, self.place, self.within_s = spark, place, within_s
        self.reached = Reached()
        self.store_ms: dict[str, float] = {}
        self.driver: dict[str, Any] = {
            "host": socket.gethostname(),
            "headgate": headgate.__version__,
            "java": _java(spark),
            "versions": {**versions(), "pyspark": spark.version},
        }

    def findings(self) -> Iterator[Finding]:
        """All of them, as they are found."""
        names = ", ".join(f"{k} {v}" for k, v in self.driver["versions"].items() if v)
        yield Finding("driver", "ok", f"Headgate {headgate.__version__}; {names}.")
        trial = f".doctor-{uuid.uuid4().hex[:12]}"
        try:
            yield from self._store(trial)
            yield from self._executors(trial)
        finally:
            with suppress(OSError, HeadgateError):
                store_of(self.place).delete_all(self.place / trial)
        local = _master(self.spark).startswith("local")
        yield from look_at_settings(lambda name: self.spark.conf.get(name, None), local=local)

    def _store(self, trial: str) -> Iterator[Finding]:
        where = self.place / trial
        try:
            open_control_folder(self.place)
            store_of(where).put(where / "driver", json.dumps(trial).encode())
            self.store_ms = timed(where)
            wrong, races = raced(where)
        except (OSError, HeadgateError) as error:
            yield Finding(
                "store",
                "problem",
                f"The driver cannot use the control store: {error}",
                "Give a folder that the driver and all executors can write, or an address in an object "
                "store with region and credentials in the environment (docs/control-store.md).",
            )
            return
        yield Finding("store", "ok", f"The driver can create, get, list and delete in {self.place}.")
        if wrong:
            yield Finding(
                "atomic create",
                "problem",
                f"In {wrong} of {races} races more than one of several creators of a name won: tasks "
                "that race for a batch's plan would keep different rows.",
                "Use a store whose conditional put is atomic (Amazon S3 has it), or a folder.",
            )
        else:
            yield Finding(
                "atomic create",
                "ok",
                f"Of several creators of a name one won, in each of {races} races.",
            )
        yield self._latency()

    def _latency(self) -> Finding:
        slowest = max(self.store_ms["create"], self.store_ms["get"])
        told = ", ".join(f"{name} {ms:g} ms" for name, ms in self.store_ms.items())
        if slowest <= _SLOW_MS:
            return Finding("store latency", "ok", f"Medians on the driver: {told}.")
        return Finding(
            "store latency",
            "warning",
            f"Medians on the driver: {told}. Each batch waits for two requests before its first row.",
            "Put the control store in the region, or on the network, of the cluster.",
        )

    def _executors(self, trial: str) -> Iterator[Finding]:
        races = [f"race-{number}" for number in range(2)]
        self.reached = reach_executors(self.spark, str(self.place), trial, races, self.within_s)
        with_store = bool(self.store_ms)
        yield from look_at_executors(self.reached, self.driver, self.place, with_store=with_store)


def _master(spark: SparkSession) -> str:
    if is_connect(spark):
        return "connect"
    return str(spark.sparkContext.master)


def _java(spark: SparkSession) -> str | None:
    if is_connect(spark):
        return None
    try:
        jvm: Any = spark.sparkContext._jvm
        return str(jvm.java.lang.System.getProperty("java.version"))
    except Exception:  # another Spark may not let us ask
        return None
