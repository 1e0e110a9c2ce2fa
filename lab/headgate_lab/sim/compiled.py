"""Compiled halves of the simulators, imported when a run needs them: numba takes a second to load."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["compiled"]


def compiled(name: str) -> Any:
    """A module of kernels of the simulators, such as ``join.kernels``."""
    return importlib.import_module(f"headgate_lab.sim.{name}")
