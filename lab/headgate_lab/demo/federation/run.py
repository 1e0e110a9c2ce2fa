"""Runs the federation: a coordinator, a process for each site, and a turn for each kind of shedding."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headgate.errors import BadArgument, HeadgateError
from headgate.sites.shedders import SHEDDERS
from headgate.store.folder import read_json, write_json
from headgate_lab.demo.federation.outcome import Outcome, read_outcome
from headgate_lab.demo.federation.plan import Federation

__all__ = ["FederationFailed", "Run", "Watcher"]

#: A site's process.
_SITE = "headgate_lab.demo.federation.site"
#: How long three Sparks may take to start on a slow machine.
_START_S = 240.0
#: How long a site may take to stop its streams.
_STOP_S = 180.0

#: Cheap micro-batches: twelve streams share two cores.
_SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "5",
    # Three Sparks that live for minutes: the second compiler would cost more than it brings.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.streaming.fileSink.log.cleanupDelay": "60000",
}


class FederationFailed(HeadgateError):
    """A site or the coordinator of the demo ended before its time."""


class Watcher(Protocol):
    """Whoever is told how far it is."""

    def note(self, text: str) -> None:
        """Show a line about what happens now."""

    def turn(self, shedding: str, seconds: float) -> None:
        """A turn begins, and lasts so long."""

    def at(self, seconds: float) -> None:
        """So much of it is over."""


@dataclass(frozen=True)
class Run:
    """What to run, and where."""

    plan: Federation
    folder: Path
    sheddings: Sequence[str] = ("random", "balance-sic", "mirror")
    seconds: float = 260.0
    #: Before the turns, for compiling and for starting workers; nothing of it counts.
    warm_up_s: float = 60.0
    #: What a turn's figures leave out at its beginning.
    settle_s: float = 150.0
    #: Kafka's servers for the links; None for files.
    kafka: str | None = None
    memory: str = "1g"

    def __post_init__(self) -> None:
        unknown = [name for name in self.sheddings if name not in SHEDDERS]
        if unknown or not self.sheddings:
            raise BadArgument(f"shedding {', '.join(unknown)!r}: some of {', '.join(SHEDDERS)}")
        if not self.seconds > self.settle_s:
            raise BadArgument(
                f"{self.seconds:g} seconds: a turn takes more than the {self.settle_s:g} that it needs "
                "to settle"
            )

    def run(self, watcher: Watcher) -> dict[str, Outcome]:
        """The outcome of each turn, by shedding."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(
            self.folder / "plan.json",
            {"plan": self.plan.to_json(), "memory": self.memory, "settings": self._settings()},
        )
        watcher.note(f"starting {len(self.plan.sites)} sites, each with a Spark of its own ...")
        found: dict[str, Outcome] = {}
        with self._sites() as sites:
            self._wait(sites, "ready/{}.json", _START_S)
            turns = [("mirror", self.warm_up_s), *((name, self.seconds) for name in self.sheddings)]
            for number, (shedding, seconds) in enumerate(turns):
                watcher.turn("warming up" if number == 0 else shedding, seconds)
                folder = self._turn(number, shedding, seconds, sites, watcher)
                if number:
                    found[shedding] = read_outcome(self.plan, folder, shedding, self.settle_s)
            write_json(self.folder / "turns" / f"{len(turns)}.json", {"last": True})
            self._ended(sites)
        return found

    def _settings(self) -> dict[str, str]:
        if self.kafka is None:
            return dict(_SETTINGS)
        from headgate.testing.broker import connector_jars

        jars, why = connector_jars()
        if not jars:
            raise FederationFailed(f"links over Kafka need Spark's connector: {why}")
        return {**_SETTINGS, "spark.jars": ",".join(jars)}

    def _turn(
        self,
        number: int,
        shedding: str,
        seconds: float,
        sites: dict[str, subprocess.Popen[bytes]],
        watcher: Watcher,
    ) -> Path:
        folder = self.folder / f"{number}-{shedding}"
        with self._coordinator(folder) as url:
            write_json(
                self.folder / "turns" / f"{number}.json",
                {
                    "number": number,
                    "shedding": shedding,
                    "started": str(folder / "started"),
                    "over": str(folder / "over.json"),
                    "folder": str(folder),
                    "coordinator": url,
                    "kafka": self.kafka,
                },
            )
            self._wait(sites, f"{folder.name}/started/{{}}.json", _START_S)
            begun = time.monotonic()
            while (passed := time.monotonic() - begun) < seconds:
                time.sleep(0.5)
                watcher.at(passed)
                self._check(sites)
            write_json(folder / "over.json", {})
            self._wait(sites, f"done/{number}-{{}}.json", _STOP_S)
        return folder

    @contextlib.contextmanager
    def _coordinator(self, folder: Path) -> Iterator[str]:
        """A `headgate coordinator` on a free port of this machine."""
        folder.mkdir(parents=True, exist_ok=True)
        command = [
            sys.executable, "-m", "headgate", "coordinator", "--open", "--port", "0",
            "--state", str(folder / "coordinator"),
        ]  # fmt: skip
        with (
            open(folder / "coordinator.log", "wb") as log,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log) as process,
        ):
            try:
                assert process.stdout is not None
                url = process.stdout.readline().decode().strip()
                if not url.startswith("http"):
                    said = (folder / "coordinator.log").read_text(errors="replace").strip()
                    raise FederationFailed(f"the coordinator did not start: {said or 'it said nothing'}")
                yield url
            finally:
                _stop(process)

    @contextlib.contextmanager
    def _sites(self) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
        started: dict[str, subprocess.Popen[bytes]] = {}
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        try:
            for name in self.plan.sites:
                with open(self.folder / f"{name}.log", "wb") as log:
                    started[name] = subprocess.Popen(
                        [sys.executable, "-m", _SITE, str(self.folder), name],
                        stdout=log, stderr=log, env=environment,
                    )  # fmt: skip
            yield started
        finally:
            for process in started.values():
                _stop(process)

    def _wait(self, sites: dict[str, subprocess.Popen[bytes]], pattern: str, seconds: float) -> None:
        until = time.monotonic() + seconds
        while missing := [n for n in sites if not (self.folder / pattern.format(n)).exists()]:
            self._check(sites)
            if time.monotonic() > until:
                raise FederationFailed(
                    f"{', '.join(missing)}: no answer within {seconds:g} seconds; see the logs in "
                    f"{self.folder}"
                )
            time.sleep(0.2)

    def _check(self, sites: dict[str, subprocess.Popen[bytes]]) -> None:
        for name, process in sites.items():
            failed = read_json(self.folder / "failed" / f"{name}.json")
            if failed is not None or process.poll() is not None:
                said = failed["said"] if failed else f"exit code {process.poll()}"
                raise FederationFailed(f"site {name} ended: {said}; see {self.folder / name}.log")

    def _ended(self, sites: dict[str, subprocess.Popen[bytes]]) -> None:
        for process in sites.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=20.0)


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=10.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
