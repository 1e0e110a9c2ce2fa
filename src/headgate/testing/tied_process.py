"""A child process that does not outlive the one that started it, even if that one is killed.

A process that gets SIGKILL runs no handlers, so nothing in it can stop its children. What it cannot take
with it is the write end of a pipe: the kernel closes that. So a small process stands between the two. It
starts the child, reads that pipe as its own standard input, and ends the child when the pipe ends.
It is a script of the standard library alone, the same on Linux and macOS (where there is no
PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import IO

__all__ = ["kill_tied", "start_tied"]

#: How long a child has to end in order when its starter is gone.
_GRACE_S = 3.0
#: How long one that was killed is waited for. It takes some milliseconds; but where the first process of
#: a container buries nobody, the dead are there for ever.
_GONE_S = 3.0


def start_tied(
    command: list[str],
    output: IO[bytes],
    *,
    folder: Path | None = None,
    environment: dict[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start `command`, tied to this process; the handle is of the process between.

    It runs in `folder` and with `environment`, or in this process's.

    That one has a session of its own, passes SIGTERM on, and has the child's exit code. A ctrl-C at
    the terminal does not reach them: it must reach the caller first, who stops them in order.
    """
    return subprocess.Popen(
        [sys.executable, "-I", __file__, *command],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        cwd=folder,
        env=environment,
        start_new_session=True,
    )


def kill_tied(process: subprocess.Popen[bytes], within_s: float = 20.0) -> None:
    """Kill both, the process between and its child, at once; return when both are gone.

    The child is nobody's here, and cannot be waited for; but until it is gone it holds its ports.
    """
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(within_s)
        until = time.monotonic() + _GONE_S
        while time.monotonic() < until:
            os.killpg(process.pid, 0)
            time.sleep(0.01)


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    with suppress(subprocess.TimeoutExpired):
        child.wait(_GRACE_S)
        return
    child.kill()


def _stand_between(command: list[str]) -> int:
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def pass_on(number: int, frame: FrameType | None) -> None:
        child.terminate()

    def watch() -> None:
        while os.read(0, 4096):
            pass
        _end(child)

    signal.signal(signal.SIGTERM, pass_on)
    threading.Thread(target=watch, daemon=True).start()
    code = child.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(_stand_between(sys.argv[1:]))
