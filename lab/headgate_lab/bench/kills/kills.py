"""SIGKILL to a driver under load, again and again; then what was lost, doubled or kept otherwise.

A driver runs a gate, a filter by hand, and in turn a guard, a join or a site's gate, over files that
pile up faster than they are read. It is killed at an instant that a seed chooses, and started again from
its checkpoints. A gate's rate changes between attempts, so a replay that asked for today's plan instead
of the pinned one would keep other rows. Half of the instants are counted from the start, so that they
fall into starting, planning and pinning; the others from where a query's batch has seen its rows, so
that they fall before and after its sink is written and around its commit. Half of these come only after
a first commit, which tells how long recovery took. In every fourth attempt Python workers are killed
before.

With executors the drivers run on a cluster of processes, and before each is killed some of its executors
are: each time a batch has seen its rows, and a random moment after it.

The folder has all that a run needs to go on, so a long soak may be done in parts; by one process at a
time, because two would each write input that the other does not know of.
"""

from __future__ import annotations

import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.progress import Progress

from headgate.errors import HeadgateError
from headgate.store.settings_file import SettingsFile
from headgate.store.single_process_lock import single_process_lock
from headgate.testing.faults.victim import Victim
from headgate_lab.bench.kills.child import PAUSE_S
from headgate_lab.bench.kills.executors import Executors
from headgate_lab.bench.kills.jobs import ROWS, add_input, matching_pairs
from headgate_lab.bench.kills.tally import Tally, books_of, read_sunk, tally
from headgate_lab.bench.progress import bench_progress

__all__ = ["Soak", "SoakFailed", "run"]

#: Run in every attempt, and one of them in turn.
_ALWAYS, _IN_TURN = ("gate", "rand"), ("guard", "join", "site")
#: Files that wait at least; seconds after the start, and after a batch has seen its rows, within which a
#: kill comes.
_AHEAD, _EARLY_S, _LATER_S = 12, 6.0, 1.5 * PAUSE_S
#: Executors of one driver that are killed at most, and within how many seconds after a batch was seen.
_MOST_OF_A_DRIVER, _EXECUTOR_LATER_S = 4, 2.0
#: Between two looks whether there is enough to read: fewer than a driver takes for so many batches.
_FEED_S = 1.0
#: Seconds that a driver has to start, and to its first commit.
_START_S, _WAIT_S = 420.0, 180.0


class SoakFailed(HeadgateError):
    """A driver that nobody killed did not end its work."""


@dataclass
class _State:
    """What is known between two runs over one folder."""

    seed: int
    attempts: int = 0
    kills: int = 0
    worker_kills: int = 0
    executor_kills: int = 0
    files: int = 0
    #: Seconds from the start of a process to its session; from a kill to the next commit of the gate.
    started_s: list[float] = field(default_factory=list)
    recovered_s: list[float] = field(default_factory=list)
    #: From the kill of an executor to the next commit of the gate, by the same driver.
    went_on_s: list[float] = field(default_factory=list)
    #: What drivers said that ended by themselves.
    ended: list[str] = field(default_factory=list)
    killed: dict[str, int] = field(default_factory=dict)


def run(
    *,
    kills: int,
    seed: int = 1,
    folder: Path | None = None,
    minutes: float | None = None,
    executors: bool = False,
) -> dict[str, Any]:
    """Kill so many times, and tell; with `minutes` perhaps a part of it, and the next call goes on."""
    own = folder is None
    place = folder or Path(tempfile.mkdtemp(prefix="headgate-kills-"))
    try:
        with ExitStack() as block:
            refusal = f"another process is at the soak in {place}: wait for it, or give another --folder"
            block.enter_context(single_process_lock(place / "lock", refusal))
            progress = block.enter_context(bench_progress())
            cluster = None
            if executors:
                at = Path(tempfile.mkdtemp(prefix="headgate-kills-cluster-"))
                block.callback(shutil.rmtree, at, ignore_errors=True)
                cluster = block.enter_context(Executors(at))
            soak = Soak(place, seed, cluster)
            until = None if minutes is None else time.monotonic() + 60.0 * minutes
            if not soak.kill(kills, progress, until):
                return soak.so_far(kills)
            return soak.finish(progress)
    finally:
        if own:
            shutil.rmtree(place, ignore_errors=True)


