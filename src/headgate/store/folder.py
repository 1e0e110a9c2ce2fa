"""What is in a control store: JSON under names, written whole or not at all, and claimed once."""

from __future__ import annotations

import json
import logging
import os
import re
import stat
import uuid
from pathlib import Path
from typing import Any

from headgate.errors import BadArgument, ControlFolderError
from headgate.store.durable import make_folder, open_private
from headgate.store.places.place import Place, control_place
from headgate.store.places.stores import store_of
from headgate.store.stored_json import parsed_json

__all__ = [
    "check_gate_name",
    "claim_bytes",
    "claim_json",
    "folders_in",
    "is_used",
    "names_in",
    "open_control_folder",
    "read_json",
    "read_text",
    "unclaim",
    "used_control_folder",
    "used_gates",
    "write_json",
    "write_text",
]

log = logging.getLogger("headgate")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def check_gate_name(name: str) -> str:
    """The name, if it can be a folder and a metric label."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadArgument(
            f"gate name {name!r}: use 1 to 64 letters, digits, '_', '-' or '.', "
            "beginning with a letter or a digit"
        )
    return name


def open_control_folder(control: str | os.PathLike[str] | Place) -> Place:
    """The place, after a trial write: for a gate. A folder is made if it is not there."""
    place = control_place(control)
    if isinstance(place, Path):
        return _open_folder(place, control)
    trial = place / f".trial-{uuid.uuid4().hex}"
    mine, other = trial.name.encode(), b"another"
    try:
        held = claim_bytes(trial, mine), claim_bytes(trial, other)
        unclaim(trial)
    except OSError as error:
        raise ControlFolderError(
            f"control={str(place)!r} cannot be used ({error.strerror or error}): give an address in "
            "an object store that the driver and every executor can read and write, with credentials in "
            "their environment, from their role or the standard configuration"
        ) from error
    if held != (mine, mine):
        raise ControlFolderError(
            f"control={str(place)!r}: this store does not refuse to create a name twice (a conditional "
            "put), so that two tasks could pin two plans to one batch: use one that does, or a folder"
        )
    return place


def _open_folder(folder: Path, control: Any) -> Path:
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


def used_control_folder(control: str | os.PathLike[str] | Place) -> Place:
    """The place, if gates have used it: for whoever comes after a gate, and must not make one."""
    return used_gates(control)[0]


def used_gates(control: str | os.PathLike[str] | Place) -> tuple[Place, list[str]]:
    """The same, with the names of the gates: in an object store one listing says both."""
    place = control_place(control)
    shown = str(place) if not isinstance(control, str) else control
    try:
        gates = folders_in(place / "gates")
        there = bool(gates) or is_used(place)
    except OSError as error:
        raise ControlFolderError(
            f"control={shown!r} cannot be read ({error.strerror or error}): run as someone "
            "who can read the folder that the gate was given as control="
        ) from error
    if not there:
        raise ControlFolderError(
            f"there is no folder {shown!r}: give the folder that the gate was given as control="
        )
    if not gates:
        raise ControlFolderError(
            f"no gate has used the folder {shown!r}: give the folder that the gate was "
            "given as control=; a gate writes there when it is built"
        )
    return place, gates


def is_used(place: Place) -> bool:
    """Whether there is such a folder, or anything below such an address."""
    return store_of(place).is_used(place)


def names_in(place: Place) -> list[str]:
    """The names of what is directly in there, in order, but for scratch files."""
    return [e.name for e in store_of(place).entries(place) if not e.name.startswith(".")]


def folders_in(place: Place) -> list[str]:
    """The same of folders alone, without those that are on their way out."""
    found = store_of(place).entries(place)
    return [e.name for e in found if e.is_folder and not e.name.startswith(".")]


def write_json(path: Place, value: Any, *, lasting: bool = True) -> None:
    """Let the name hold the value: a reader sees the old value or the new one, never a part.

    `lasting`: it must outlive a loss of power. What the next beat or batch writes again need not, and
    then does not wait for the disk.
    """
    write_text(path, json.dumps(value, separators=(",", ":")), lasting=lasting)


def write_text(path: Place, text: str, *, lasting: bool = True) -> None:
    """The same for text."""
    store_of(path).put(path, text.encode(), lasting=lasting)


def claim_json(path: Place, value: Any) -> Any:
    """Let the name hold the value if nobody has claimed it; in any case what it holds.

    Two tasks that race (speculation, a retry) agree on one value.
    """
    mine = json.dumps(value, separators=(",", ":")).encode()
    held = claim_bytes(path, mine)
    return value if held is mine else parsed_json(held)


def claim_bytes(path: Place, data: bytes) -> bytes:
    """The same for bytes; in a local folder they must be JSON."""
    return store_of(path).create(path, data)


def unclaim(path: Place) -> None:
    """Forget a name, claimed or not."""
    store_of(path).delete(path)


def read_text(path: Place) -> str | None:
    """The name's text, or None where there is none."""
    held = store_of(path).get(path)
    return None if held is None else held.data.decode()


def read_json(path: Place) -> Any:
    """The name's value, or None where there is none; ValueError where it was cut off."""
    held = store_of(path).get(path)
    return None if held is None else parsed_json(held.data)
