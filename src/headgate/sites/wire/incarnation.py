"""Which incarnation of a site this is, and its rising numbers, kept where a restart finds them.

A site that starts again is the same site only if it can say so: a name nobody can guess tells one
incarnation from another, and every report bears a number above all before it. Both are in a file of the
site's own. Numbers are taken from the file in blocks, so that it is written once in a thousand reports;
a restart leaves the rest of a block out, which is no harm: numbers must rise, and may skip.
"""

from __future__ import annotations

import math
import re
import uuid

from headgate.errors import ControlFolderError
from headgate.store.folder import read_json, write_json
from headgate.store.places.place import Place
from headgate.store.places.process_claim import ProcessClaim, claim_for_process

__all__ = ["Incarnation"]

_BLOCK = 1000


class Incarnation:
    """One process at a time has the file; without a folder it is a new incarnation each time."""

    def __init__(self, folder: Place | None, site: str) -> None:
        self._path = None if folder is None else folder / f"coordinator-{site}.json"
        self._lock: ProcessClaim | None = None
        self._taken = "" if folder is None else _runs_already(site, folder)
        self._next: int = 1
        self._reserved: float = 1 if self._path is not None else math.inf
        self.name = uuid.uuid4().hex
        if self._path is None:
            return
        try:
            # Two processes with one file would be one incarnation, and nobody would know them apart.
            self._lock = claim_for_process(self._path.with_suffix(".lock"), self._taken)
            found = read_json(self._path)
        except OSError as error:
            raise _not_writable(self._path, error) from error
        except ValueError:
            found = None  # no JSON: a new incarnation, which waits until the old one's lease is over
        if _is_known(found):
            self.name, self._next = found["incarnation"], found["next"]
            self._reserved = self._next

    def next(self) -> int:
        """A number above every one before it, in this process and in earlier ones."""
        if self._next >= self._reserved and self._path is not None:
            reserved = self._next + _BLOCK
            try:
                write_json(self._path, {"incarnation": self.name, "next": reserved})
            except OSError as error:
                raise _not_writable(self._path, error) from error
            self._reserved = reserved
        if self._lock is not None and not self._is_ours(self._lock):
            raise ControlFolderError(self._taken)
        self._next += 1
        return self._next - 1

    @staticmethod
    def _is_ours(lock: ProcessClaim) -> bool:
        """Where the store cannot be asked, nobody else has asked it either: reports go on."""
        try:
            return lock.beat()
        except OSError:
            return True

    def skip(self) -> None:
        """Leave numbers out: a file that was restored from a copy lags behind what was used."""
        self._next += 2 * _BLOCK

    def close(self) -> None:
        """Close the file, so that another process can have it."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _is_known(found: object) -> bool:
    return (
        isinstance(found, dict)
        and re.fullmatch(r"[0-9a-f]{32}", str(found.get("incarnation"))) is not None
        and type(found.get("next")) is int
        and found["next"] >= 1
    )


def _runs_already(site: str, folder: Place) -> str:
    return (
        f"site {site!r} is running already with the folder {str(folder)!r}: stop that one, or give this "
        "one another name"
    )


def _not_writable(path: Place, error: OSError) -> OSError:
    if isinstance(error, ControlFolderError):
        return error
    return ControlFolderError(
        f"{str(path)!r} cannot be read and written ({error.strerror or error}): a site keeps there "
        "which incarnation it is; give a folder that this process can write"
    )
