"""Files that several processes share: written whole or not at all, and claimed once."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import shutil
import stat
import uuid
from pathlib import Path
from typing import Any

from headgate.errors import BadArgument, ControlFolderError
from headgate.store.durable import make_folder, open_private, sync_folder

__all__ = [
    "check_gate_name",
    "claim_json",
    "open_control_folder",
    "read_json",
    "unclaim",
    "used_control_folder",
    "write_json",
    "write_text",
]

log = logging.getLogger("headgate")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def check_gate_name(name: str) -> str:
    """The name, if it can be a folder and a metric label."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadArgument(
            f"gate name {name!r}: use 1 to 64 letters, digits, '_', '-' or '.', "
            "beginning with a letter or a digit"
        )
    return name


def _control_path(control: str | os.PathLike[str]) -> Path:
    """The path that people or Spark wrote."""
    if not isinstance(control, str | os.PathLike) or not os.fspath(control):
        raise ControlFolderError(
            f"control={control!r}: give a folder that the driver and every executor can read and write"
        )
    text = os.fspath(control)
    if text.startswith("file:/"):  # as Spark writes it: file:/tmp/x, or file:///tmp/x
        text = "/" + text[len("file:") :].lstrip("/")
    if _URL.match(text):
        raise ControlFolderError(
            f"control={text!r}: the control folder must be a path that the driver and every "
            "executor can open (a local folder on one machine, NFS or a mounted volume on a "
            "cluster); object stores are not supported: mount the bucket, or use a shared disk"
        )
    return Path(text).absolute()


def open_control_folder(control: str | os.PathLike[str]) -> Path:
    """The folder, made if it is not there, after a trial write: for a gate."""
    folder = _control_path(control)
    if folder.exists() and not folder.is_dir():
        raise ControlFolderError(f"control={os.fspath(control)!r} is a file: give a folder")
    trial = folder / f".trial-{uuid.uuid4().hex}"
    try:
        make_folder(folder)
        os.close(open_private(trial, os.O_WRONLY))
        trial.unlink()
    except OSError as error:
        raise ControlFolderError(
            f"control={os.fspath(control)!r} cannot be written ({error.strerror or error}): give a "
            "folder that the driver and every executor can read and write"
        ) from error
    _warn_of_strangers(folder)
    return folder


#: Folders that were warned of.
_open_to_all: set[Path] = set()


def _warn_of_strangers(folder: Path) -> None:
    """Say once that anybody on this machine may change or remove what is in the folder."""
    mode = folder.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX and folder not in _open_to_all:
        _open_to_all.add(folder)
        log.warning(
            "every user can change what is in the control folder %s (mode %o), and so what its gates "
            "shed: chmod o-w it; share it with the executors by their group",
            folder, stat.S_IMODE(mode),
        )  # fmt: skip


def used_control_folder(control: str | os.PathLike[str]) -> Path:
    """The folder, if gates have used it: for whoever comes after a gate, and must not make one."""
    folder = _control_path(control)
    gates = folder / "gates"
    try:
        there = folder.is_dir()
        used = gates.is_dir() and any(path.is_dir() for path in gates.iterdir())
    except OSError as error:
        raise ControlFolderError(
            f"control={os.fspath(control)!r} cannot be read ({error.strerror or error}): run as someone "
            "who can read the folder that the gate was given as control="
        ) from error
    if not there:
        raise ControlFolderError(
            f"there is no folder {os.fspath(control)!r}: give the folder that the gate was given as "
            "control="
        )
    if not used:
        raise ControlFolderError(
            f"no gate has used the folder {os.fspath(control)!r}: give the folder that the gate was "
            "given as control=; a gate writes there when it is built"
        )
    return folder


def write_json(path: Path, value: Any, *, lasting: bool = True) -> None:
    """Replace the file in one step: a reader sees the old value or the new one, never a part.

    `lasting`: it must outlive a loss of power. What the next beat or batch writes again need not, and
    then does not wait for the disk.
    """
    write_text(path, json.dumps(value, separators=(",", ":")), lasting=lasting)


def write_text(path: Path, text: str, *, lasting: bool = True) -> None:
    """The same for text."""
    make_folder(path.parent)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        _write_whole(part, text, lasting=lasting)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    if lasting:
        sync_folder(path.parent)


def _write_whole(path: Path, text: str, *, lasting: bool = True) -> None:
    with open(open_private(path, os.O_WRONLY), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        if lasting:
            os.fsync(file.fileno())


#: What a name holds that is there and cannot be read: empty or cut off.
_TORN = object()


def claim_json(path: Path, value: Any) -> Any:
    """Write the file if nobody has; in any case return what it holds.

    A hard link is the claim: it either makes the whole file under its name or fails because the
    name is taken, so two tasks that race (speculation, a retry) agree on one value.
    """
    make_folder(path.parent)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        _write_whole(part, json.dumps(value, separators=(",", ":")))
        try:
            os.link(part, path)
        except FileExistsError:
            held = _held(path)
            # Cut off by a crash (or removed this moment): its claimant is passed over.
            return _claim_by_folder(path, value) if held in (_TORN, None) else held
        except OSError:  # no hard links here (some network and mounted file systems)
            return _claim_by_folder(path, value)
    finally:
        part.unlink(missing_ok=True)
    sync_folder(path.parent)
    return value


def _claim_folder(path: Path) -> Path:
    return path.with_name(f".{path.name}.claim")


def _claim_by_folder(path: Path, value: Any) -> Any:
    """The claim without hard links: a folder with the value in it is renamed to the claim's name.

    A folder cannot be renamed to one that has something in it, so the name is only ever made whole,
    and once; a claimant that dies before leaves nothing that others would wait for. Whoever comes
    then, first or not, puts the agreed value under the file's own name, which is the same for all.
    """
    claim = _claim_folder(path)
    mine = path.with_name(f".{path.name}.{uuid.uuid4().hex}.claiming")
    make_folder(mine)
    try:
        _write_whole(mine / "value.json", json.dumps(value, separators=(",", ":")))
        sync_folder(mine)
        try:
            os.rename(mine, claim)
            sync_folder(path.parent)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
    finally:
        shutil.rmtree(mine, ignore_errors=True)
    agreed = _held(claim / "value.json")
    if agreed in (_TORN, None):
        raise OSError(errno.EIO, "the claim cannot be read", str(claim))
    held = _held(path)
    if held not in (_TORN, None):
        return held
    write_json(path, agreed)
    return agreed


def unclaim(path: Path) -> None:
    """Forget a claimed file, and how it was claimed."""
    path.unlink(missing_ok=True)
    shutil.rmtree(_claim_folder(path), ignore_errors=True)


def _held(path: Path) -> Any:
    """What the file holds; None where there is none, `_TORN` where it was cut off."""
    try:
        return read_json(path)
    except ValueError:
        return _TORN


def read_json(path: Path) -> Any:
    """The file's value, or None where there is no such file; ValueError where it was cut off."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return None
