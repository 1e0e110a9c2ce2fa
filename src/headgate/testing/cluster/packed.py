"""Headgate as one archive, for ``spark-submit --py-files`` and ``spark.submit.pyFiles``.

It has Headgate alone, which is pure Python. What Headgate imports (pyarrow, numpy, obstore for an object
store, numba for a join) has compiled parts, which cannot be imported from an archive: those must be in
the executors' environment, or in a packed one (``spark.archives``).
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import headgate

__all__ = ["pack_headgate"]


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
