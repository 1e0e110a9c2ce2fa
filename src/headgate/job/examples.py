"""The job files that ``headgate init`` writes."""

from __future__ import annotations

import re
from importlib.resources import files

__all__ = ["SOURCES", "example"]

SOURCES = ("rate", "kafka", "files")


#: The file's name without its ending where nobody names one; what it writes is in a folder of that name.
_STEM = "job"


def example(source: str, file: str = f"{_STEM}.toml") -> str:
    """A commented job file that runs, for one of `SOURCES`, as it is written to a file of that name.

    Two of them in one folder share nothing: the gate and the folder that they write to are called as the
    file is.

    >>> [line for line in example("rate", "tolls.toml").splitlines() if line.startswith("control")]
    ['control = "out/tolls/control"  # plans, settings and the ledger; paths are relative to this file']
    """
    text = (files("headgate.job") / "templates" / f"{source}.toml").read_text()
    stem = _as_name(file.rpartition(".")[0] or file)
    if stem != _STEM:
        text = text.replace('name = "rides"', f'name = "{stem}"').replace(
            f"out/{_STEM}/", f"out/{stem}/"
        )
    return text.replace(f"{_STEM}.toml", file)


def _as_name(stem: str) -> str:
    """Letters, digits, '_', '-' and '.', as a gate's name has them.

    >>> _as_name("my rides"), _as_name("_tmp"), _as_name("ü")
    ('my-rides', 'job-_tmp', 'job--')
    """
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", stem)[:59]
    return name if name[:1].isalnum() else f"{_STEM}-{name}"
