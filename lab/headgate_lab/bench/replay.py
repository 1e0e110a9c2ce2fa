"""Kill -9 in the middle of batches, restart from the checkpoint, compare what was kept.

The setting is changed between attempts, so a replay that asked for today's plan instead of the
pinned one would keep other rows. A ``rand(seed)`` filter runs beside the gate for comparison: Spark
seeds it anew at every execution.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.progress import Progress

from headgate.store.ledger.audit import audit
from headgate.store.settings_file import SettingsFile
from headgate_lab.bench.progress import bench_progress
from headgate_lab.bench.replay_child import GATE, PAUSE_S, SCHEMA

__all__ = ["kill_and_replay", "run"]

_FILES, _ROWS = 60, 400


def run(*, quick: bool) -> dict[str, Any]:
    """At least 20 kills (5 when quick)."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-replay-"))
    try:
        with bench_progress() as progress:
            return kill_and_replay(folder, 5 if quick else 22, progress)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def kill_and_replay(folder: Path, kills: int, progress: Progress, seed: int = 1) -> dict[str, Any]:
    """Kill a gated query so many times, let it finish, and compare the attempts at each batch."""
    luck = random.Random(seed)
    _make_input(folder, min(_FILES, 3 * kills + 4))
    task = progress.add_task("kill -9 and restart", total=kills + 1)
    killed = 0
    for attempt in range(10 * kills):
        with _child(folder, attempt) as child:
            if killed < kills and _reached_new_batch(folder, child, luck):
                os.killpg(child.pid, signal.SIGKILL)
                killed += 1
                SettingsFile(folder / "control", GATE).change(rate=luck.choice([0.2, 0.35, 0.5, 0.8]))
            child.wait(timeout=900)
        progress.advance(task)
        if (folder / "done").exists():
            break
    return _compare(folder, killed)


def _make_input(folder: Path, files: int) -> None:
    (folder / "in").mkdir(parents=True)
    (folder / "out").mkdir()
    for number in range(files):
        ids = range(number * _ROWS, (number + 1) * _ROWS)
        text = "".join(json.dumps({"id": i}) + "\n" for i in ids)
        (folder / "in" / f"{number:05d}.json").write_text(text)


@contextmanager
def _child(folder: Path, attempt: int) -> Iterator[subprocess.Popen[bytes]]:
    """A run of the query; where ours ends before it (ctrl-C, a timeout), no Spark is left behind."""
    child = _start(folder, attempt)
    try:
        yield child
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        raise


def _start(folder: Path, attempt: int) -> subprocess.Popen[bytes]:
    with open(folder / "log", "ab") as log:
        command = [sys.executable, "-m", "headgate_lab.bench.replay_child", str(folder), str(attempt)]
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def _reached_new_batch(folder: Path, child: subprocess.Popen[bytes], luck: random.Random) -> bool:
    """Wait for this attempt's first or second batch, then for a moment that luck chooses.

    Three in four are within the batch, before it commits; the others around the commit and after.
    """
    wanted = len(list((folder / "out").iterdir())) + luck.randint(1, 2)
    while child.poll() is None:
        if len(list((folder / "out").iterdir())) >= wanted:
            time.sleep(luck.uniform(0.0, PAUSE_S if luck.random() < 0.75 else 4 * PAUSE_S))
            return child.poll() is None
        time.sleep(0.02)
    return False


def _compare(folder: Path, killed: int) -> dict[str, Any]:
    attempts: dict[int, list[dict[str, set[int]]]] = {}
    for path in sorted((folder / "out").glob("*.json")):
        kept = {k: set(v) for k, v in json.loads(path.read_text()).items()}
        attempts.setdefault(int(path.name[:6]), []).append(kept)
    replayed = [a for a in attempts.values() if len(a) > 1]
    ratios = {
        f"jaccard_{what}": min(
            (_jaccard(x[what], y[what]) for a in replayed for x, y in itertools.combinations(a, 2)),
            default=float("nan"),
        )
        for what in ("gate", "rand")
    }
    (before,) = audit(folder / "control")
    unsettled = [*before.unsettled, *before.begun]
    if unsettled:
        _recount(folder)
    (found,) = audit(folder / "control")
    sunk = sum(len(a[-1]["gate"]) for a in attempts.values())
    context = {
        "kills": killed,
        "batches": len(attempts),
        "replayed_batches": len(replayed),
        "unsettled_before_recount": len(unsettled),
        "ledger": found.to_json(),
        "rows_in_sink": sunk,
        "ledger_balanced": found.complete and found.kept == sunk,
    }
    return {"bench": "replay", "ratios": ratios, "context": context}


def _jaccard(a: set[int], b: set[int]) -> float:
    return len(a & b) / len(a | b) if a | b else 1.0


def _recount(folder: Path) -> None:
    from pyspark.sql import functions as F

    from headgate.demo.session import quiet_session
    from headgate.spark.backfill.backfill import recount
    from headgate.spark.backfill.offsets import file_rows

    with quiet_session(folder / "spark") as spark:
        rows = file_rows(
            lambda paths: spark.read.schema(SCHEMA).json(paths),
            folder / "checkpoint",
            prepare=lambda frame: frame.withColumn("coin", F.lit(0.0)),
        )
        recount(spark, GATE, folder / "control", rows, checkpoint=folder / "checkpoint")
