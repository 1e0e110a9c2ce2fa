"""Files and folders that outlast a loss of power, and that nobody but the owner and the group can open.

A rename or a link is on disk only when the folder that holds the name is: without that a pin that a
batch has met may be gone after a crash, and the replay meets another plan.

Permissions: whatever the umask says, others get nothing. Below a folder that its owner shares with the
group (group-writable, and not writable by all), new files and folders are shared with the group, too, so
that executors under another user of the group can pin plans; elsewhere the umask decides for the group.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

__all__ = ["make_folder", "open_private", "remove", "sync_folder"]

_FILE, _FOLDER = 0o660, 0o770


def sync_folder(folder: Path) -> None:
    """Have the names in this folder on disk; some file systems cannot, and are believed."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _shared(folder: Path) -> bool:
    """Whether its owner gave this folder to the group, on purpose."""
    mode = os.stat(folder).st_mode
    return bool(mode & stat.S_IWGRP) and not mode & stat.S_IWOTH


def make_folder(folder: Path, tries: int = 8) -> None:
    """Make the folder, and those above it, if they are not there.

    Others may remove one of those meanwhile, so it is tried again; but not for ever, because there are
    file systems, such as /proc, in which nobody makes folders.
    """
    try:
        os.mkdir(folder, _FOLDER)
    except FileExistsError:
        if not folder.is_dir():
            raise
        return
    except FileNotFoundError:
        if tries <= 1:
            raise
        make_folder(folder.parent)
        make_folder(folder, tries - 1)
        return
    with contextlib.suppress(OSError):  # not every file system knows permissions
        if _shared(folder.parent):
            os.chmod(folder, _FOLDER | (os.stat(folder).st_mode & stat.S_ISGID))
    sync_folder(folder.parent)


def open_private(path: Path, flags: int) -> int:
    """A handle of the file; if this makes it, others can neither read nor write it."""
    handle = os.open(path, flags | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), _FILE)
    with contextlib.suppress(OSError):
        found = os.fstat(handle)
        mine = found.st_uid == os.geteuid() and found.st_size == 0
        if mine and not found.st_mode & stat.S_IWGRP and _shared(path.parent):
            os.fchmod(handle, _FILE)
    return handle


def remove(path: Path) -> None:
    """Remove a file if it is there, for good."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
        sync_folder(path.parent)