class Soak:
    """One folder of input, checkpoints, control store and sinks, and the drivers that work on it."""

    def __init__(self, folder: Path, seed: int = 1, cluster: Executors | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._log = folder, folder / "log"
        self._note = folder / "soak.json"
        self.state = _State(seed)
        if self._note.exists():
            self.state = _State(**json.loads(self._note.read_text()))
        self._cluster = cluster
        self._killed_at: float | None = None
        self._fed_at = -_FEED_S

    def kill(self, kills: int, progress: Progress, until: float | None = None) -> bool:
        """Go on until there were so many kills, or the time is over; whether there were."""
        task = progress.add_task("kill -9 and restart", total=kills, completed=self.state.kills)
        while self.state.kills < kills:
            if until is not None and time.monotonic() > until:
                return False
            self._attempt()
            progress.update(task, completed=self.state.kills)
            if len(self.state.ended) > 3 + self.state.kills:
                raise SoakFailed(f"drivers end by themselves: {self.state.ended[-1]}")
        return True

    def _attempt(self) -> None:
        state, luck = self.state, random.Random(f"{self.state.seed}/{self.state.attempts}")
        names = (*_ALWAYS, _IN_TURN[state.attempts % len(_IN_TURN)])
        (self.folder / "done").unlink(missing_ok=True)  # a soak may go on after its table
        self._feed()
        before, began = self._commits(), time.monotonic()
        with self._driver(names, "run") as driver:
            when = luck.choice(["early", "early", "seen", "recovered"])
            which = luck.choice([names[0], *names])
            workers_after = luck.uniform(0.0, 3.0) if luck.random() < 0.25 else None
            up = self._until(driver, lambda: self._up() == state.attempts, _START_S)
            if driver.code is None and not up:
                raise SoakFailed(f"a driver had not started after {_START_S:g} s: see {self._log}")
            state.started_s.append(time.monotonic() - began)
            if workers_after is not None:
                self._sleep(driver, workers_after)
                state.worker_kills += driver.kill_workers()
            if self._cluster is not None:
                self._kill_executors(driver, self._cluster, luck)
            recovered = when == "recovered" and self._until(
                driver, lambda: self._commits() > before, _WAIT_S
            )
            if recovered and self._killed_at is not None:
                state.recovered_s.append(time.monotonic() - self._killed_at)
            if when == "early":
                self._sleep(driver, luck.uniform(0.0, _EARLY_S))
            else:
                seen = self._seen(which)
                self._until(driver, lambda: self._seen(which) > seen, _WAIT_S)
                self._sleep(driver, luck.uniform(0.0, _LATER_S))
            if driver.code is None:
                driver.kill()
                state.kills += 1
                for name in names:
                    state.killed[name] = state.killed.get(name, 0) + 1
                self._killed_at = time.monotonic()
                with suppress(HeadgateError):  # of a driver that had not declared it yet
                    SettingsFile(self.folder / "control", "gate").change(
                        rate=luck.choice([0.2, 0.35, 0.5, 0.8])
                    )
            else:
                state.ended.append(self._last_words())
                self._killed_at = None
        shutil.rmtree(self.folder / "spark" / str(state.attempts), ignore_errors=True)
        state.attempts += 1
        self._save()

    def _kill_executors(self, driver: Victim, cluster: Executors, luck: random.Random) -> None:
        for _ in range(luck.randint(1, _MOST_OF_A_DRIVER)):
            seen = self._seen("gate")
            if not self._until(driver, lambda: self._seen("gate") > seen, _WAIT_S):  # noqa: B023
                return
            self._sleep(driver, luck.uniform(0.0, _EXECUTOR_LATER_S))
            killed, commits, at = cluster.kill_one(luck), self._commits(), time.monotonic()
            self.state.executor_kills += killed
            # Twice: what was under way then may have had all its rows.
            if killed and self._until(driver, lambda: self._commits() > commits + 1, _WAIT_S):  # noqa: B023
                self.state.went_on_s.append(time.monotonic() - at)

    def finish(self, progress: Progress) -> dict[str, Any]:
        """Let all queries read to the end; settle, repay, compare."""
        task = progress.add_task("read to the end, repay, compare", total=1)
        self._feed()
        names = (*_ALWAYS, *_IN_TURN)
        for _ in range(3):  # Spark may give up a join's worker on a busy machine
            if (self.folder / "done").exists():
                break
            with self._driver(names, "finish") as driver:
                code = driver.wait(900.0)
            self.state.attempts += 1
            self._save()
            if code == 0:
                break
            self.state.ended.append(self._last_words())
        if not (self.folder / "done").exists():
            raise SoakFailed(f"what was left could not be read to its end: {self.state.ended[-1]}")
        progress.update(task, completed=1)
        return self._result()

    def tallies(self) -> list[Tally]:
        """A line for each query, once all is read."""
        control, ids = self.folder / "control", range(self.state.files * ROWS)
        lines = []
        for name in ("gate", "site"):
            late = json.loads((self.folder / "repaid" / f"{name}.json").read_text())
            sunk, books = read_sunk(self.folder, name), books_of(control, name)
            lines.append(tally(name, ids, sunk, books, repaid=late))
        lines.append(tally("guard", ids, read_sunk(self.folder, "guard"), books_of(control, "guard")))
        books, pairs = books_of(control, "join", pairs=True), matching_pairs(self.folder)
        lines.append(tally("join", pairs, read_sunk(self.folder, "join"), books))
        lines.append(tally("rand", ids, read_sunk(self.folder, "rand"), None))
        return lines

    def _result(self) -> dict[str, Any]:
        state, lines = self.state, self.tallies()
        settled = {
            path.stem: len(json.loads(path.read_text()))
            for path in sorted((self.folder / "unsettled").glob("*.json"))
        }
        table = [{"query": t.query, "kills": state.killed.get(t.query, 0), **t.to_json()} for t in lines]
        context = {
            "tables": {"queries": table},
            "kills": state.kills,
            "worker_kills": state.worker_kills,
            "executor_kills": state.executor_kills,
            "executor_recovery_s": _spread(state.went_on_s),
            "seed": state.seed,
            "settled_by_recount": settled,
            "recovery_s": _spread(state.recovered_s),
            "start_s": _spread(state.started_s),
            "ended_by_themselves": state.ended,
            "remarks": [
                "A join's rows are pairs: all there are, and those found in half the comparisons.",
                "A guard follows the clock: it promises neither the same rows again nor the rest later.",
                f"Seconds from a kill to the gate's next commit: {_spread(state.recovered_s)}; to start "
                f"Python and the JVM: {_spread(state.started_s)}.",
                *(
                    [
                        f"{state.executor_kills} executors were killed besides; until the gate's second "
                        f"commit after that, seconds: {_spread(state.went_on_s)}."
                    ]
                    if state.executor_kills
                    else []
                ),
            ],
        }
        ratios = {f"jaccard_{t.query}": t.jaccard for t in lines}
        return {"bench": "kills", "ratios": ratios, "context": context}

    def so_far(self, kills: int) -> dict[str, Any]:
        """Of a soak that is not over."""
        told = f"{self.state.kills} of {kills} kills so far: run it again with --folder {self.folder}"
        context = {**asdict(self.state), "remarks": [told]}
        return {"bench": "kills", "ratios": {}, "context": context}

    def _driver(self, names: tuple[str, ...], how: str) -> Victim:
        module = [sys.executable, "-m", "headgate_lab.bench.kills.child", str(self.folder)]
        cluster = None if how == "finish" else self._cluster
        master = "local[2,4]" if cluster is None else cluster.master
        return Victim([*module, str(self.state.attempts), ",".join(names), how, master], self._log)

    def _feed(self) -> None:
        """So many files ahead of the query that is furthest that no query ever has nothing to read."""
        if time.monotonic() < self._fed_at + _FEED_S:
            return
        self._fed_at = time.monotonic()
        furthest = max((_latest(at) for at in (self.folder / "seen").glob("*")), default=-1)
        while self.state.files < furthest + 1 + _AHEAD:
            add_input(self.folder, self.state.files, self.state.seed)
            self.state.files += 1
            self._save()

    def _until(self, driver: Victim, reached: Callable[[], bool], within_s: float) -> bool:
        until = time.monotonic() + within_s
        while driver.code is None and time.monotonic() < until:
            if reached():
                return True
            self._feed()
            time.sleep(0.02)
        return False

    def _sleep(self, driver: Victim, seconds: float) -> None:
        until = time.monotonic() + seconds
        while driver.code is None and time.monotonic() < until:
            self._feed()
            time.sleep(min(0.05, max(0.0, until - time.monotonic())))

    def _seen(self, name: str) -> int:
        """How many attempts at a batch have seen their rows."""
        at = self.folder / "seen" / name
        return sum(1 for path in at.iterdir() if path.name[0] != ".") if at.exists() else 0

    def _commits(self) -> int:
        return _latest(self.folder / "checkpoints" / "gate" / "commits")

    def _up(self) -> int:
        try:
            return int(json.loads((self.folder / "up").read_text()))
        except OSError:
            return -1

    def _last_words(self) -> str:
        lines = [line for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1][:300] if lines else "nothing"

    def _save(self) -> None:
        part = self._note.with_suffix(".part")
        part.write_text(json.dumps(asdict(self.state)))
        part.rename(self._note)


def _latest(folder: Path) -> int:
    """The highest batch that a folder has a file of; -1 for none."""
    try:
        names = [path.name for path in folder.iterdir()]
    except OSError:
        return -1
    return max((int(n[:6].split(".")[0]) for n in names if n[:1].isdigit()), default=-1)


def _spread(seconds: list[float]) -> dict[str, float | int]:
    if not seconds:
        return {"count": 0}
    rounded = {"median": statistics.median(seconds), "max": max(seconds)}
    return {"count": len(seconds), **{k: round(v, 1) for k, v in rounded.items()}}
