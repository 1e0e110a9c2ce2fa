"""Headgate's laboratory: the papers' own algorithms, simulators, figures and benchmarks."""

__version__ = "0.1.0"
