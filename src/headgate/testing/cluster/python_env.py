"""A Python environment of a machine's own: the packages of this one, but for those that are left out.

Executors of a real cluster do not see the driver's site-packages. Here each worker has an environment
of its own, in which Headgate is not installed unless a test says so; the other packages are links, so
that an environment is made in a fraction of a second.
"""

from __future__ import annotations

import re
import sysconfig
import venv
from collections.abc import Iterable
from pathlib import Path

__all__ = ["HEADGATE", "make_environment"]

#: Run by every Python of an environment as it starts: its clock is off from then on.
_CLOCK = """\
import time

_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + {off_s!r}
time.time_ns = lambda: _time_ns() + {off_ns!r}
"""

#: What is in site-packages of Headgate and its laboratory, also of an installation that is edited.
HEADGATE = ("headgate", "headgate_lab", "_editable_impl_headgate", "_editable_impl_headgate_lab")


def make_environment(
    folder: Path,
    *,
    without: Iterable[str] = HEADGATE,
    headgate: Path | None = None,
    clock_off_s: float = 0.0,
) -> Path:
    """Make an environment in `folder`, and return its Python.

    `without` are names of packages (a distribution's metadata goes with it). `headgate` is the folder
    of a Headgate to install there, of whatever version. `clock_off_s` is how far ``time.time()`` is
    ahead of this machine's clock there.
    """
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    version = f"python{sysconfig.get_python_version()}"
    site = folder / "lib" / version / "site-packages"
    left_out = {_plain(name) for name in without}
    for origin in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for entry in Path(origin).iterdir():
            target = site / entry.name
            if _package(entry.name) not in left_out and not target.is_symlink() and not target.exists():
                target.symlink_to(entry)
    if headgate is not None:
        (site / "headgate").symlink_to(headgate)
    if clock_off_s:
        clock = _CLOCK.format(off_s=float(clock_off_s), off_ns=round(1e9 * clock_off_s))
        (site / "_clock_off.py").write_text(clock)
        (site / "_clock_off.pth").write_text("import _clock_off\n")
    return folder / "bin" / "python3"


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


def _package(entry: str) -> str:
    """The package that an entry of site-packages belongs to.

    >>> _package("headgate-0.2.0.dev0.dist-info"), _package("_editable_impl_headgate.pth")
    ('headgate', '_editable_impl_headgate')
    """
    name = re.sub(r"(-[^-]+)?\.(dist-info|egg-info|pth|py|egg-link)$", "", entry)
    return _plain(name)
