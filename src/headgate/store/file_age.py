"""How old a file is by whoever keeps the files, so that no two machines' clocks meet."""

from __future__ import annotations

import contextlib
import uuid
from pathlib import Path

from headgate.store.folder import write_json

__all__ = ["age_by_the_store"]


def age_by_the_store(path: Path) -> float:
    """Seconds between the file's last change and that of a file which is written now beside it.

    Both times are set by the same file server. 0.0 where they cannot be had.
    """
    mark = path.with_name(f".look-{uuid.uuid4().hex}")
    try:
        write_json(mark, {}, lasting=False)
        now = mark.stat().st_mtime
        return max(0.0, now - path.stat().st_mtime)
    except OSError:
        return 0.0
    finally:
        with contextlib.suppress(OSError):
            mark.unlink()
