"""A folder that several processes share: files written whole or not at all, and claimed once."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from pathlib import Path
from typing import Any

from headgate.store.durable import make_folder, open_private, sync_folder
from headgate.store.places.contract import Entry, Held, Store
from headgate.store.stored_json import parsed_json

__all__ = ["LocalFiles"]


class LocalFiles(Store[Path]):
    """The files of this machine, or of a volume that is mounted here."""

    def get(self, at: Path) -> Held | None:
        """The file's content."""
        try:
            with open(at, "rb", buffering=0) as file:
                return Held(file.read(), os.fstat(file.fileno()).st_mtime)
        except FileNotFoundError:
            return None

    def put(self, at: Path, data: bytes, *, lasting: bool = True) -> None:
        """Replace the file in one step."""
        make_folder(at.parent)
        part = at.with_name(f".{at.name}.{uuid.uuid4().hex}")
        try:
            _write_whole(part, data, lasting=lasting)
            os.replace(part, at)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        if lasting:
            sync_folder(at.parent)

    def create(self, at: Path, data: bytes) -> bytes:
        """Write the file if nobody has; in any case what it holds.

        A hard link is the claim: it either makes the whole file under its name or fails because the name
        is taken, so two tasks that race (speculation, a retry) agree on one value. What is claimed is
        JSON, so that a file that a crash cut off is known for what it is: its claimant is passed over.
        """
        make_folder(at.parent)
        part = at.with_name(f".{at.name}.{uuid.uuid4().hex}")
        try:
            _write_whole(part, data)
            try:
                os.link(part, at)
            except FileExistsError:
                held = _whole(at)
                # Cut off by a crash (or removed this moment): its claimant is passed over.
                return self._claim_by_folder(at, data) if held is None else held
            except OSError:  # no hard links here (some network and mounted file systems)
                return self._claim_by_folder(at, data)
        finally:
            part.unlink(missing_ok=True)
        sync_folder(at.parent)
        return data

    def _claim_by_folder(self, at: Path, data: bytes) -> bytes:
        """The claim without hard links: a folder with the value in it is renamed to the claim's name.

        A folder cannot be renamed to one that has something in it, so the name is only ever made whole,
        and once; a claimant that dies before leaves nothing that others would wait for. Whoever comes
        then, first or not, puts the agreed value under the file's own name, which is the same for all.
        """
        claim = _claim_folder(at)
        mine = at.with_name(f".{at.name}.{uuid.uuid4().hex}.claiming")
        make_folder(mine)
        try:
            _write_whole(mine / "value.json", data)
            sync_folder(mine)
            try:
                os.rename(mine, claim)
                sync_folder(at.parent)
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise
        finally:
            shutil.rmtree(mine, ignore_errors=True)
        agreed = _whole(claim / "value.json")
        if agreed is None:
            raise OSError(errno.EIO, "the claim cannot be read", str(claim))
        held = _whole(at)
        if held is not None:
            return held
        self.put(at, agreed)
        return agreed

    def entries(self, at: Path) -> list[Entry]:
        """The files and folders in this one."""
        try:
            with os.scandir(at) as found:
                entries = [(e.name, e.is_dir(), e) for e in found]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [
            Entry(name, folder, _changed(entry)) for name, folder, entry in sorted(entries, key=_name)
        ]

    def delete(self, at: Path) -> None:
        """Forget a file, and how it was claimed."""
        at.unlink(missing_ok=True)
        shutil.rmtree(_claim_folder(at), ignore_errors=True)

    def is_used(self, at: Path) -> bool:
        """Whether it is a folder."""
        return at.is_dir()

    def delete_all(self, at: Path) -> None:
        """Remove the folder; its name is gone at once."""
        gone = at.with_name(f".{at.name}.{uuid.uuid4().hex}.gone")
        try:
            os.rename(at, gone)
        except FileNotFoundError:
            return
        shutil.rmtree(gone, ignore_errors=True)


def _name(entry: tuple[str, bool, Any]) -> str:
    return entry[0]


def _changed(entry: os.DirEntry[str]) -> Any:
    return lambda: entry.stat(follow_symlinks=False).st_mtime


def _write_whole(path: Path, data: bytes, *, lasting: bool = True) -> None:
    with open(open_private(path, os.O_WRONLY), "wb", buffering=0) as file:
        written = file.write(data)
        while written < len(data):
            written += file.write(data[written:])
        if lasting:
            os.fsync(file.fileno())


def _claim_folder(path: Path) -> Path:
    return path.with_name(f".{path.name}.claim")


def _whole(path: Path) -> bytes | None:
    """What the file holds; None where there is none, or it was cut off."""
    try:
        with open(path, "rb", buffering=0) as file:
            data = file.read()
        parsed_json(data)
    except (FileNotFoundError, ValueError):
        return None
    return data
