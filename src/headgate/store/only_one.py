"""One process at a time: a lock that ends with the process that has it, however that ends."""

from __future__ import annotations

from pathlib import Path
from typing import IO

from headgate.errors import ControlFolderError

__all__ = ["only_one"]


def only_one(path: Path, refusal: str) -> IO[str]:
    """The lock, held until it is closed; raises with `refusal` where another has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = open(path, "a+", encoding="utf-8")  # noqa: SIM115
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:  # a system without it: the second process is not noticed there
        pass
    except BlockingIOError:
        file.close()
        raise ControlFolderError(refusal) from None
    except OSError:
        pass  # a file system without locks, as some network folders are
    return file
