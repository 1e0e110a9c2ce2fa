"""A name in a control store: a path of a local folder, or the address of an object.

Both are built with ``/`` and know their `name`, `stem` and `parent`, so whoever names a thing need not
know where the store is. What is done with a name is the store's
(`headgate.store.places.contract.Store`).

Read by Spark's Python workers once a batch, so this module imports little.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headgate.errors import BadArgument, ControlFolderError

__all__ = [
    "SCHEMES",
    "ObjectPath",
    "Place",
    "address_alone",
    "asks_server",
    "control_place",
    "place_from",
]

#: Object stores, by how an address begins. Hadoop writes ``s3a`` for S3 and ``abfss`` for Azure.
SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss")
#: A store in this process's memory, for tests; it must have been registered.
_MEMORY = "memory"
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


@dataclass(frozen=True, order=True)
class ObjectPath:
    """The address of an object, or of all objects whose names begin so."""

    #: The bucket or container: ``s3://bucket``.
    root: str
    #: The name in it, without a slash at either end.
    key: str = ""

    def __truediv__(self, name: str) -> ObjectPath:
        parts = str(name).split("/")
        if any(part in ("", ".", "..") for part in parts):
            raise BadArgument(f"{name!r} is no name of an object below {str(self)!r}")
        return ObjectPath(self.root, "/".join(filter(None, (self.key, *parts))))

    @property
    def name(self) -> str:
        """The last part of its key."""
        return self.key.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The same without its last suffix."""
        return self.name.rpartition(".")[0] or self.name

    @property
    def suffix(self) -> str:
        """The last part of its name, from the dot on."""
        return self.name[len(self.stem) :]

    @property
    def parent(self) -> ObjectPath:
        """What it is directly below of."""
        return ObjectPath(self.root, self.key.rpartition("/")[0])

    def with_name(self, name: str) -> ObjectPath:
        """Another one beside it."""
        return self.parent / name

    def with_suffix(self, suffix: str) -> ObjectPath:
        """The one beside it whose last suffix is another."""
        return self.with_name(self.stem + suffix)

    def __str__(self) -> str:
        return f"{self.root}/{self.key}" if self.key else self.root


#: A name in a control store.
Place = Path | ObjectPath


def asks_server(place: Place) -> bool:
    """Whether each look at the place is a request to a server; in a folder it costs next to nothing."""
    return isinstance(place, ObjectPath)


def place_from(text: str) -> Place:
    """What `str` made of a place: for whoever was handed it by a driver that has checked it.

    >>> place_from("s3://bucket/control") / "gates", place_from("/shared/control").name
    (ObjectPath(root='s3://bucket', key='control/gates'), 'control')
    """
    found = _URL.match(text)
    if found is None or found[1].lower() not in (*SCHEMES, _MEMORY):
        return Path(text)
    parts = urlsplit(text)
    key = "/".join(filter(None, parts.path.split("/")))
    return ObjectPath(f"{parts.scheme}://{parts.netloc}", key)


def control_place(control: str | os.PathLike[str] | Place) -> Place:
    """The place that people or Spark wrote, if it can be one."""
    if isinstance(control, ObjectPath):
        return control
    if not isinstance(control, str | os.PathLike) or not os.fspath(control):
        raise ControlFolderError(
            f"control={control!r}: give a folder that the driver and every executor can read and "
            "write, or an address in an object store (s3://bucket/path)"
        )
    text = os.fspath(control)
    if text.startswith("file:/"):  # as Spark writes it: file:/tmp/x, or file:///tmp/x
        text = "/" + unquote(text[len("file:") :]).lstrip("/")
    found = _URL.match(text)
    if found is None:
        return Path(text).absolute()
    return _checked(text, found[1].lower())


def address_alone(what: str, text: str, error: type[BadArgument | ControlFolderError]) -> str:
    """The address as it may be shown; refused where credentials or options were given with it.

    `what` names the argument. A path of a folder is itself.

    >>> address_alone("checkpoint", "s3a://bucket/x", BadArgument)
    's3a://bucket/x'
    """
    found = _URL.match(text)
    if found is None or found[1].lower() == "file":
        return text
    try:
        scheme, parts = found[1].lower(), urlsplit(text)
    except ValueError as why:  # brackets that do not pair
        shown = text.rpartition("@")[2]  # what is in front may be a password
        raise error(f"{what}={shown!r} is no address ({why}): write s3://bucket/path") from None
    shown = f"{scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    user = parts.netloc.rpartition("@")[0]
    container = scheme in ("abfs", "abfss")  # abfss://container@account.dfs.core.windows.net/path
    if ":" in user or (user and not container) or parts.query or parts.fragment:
        raise error(
            f"{what}={shown!r} was given with credentials or options in the address (a user, "
            "or what is behind a '?' or '#'), which would end up in plans and logs: give "
            "the address alone. Credentials come from the environment, an instance's role or the "
            "standard configuration, on the driver and on every executor"
        )
    return shown


def _checked(text: str, scheme: str) -> ObjectPath:
    shown, parts = address_alone("control", text, ControlFolderError), urlsplit(text)
    if scheme not in (*SCHEMES, _MEMORY) or not parts.netloc or not text.startswith(f"{scheme}://"):
        legal = ", ".join(f"{name}://" for name in SCHEMES)
        raise ControlFolderError(
            f"control={shown!r}: give a folder that the driver and every executor can open (a local "
            "folder on one machine, NFS or a mounted volume on a cluster), or an address in an object "
            f"store, bucket and path, that begins with one of {legal}"
        )
    place = place_from(text)
    assert isinstance(place, ObjectPath)
    for part in place.key.split("/") if place.key else ():
        if part in (".", ".."):
            raise ControlFolderError(f"control={shown!r}: {part!r} is no name of an object")
    return place
