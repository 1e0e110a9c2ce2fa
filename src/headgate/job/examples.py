"""The job files that ``headgate init`` writes."""

from __future__ import annotations

from importlib.resources import files

__all__ = ["SOURCES", "example"]

SOURCES = ("rate", "kafka", "files")


def example(source: str) -> str:
    """A commented job file that runs, for one of `SOURCES`."""
    return (files("headgate.job") / "templates" / f"{source}.toml").read_text()
