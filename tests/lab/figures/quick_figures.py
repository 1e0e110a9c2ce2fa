"""Figures in their smallest form, drawn once for all tests that look at them."""

from __future__ import annotations

import functools

from headgate_lab.figures import Drawn, build

__all__ = ["quick_figure"]


@functools.cache
def quick_figure(name: str) -> Drawn:
    """One run of the figure; it is a value that nobody changes."""
    return build(name, runs=1, quick=True)
