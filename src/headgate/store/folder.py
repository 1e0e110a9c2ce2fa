"""Files that several processes share: written whole or not at all, and claimed once."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
import uuid
from pathlib import Path
from typing import Any

from headgate.errors import BadArgument, ControlFolderError

__all__ = [
    "check_gate_name",
    "claim_json",
    "open_control_folder",
    "read_json",
    "used_control_folder",
    "write_json",
    "write_text",
]

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
        folder.mkdir(parents=True, exist_ok=True)
        trial.write_text("headgate")
        trial.unlink()
    except OSError as error:
        raise ControlFolderError(
            f"control={os.fspath(control)!r} cannot be written ({error.strerror or error}): give a "
            "folder that the driver and every executor can read and write"
        ) from error
    return folder


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


def write_json(path: Path, value: Any) -> None:
    """Replace the file in one step: a reader sees the old value or the new one, never a part."""
    write_text(path, json.dumps(value, separators=(",", ":")))


def write_text(path: Path, text: str) -> None:
    """The same for text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with open(part, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def claim_json(path: Path, value: Any) -> Any:
    """Write the file if nobody has; in any case return what it holds.

    A hard link is the claim: it either makes the whole file under its name or fails because the
    name is taken, so two tasks that race (speculation, a retry) agree on one value.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with open(part, "w", encoding="utf-8") as file:
            json.dump(value, file, separators=(",", ":"))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(part, path)
        except FileExistsError:
            return read_json(path)
        except OSError:  # no hard links here (some network and mounted file systems)
            return _claim_by_name(path, value)
    finally:
        part.unlink(missing_ok=True)
    return value


def _claim_by_name(path: Path, value: Any) -> Any:
    """The claim without hard links: who makes the name first also writes it.

    A reader may come between the two, so an empty file is read again for a moment.
    """
    try:
        with open(path, "x", encoding="utf-8") as file:
            json.dump(value, file, separators=(",", ":"))
        return value
    except FileExistsError:
        for _ in range(100):
            with contextlib.suppress(json.JSONDecodeError):
                return read_json(path)
            time.sleep(0.01)
        raise


def read_json(path: Path) -> Any:
    """The file's value, or None where there is no such file."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return None
