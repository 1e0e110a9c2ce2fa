"""A name for one process at a time: a site, and its incarnation at a coordinator."""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import IO

from headgate.errors import ControlFolderError
from headgate.store.places.place import ObjectPath, Place
from headgate.store.single_process_lock import single_process_lock

__all__ = ["ProcessClaim", "claim_for_process"]

#: In an object store: a holder that was not heard for so long is gone, and it says so often that it is
#: not.
_GONE_S, _BEAT_S = 60.0, 10.0
#: How often it is looked whether a holder has said something.
_LOOK_S = 2.0


class ProcessClaim(ABC):
    """Held until it is closed, or its process has ended."""

    @abstractmethod
    def beat(self) -> bool:
        """Say that this process is still there; False where another has the name by now."""

    @abstractmethod
    def close(self) -> None:
        """Give the name back."""


class _Locked(ProcessClaim):
    """By a lock of the operating system, which ends with the process."""

    def __init__(self, lock: IO[str]) -> None:
        self._lock = lock

    def beat(self) -> bool:
        """Nobody can take a lock away."""
        return True

    def close(self) -> None:
        """Let another process have the lock."""
        self._lock.close()


class _Claimed(ProcessClaim):
    """By a claim that is renewed (`headgate.store.places.object_turns`)."""

    def __init__(
        self, at: ObjectPath, refusal: str, clock: Callable[[], float], sleep: Callable[[float], None]
    ) -> None:
        from headgate.store.places.object_turns import ObjectTurns

        self._turns = ObjectTurns(at, gone_s=_GONE_S, beat_s=_BEAT_S)
        began = clock()
        while not self.beat():
            # A holder that was killed elsewhere is silent for good; one that lives is heard meanwhile.
            if self._turns.moved() or clock() - began > _GONE_S + 2 * _BEAT_S:
                raise ControlFolderError(refusal)
            sleep(_LOOK_S)

    def beat(self) -> bool:
        """Renew it, if that was not done lately."""
        with self._turns.taken() as taken:
            return taken

    def close(self) -> None:
        """Say that it is free; where that cannot be said now, silence says it in a minute."""
        with contextlib.suppress(OSError):
            self._turns.end()


def claim_for_process(
    at: Place,
    refusal: str,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> ProcessClaim:
    """The name, for this process alone; raises with `refusal` where another has it.

    In an object store the claim of a process that was killed on another machine ends after a minute,
    and is waited for.
    """
    if isinstance(at, Path):
        return _Locked(single_process_lock(at, refusal))
    return _Claimed(at, refusal, clock, sleep)
