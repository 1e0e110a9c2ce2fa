"""The kernels as plain Python: an index out of bounds or a word that overflows is then seen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Tests of the kernels against their naive twins, on examples that are small enough for Python.
TWINS = (
    "tests/joins/test_kernels.py::test_exact_sets",
    "tests/joins/test_kernels.py::test_hashed_sets_that_share_much",
    "tests/joins/test_kernels.py::test_keys_nested",
    "tests/joins/test_kernels.py::test_keys_sorted",
    "tests/joins/test_choice.py::test_the_best_pairs_fill_the_budget",
    "tests/joins/test_choice.py::test_densities_of_sets",
    "tests/joins/test_choice.py::test_densities_of_keys",
)


@pytest.mark.slow
def test_the_kernels_find_the_same_without_the_compiler(tmp_path: Path) -> None:
    """Compiled code reads past the end of an array without a word; Python raises."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TWINS]
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1", "HEADGATE_FAST": "1"}
    env.pop("PYTEST_XDIST_WORKER", None)
    env["HEADGATE_TEST_RUN"] = str(tmp_path)  # a run of its own would empty this run's folder
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(TWINS)} passed" in done.stdout, done.stdout
