"""Headgate's laboratory: the papers' own algorithms, simulators, figures and benchmarks."""

__version__ = "0.2.0.dev0"
