"""Headgate as one archive: by itself, or with a whole Python environment.

By itself it is for ``spark-submit --py-files`` and ``spark.submit.pyFiles``: it is pure Python. What it
imports (pyarrow, numpy, obstore for an object store, numba for a join) has compiled parts, which cannot
be imported from an archive: those must be in the executors' environment, or in a packed one, which Spark
unpacks on each executor (``spark.archives``).
"""

from __future__ import annotations

import io
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

import headgate

__all__ = ["EXECUTORS_NEED", "pack_environment", "pack_headgate"]

#: What executors import for gates, guards and sites whose control store is an object store, by the names
#: in site-packages. PySpark itself they have from Spark.
EXECUTORS_NEED = (
    "pyarrow", "numpy", "numpy.libs", "obstore", "pandas", "dateutil", "pytz", "tzdata", "six.py",
)  # fmt: skip
_VERSION = sysconfig.get_python_version()


def pack_headgate(archive: str | Path) -> Path:
    """Write Headgate, as it is imported here, into `archive`; returns its path.

    The same sources make the same bytes, so that the archive can be compared and cached.

    >>> import tempfile, zipfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     "headgate/__init__.py" in zipfile.ZipFile(pack_headgate(f"{folder}/headgate.zip")).namelist()
    True
    """
    root, path = Path(headgate.__file__).parent, Path(archive)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for source in sorted(root.rglob("*.py")):
            entry = zipfile.ZipInfo(
                f"headgate/{source.relative_to(root).as_posix()}", (2020, 1, 1, 0, 0, 0)
            )
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, source.read_bytes())
    return path


def pack_environment(archive: str | Path, packages: Iterable[str] = EXECUTORS_NEED) -> Path:
    """Write an environment with Headgate and `packages` into `archive`, a ``.tar.gz``; returns its path.

    Its Python is the one that this process's environment was made from, by its path, as in environments
    that venv-pack packs: each machine must have it there. A driver names it as ``spark.archives``
    ``<archive>#env``, and ``./env/bin/python`` as its executors' Python.
    """
    path, base = Path(archive), Path(sys.base_prefix) / "bin" / f"python{_VERSION}"
    site = f"lib/python{_VERSION}/site-packages"
    origins = [Path(sysconfig.get_path("purelib")) / name for name in packages]
    with tarfile.open(path, "w:gz", compresslevel=1) as packed:
        config = f"home = {base.parent}\ninclude-system-site-packages = false\n".encode()
        entry = tarfile.TarInfo("pyvenv.cfg")
        entry.size = len(config)
        packed.addfile(entry, io.BytesIO(config))
        for name in ("python", "python3"):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, str(base)
            packed.addfile(link)
        for origin in (Path(headgate.__file__).parent, *filter(Path.exists, origins)):
            packed.add(origin, f"{site}/{origin.name}", filter=_needed)
    return path


def _needed(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Neither what Python writes by itself, nor a package's own tests and headers."""
    left_out = {"__pycache__", "tests", "include"}
    return None if left_out.intersection(Path(entry.name).parts) else entry
