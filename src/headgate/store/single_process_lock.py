"""One process at a time: a lock that ends with the process that has it, however that ends."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

from headgate.errors import ControlFolderError
from headgate.store.durable import make_folder, open_private

__all__ = ["single_process_lock"]


def single_process_lock(path: Path, refusal: str) -> IO[str]:
    """The lock, held until it is closed; raises with `refusal` where another has it."""
    make_folder(path.parent)
    file = open(open_private(path, os.O_RDWR | os.O_APPEND), "a+", encoding="utf-8")  # noqa: SIM115
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
