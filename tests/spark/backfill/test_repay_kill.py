"""SIGKILL to `headgate backfill` at random moments: it goes on, and each shed row is there once.

Its steps one by one, without a process of their own, are in `test_repay.py`.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headgate.store.ledger.audit import audit
from headgate.store.repaid.marks import marks_of
from tests.spark.backfill.shed_query import BATCHES, GATE, ROWS

pytestmark = pytest.mark.spark
_ROOT = Path(__file__).parents[3]


def _command(folder: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "headgate", "backfill", "--control", str(folder / "control")),
        *("--gate", GATE, "--to", str(folder / "late"), "--slice-batches", "1", "--memory", "1g"),
        *("--master", "local[1]", "--json"),
    ]


def _marked(folder: Path) -> int:
    (books,) = audit(folder / "control", GATE)
    return len(marks_of(folder / "control", GATE, books.query).known)


def _killed_once(folder: Path, luck: random.Random, log: Path) -> bool:
    """Start it, and end it somewhere in its first slices; whether it was killed."""
    before = _marked(folder)
    with open(log, "ab") as out:
        child = subprocess.Popen(
            _command(folder), stdout=out, stderr=out, start_new_session=True, cwd=_ROOT
        )
    work = folder / "control" / "gates" / GATE / "queries"
    slices = len(list(work.glob("*/repaid/slices/*")))
    while child.poll() is None and len(list(work.glob("*/repaid/slices/*"))) == slices:
        time.sleep(0.01)
    time.sleep(luck.uniform(0.0, 3.0))
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
    code = child.wait()
    assert code in (0, -signal.SIGKILL), log.read_text()[-3000:]
    assert _marked(folder) >= before
    return code != 0


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_killed_at_random_it_ends_with_each_row_once(tmp_path: Path) -> None:
    made = [sys.executable, "-m", "tests.spark.backfill.shed_once", str(tmp_path)]
    subprocess.run(made, check=True, cwd=_ROOT, capture_output=True, timeout=900)
    luck, kills = random.Random(19), 0
    for _ in range(4):
        kills += _killed_once(tmp_path, luck, tmp_path / "log")
    last = subprocess.run(_command(tmp_path), capture_output=True, text=True, cwd=_ROOT, timeout=900)
    assert last.returncode == 0, last.stderr[-3000:]
    done = json.loads(last.stdout)
    assert done["complete"]
    kept = json.loads((tmp_path / "kept.json").read_text())
    files = list((tmp_path / "late").glob("headgate_slice=*/*.parquet"))
    late = [i for file in files for i in pq.ParquetFile(file).read(["id"]).column("id").to_pylist()]
    assert Counter(kept) + Counter(late) == Counter(range(BATCHES * ROWS))
    (books,) = audit(tmp_path / "control", GATE)
    assert books.complete
    assert len(books.repaid) == BATCHES
    assert books.repaid_rows == len(late)
    assert kills >= 2, "a run may be through before its kill; most are not"
    print(f"{kills} kills, {len(files)} files, {len(late)} rows repaid")
