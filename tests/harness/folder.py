"""The run's folder: what outlives a run, for whoever looks into a failure."""

from __future__ import annotations

import functools
import os
from pathlib import Path

__all__ = ["run_folder"]


@functools.cache
def run_folder() -> Path:
    """``out/tests`` beside the sources, or $HEADGATE_TEST_RUN; each run begins it anew."""
    beside = Path(__file__).resolve().parents[2] / "out" / "tests"
    folder = Path(os.environ.get("HEADGATE_TEST_RUN") or beside)
    folder.mkdir(parents=True, exist_ok=True)
    if "PYTEST_XDIST_WORKER" in os.environ:
        return folder  # the process that started this one has begun it
    for path in folder.iterdir():
        if path.is_file():
            path.unlink(missing_ok=True)
    return folder
