"""Where the data files of the figures are: a folder that the user names, or one of two near by."""

from __future__ import annotations

import os
from pathlib import Path

from headgate.errors import BadArgument

__all__ = ["data_file", "found_data_file"]


def data_file(name: str) -> Path:
    """A data file: in the folder that HEADGATE_DATA names, in ../shared/data, or in ./data."""
    found = found_data_file(name)
    if found is None:
        raise BadArgument(
            f"{name} is not here: put it into ./data, or name its folder in the variable HEADGATE_DATA"
        )
    return found


def found_data_file(name: str) -> Path | None:
    """The same, or None where there is none."""
    for folder in (os.environ.get("HEADGATE_DATA"), "../shared/data", "data"):
        if folder and (Path(folder) / name).is_file():
            return Path(folder) / name
    return None
