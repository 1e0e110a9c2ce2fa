"""An object store as a control store: S3, Google Cloud Storage, Azure, by the package `obstore`.

A put is atomic there, a listing has what was put, and `create` is a conditional put, which the server
refuses where the name is taken. Credentials are the environment's, an instance's role's or the standard
configuration's, and nobody else's: nothing of them is in an address, an option, a plan or a log.

Read by Spark's Python workers once a batch, so this module imports little.
"""

from __future__ import annotations

import errno
import importlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, TypeVar

from headgate.errors import ControlFolderError, MissingExtra
from headgate.store.places.aws_profile import shared_credentials
from headgate.store.places.contract import Entry, Held, Store
from headgate.store.places.place import ObjectPath

__all__ = ["Objects", "Patience"]

#: Objects that are read at once: enough to hide the way to a server, few enough for one connection pool.
_AT_ONCE = 16
#: Before a request is sent again; twice as long each time, and at most that.
_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0
#: Where credentials are refused, they are looked up again at most so often.
_REOPEN_S = 60.0
_ERRNOS = {
    "FileNotFoundError": errno.ENOENT,  # of a put: there is no such bucket
    "PermissionDeniedError": errno.EACCES,
    "UnauthenticatedError": errno.EACCES,
}
_G = TypeVar("_G")
_F = TypeVar("_F")
_QUERY = re.compile(r"(https?://[^\s?]*)\?\S*")


@dataclass(frozen=True)
class Patience:
    """How long a store is waited for; beyond that a gate fails open or closed, as it was told."""

    #: For a connection; a server in the same region answers in milliseconds.
    connect_s: float = 3.0
    #: For one request. Objects here are small.
    request_s: float = 5.0
    #: A request that failed is sent again, with growing pauses: servers ask for it when they are busy.
    retries: int = 4
    #: All of it together. Shorter than the silence after which a driver is taken for gone (20 s).
    in_all_s: float = 15.0

    @property
    def begins_s(self) -> float:
        """Until when a request may begin once more: the last one must end in time, too."""
        return self.in_all_s - self.request_s


class Objects(Store[ObjectPath]):
    """One bucket or container."""

    _open: ClassVar[dict[tuple[int, str], Objects]] = {}
    _opening = threading.Lock()

    def __init__(self, root: str, store: Any, obstore: Any, patience: Patience | None = None) -> None:
        self._root, self._store, self._obstore = root, store, obstore
        self._patience = patience or Patience()
        self._opened_at = time.monotonic()

    @classmethod
    def at(cls, root: str) -> Objects:
        """The bucket of this address, opened once in each process: connections do not outlive a fork."""
        key = os.getpid(), root
        found = cls._open.get(key)
        if found is None:
            with cls._opening:
                found = cls._open.get(key) or cls(root, _opened(root), _obstore())
                cls._open[key] = found
        return found

    @classmethod
    def serve(cls, root: str, store: Any, patience: Patience | None = None) -> None:
        """Let this process use a store of `obstore` under an address of its own: for tests."""
        cls._open[os.getpid(), root] = cls(root, store, _obstore(), patience)

    @classmethod
    def forget(cls) -> None:
        """Open every bucket anew when it is asked for: the environment has changed."""
        cls._open.clear()

    def get(self, at: ObjectPath) -> Held | None:
        """The object's content."""
        with self._as_os_errors(at):
            try:
                found = self._obstore.get(self._store, at.key)
                return Held(bytes(found.bytes()), found.meta["last_modified"].timestamp())
            except FileNotFoundError:
                return None

    def get_all(self, places: Iterable[ObjectPath]) -> list[Held | None]:
        """The contents of many, several at once."""
        return _many(self.get, list(places))

    def put(self, at: ObjectPath, data: bytes, *, lasting: bool = True) -> None:
        """Replace the object; it lasts when this returns, asked for or not."""
        with self._as_os_errors(at):
            self._obstore.put(self._store, at.key, data, use_multipart=False)

    def put_all(self, values: Iterable[tuple[ObjectPath, bytes]], *, lasting: bool = True) -> None:
        """Replace many, several at once."""
        _many(lambda value: self.put(*value), list(values))

    def create(self, at: ObjectPath, data: bytes) -> bytes:
        """A conditional put. One that was sent twice, since no answer came, finds its own value.

        `obstore` sends a request again that it knows to be safe to send twice, and takes this one for
        none. Here it is: a value is this one's or another's, whoever asks for it again.
        """
        errors, began = self._obstore.exceptions, time.monotonic()
        with self._as_os_errors(at):
            for attempt in range(self._patience.retries + 1):
                try:
                    self._obstore.put(self._store, at.key, data, mode="create", use_multipart=False)
                    return data
                except errors.AlreadyExistsError:
                    held = self.get(at)
                    if held is not None:  # else another is making it, or it was deleted this moment
                        return data if held.data == data else held.data
                except errors.GenericError:
                    late = time.monotonic() - began >= self._patience.begins_s
                    if late or attempt == self._patience.retries:
                        raise
                time.sleep(_PAUSE_S * 2**attempt)
        raise OSError(errno.EAGAIN, "the object is made and deleted all the time", str(at))

    def entries(self, at: ObjectPath) -> list[Entry]:
        """The objects directly below, and the next parts of the names of those further below."""
        with self._as_os_errors(at):
            found = self._obstore.list_with_delimiter(self._store, at.key or None)
        folders = {prefix.rstrip("/").rpartition("/")[2] for prefix in found["common_prefixes"]}
        entries = [Entry(name, True, float) for name in folders]
        for meta in found["objects"]:
            if meta["path"].rstrip("/") == at.key:
                continue  # a marker of the folder itself, as consoles and some servers leave it
            name = meta["path"].rpartition("/")[2]
            entries.append(Entry(name, False, meta["last_modified"].timestamp))
        return sorted(entries, key=lambda entry: entry.name)

    def delete(self, at: ObjectPath) -> None:
        """Delete the object, if it is there."""
        with self._as_os_errors(at):
            try:
                self._obstore.delete(self._store, at.key)
            except FileNotFoundError:
                return

    def delete_many(self, places: Iterable[ObjectPath]) -> None:
        """A request for a thousand of them; what is not there is no error."""
        wanted = list(places)
        for first in range(0, len(wanted), 1000):
            some = wanted[first : first + 1000]
            if len(some) == 1:
                self.delete(some[0])
                continue
            with self._as_os_errors(some[0]), suppress(FileNotFoundError):
                self._obstore.delete(self._store, [at.key for at in some])

    def delete_all(self, at: ObjectPath) -> None:
        """Delete all below the name: a listing, and a request for a thousand of them."""
        with self._as_os_errors(at):
            for page in self._obstore.list(self._store, at.key or None, chunk_size=1000):
                self._obstore.delete(self._store, [meta["path"] for meta in page])

    def _reopen(self) -> None:
        """Read the standard configuration again: keys in it may have been exchanged since."""
        now = time.monotonic()
        if now - self._opened_at > _REOPEN_S:
            self._opened_at = now
            with suppress(ControlFolderError):
                self._store = _opened(self._root)

    @contextmanager
    def _as_os_errors(self, at: ObjectPath) -> Iterator[None]:
        """What goes wrong as an OSError, in a line, without what may be behind a '?' of an address."""
        try:
            yield
        except (self._obstore.exceptions.BaseError, FileNotFoundError) as error:
            text = _QUERY.sub(r"\1?...", (str(error).splitlines() or [""])[0])
            number = _ERRNOS.get(type(error).__name__, errno.EIO)
            if number == errno.EACCES:
                self._reopen()
            raise OSError(number, text, str(at)) from None


