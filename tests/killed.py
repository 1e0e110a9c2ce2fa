"""A process that is killed between two steps, at every one of them in turn."""

from __future__ import annotations

import os
from collections.abc import Callable

#: Calls of the system that change files, or make a change last.
_STEPS = ("mkdir", "open", "fsync", "rename", "replace", "link", "unlink")


def killed_at(number: int, work: Callable[[], object]) -> bool:
    """Do the work in a process that is killed at its n-th call that changes files; whether it was."""
    child = os.fork()
    if child == 0:
        calls = 0
        for name in _STEPS:
            real = getattr(os, name)

            def killing(*given: object, _real: Callable[..., object] = real, **named: object) -> object:
                nonlocal calls
                calls += 1
                if calls == number:
                    os._exit(9)
                return _real(*given, **named)

            setattr(os, name, killing)
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