def _many(call: Callable[[_G], _F], given: Sequence[_G]) -> list[_F]:
    """What the call makes of each, several at once.

    One after the other where there is no pool to be had: a process on its way out takes no more work for
    them, and has leases to give back and records to write.
    """
    if len(given) < 2:
        return [call(one) for one in given]
    with ThreadPoolExecutor(min(_AT_ONCE, len(given))) as pool:
        try:
            begun = [pool.submit(call, one) for one in given]
        except RuntimeError:
            begun = []
        return [one.result() for one in begun] if begun else [call(one) for one in given]


def _obstore() -> Any:
    try:
        module: Any = importlib.import_module("obstore")
        importlib.import_module("obstore.store")
        importlib.import_module("obstore.exceptions")
    except ImportError:
        raise MissingExtra("obstore", "objects") from None
    return module


def _opened(root: str, patience: Patience | None = None) -> Any:
    """The store of `obstore` for an address; where it is and who asks is the environment's to say."""
    obstore, patience = _obstore(), patience or Patience()
    scheme = root.partition(":")[0]
    if scheme == "memory":
        raise ControlFolderError(f"control={root!r}: a store in memory is for tests within one process")
    options: dict[str, Any] = {
        "timeout": timedelta(seconds=patience.request_s),
        "connect_timeout": timedelta(seconds=patience.connect_s),
    }
    given: dict[str, Any] = {}
    if scheme in ("s3", "s3a"):
        given = shared_credentials(os.environ)
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        if endpoint:
            given["endpoint"] = endpoint
            options["allow_http"] = endpoint.startswith("http://")
    retry = {
        "max_retries": patience.retries,
        "retry_timeout": timedelta(seconds=patience.begins_s),
        "backoff": {
            "init_backoff": timedelta(seconds=_PAUSE_S),
            "max_backoff": timedelta(seconds=_LONGEST_PAUSE_S),
            "base": 2,
        },
    }
    try:
        return obstore.store.from_url(root, client_options=options, retry_config=retry, **given)
    except Exception as error:  # it raises what it likes
        raise ControlFolderError(
            f"control={root!r} cannot be opened ({str(error).splitlines()[0]}): is the address right, "
            "and are region, account and credentials in the environment?"
        ) from None
