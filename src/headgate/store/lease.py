"""Whose gate it is: a lease on (gate, query), held by one driver process, and alive by what that writes.

Two runs of one query (a copied checkpoint, a driver that is not quite dead) would share pins and ledger,
so the second one is refused while the first lives, and takes over when that is gone. Nobody's clock is
compared with anybody else's: the holder counts its beats up, and whoever wants to know whether it lives
watches the count by a clock of their own. A count that moves is a living holder; one that stands still
for `GONE_S` is a dead one. Where holder and watcher are on one machine, an ended process is known
to be gone at once.

The count is in the lease itself, and in the file in which its driver speaks for all of its gates
(`headgate.store.beats`): what is watched is the sum of both. Drivers of earlier versions have no such
file, and beat in each lease.

Read by Spark's Python workers once a batch, so this module imports little.
"""

from __future__ import annotations

import functools
import os
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from headgate.errors import OwnedElsewhere
from headgate.store.beats import DriverBeats, heard_of, may_be_owner
from headgate.store.file_age import age_by_the_store
from headgate.store.folder import write_json
from headgate.store.places.contract import Held
from headgate.store.places.place import Place
from headgate.store.places.stores import store_of
from headgate.store.stored_json import parsed_json

__all__ = ["BEAT_S", "GONE_S", "Holder", "Lease", "Watch", "own_holder", "this_process"]

#: A holder says every so often that it lives.
BEAT_S = 2.0
#: One that has not been heard for so long is taken for gone.
GONE_S = 20.0
#: How often a count is looked at while somebody waits for it to move.
_LOOK_S = 0.25


@dataclass(frozen=True)
class Holder:
    """A driver process, and how often it has said that it lives."""

    #: Names the process's control loop, for good and everywhere.
    owner: str
    #: The run of the query that it steers.
    run: str = ""
    beat: int = 0
    released: bool = False
    #: Whether its query failed: a batch of it may have run, and left no pin.
    failed: bool = False
    #: For people, and for a look at the process from the machine that it is on.
    host: str = ""
    boot: str = ""
    pid: int = 0
    pid_started: str = ""

    @property
    def described(self) -> str:
        """Who it is, for people."""
        return f"process {self.pid} on {self.host or 'an unknown host'}"

    def surely_gone(self) -> bool:
        """Whether this machine can tell that the process has ended."""
        if not self.pid or not self.boot or (self.host, self.boot) != _machine():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OverflowError:
            return False  # no number of a process: nothing can be told
        except OSError:
            pass  # another user's: it is there
        started = _pid_started(self.pid)
        return bool(started) and started != self.pid_started

    @classmethod
    def from_json(cls, value: Any) -> Holder | None:
        """What was written; None if that is no holder."""
        if not isinstance(value, dict) or "owner" not in value:
            return None
        kinds = {f.name: str if f.default is MISSING else type(f.default) for f in fields(cls)}
        known = {name: given for name, given in value.items() if name in kinds}
        right = all(type(given) is kinds[name] for name, given in known.items())
        return cls(**known) if right and may_be_owner(known["owner"]) else None


@functools.cache
def _machine() -> tuple[str, str]:
    """The host, and what makes its process numbers its own: the boot, and the container's namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        boot += " " + os.readlink("/proc/self/ns/pid")
    except OSError:
        boot = ""  # not Linux: processes are known by their beats alone
    return socket.gethostname(), boot


def _pid_started(pid: int) -> str:
    """When a process began, in the kernel's ticks: a number is used again for another process.

    Empty where that cannot be read; one that has ended and is not yet collected began never.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    state, *rest = text.rpartition(")")[2].split()
    return "ended" if state == "Z" else rest[18]


@functools.cache
def this_process() -> Holder:
    """This process as a holder of leases; the same for as long as it lives."""
    host, boot = _machine()
    pid = os.getpid()
    return Holder(uuid.uuid4().hex, host=host, boot=boot, pid=pid, pid_started=_pid_started(pid))


class Watch:
    """How long holders have been silent, as far as this process has seen. Its clock is its own."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[str, int, float]] = {}

    def silent_s(self, of: str, holder: Holder, at_first: Callable[[], float] | None = None) -> float:
        """Seconds for which the holder of lease `of` has been seen to say nothing new.

        `at_first` says so for one that is looked at for the first time.
        """
        now = self._clock()
        if of not in self._seen and at_first is not None:
            self._seen[of] = (holder.owner, holder.beat, now - at_first())
        owner, beat, since = self._seen.get(of, ("", -1, now))
        if (owner, beat) != (holder.owner, holder.beat):
            self._seen[of] = (holder.owner, holder.beat, now)
            return 0.0
        return now - since

    def begin(self, of: str, holder: Holder) -> None:
        """The lease was taken this moment: what was heard of it before says nothing any more."""
        self._seen[of] = (holder.owner, holder.beat, self._clock())


class Lease:
    """The lease on one gate in one query; `folder` is where the query's plans are."""

    def __init__(
        self,
        folder: Place,
        watch: Watch | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        within: tuple[Place, str, str] | None = None,
    ) -> None:
        """`within` is the control store, the gate and the query: without it a lease beats for itself."""
        self.place: Place = folder / "lease.json"
        self._within = within
        self._watch = watch or Watch(clock)
        self._clock, self._sleep = clock, sleep
        #: Who had it when it was last looked at, and when that was written, by the store's clock.
        self._last: Holder | None = None
        self._written_at: float | None = None
        #: The count that is in the lease's own file.
        self._own_beat = 0

    def holder(self) -> Holder | None:
        """Who has it; None if nobody ever had, or what is there cannot be read as a lease."""
        return self.seen(store_of(self.place).get(self.place))

    def seen(
        self, held: Held | None, heard: Mapping[str, DriverBeats | None] | None = None
    ) -> Holder | None:
        """The same, of what somebody has read there a moment ago, and in drivers' files, by owner."""
        self._written_at = None if held is None else held.written_at
        found = own_holder(held)
        self._own_beat = 0 if found is None else found.beat
        self._last = None if found is None else self._vouched(found, heard or {})
        return self._last

    def _vouched(self, holder: Holder, heard: Mapping[str, DriverBeats | None]) -> Holder:
        """The holder with the beats that its driver's file has for it."""
        if self._within is None or holder.released:
            return holder
        control, gate, query = self._within
        owner = holder.owner
        driver = heard[owner] if owner in heard else heard_of(control, owner)
        beat = None if driver is None else driver.of(gate, query)
        if driver is None or beat is None:
            return holder
        self._written_at = max(self._written_at or 0.0, driver.written_at - beat.age_s)
        return replace(holder, beat=holder.beat + beat.count)

    def alive(self, *, look: bool = True) -> bool:
        """Whether somebody has it, and has not been silent for too long, as far as was seen here.

        Without `look`, as of the last look: `claim` has looked a moment ago.
        """
        holder = self.holder() if look else self._last
        if holder is None or holder.released:
            return False
        return self._watch.silent_s(str(self.place), holder, self._silent_by_the_store) < GONE_S

    def _silent_by_the_store(self) -> float:
        """How old the last beat is: for a worker that has no memory of the holder.

        One that has watched it needs no file.
        """
        return age_by_the_store(self.place, self._written_at)

    @property
    def written_at(self) -> float | None:
        """When what was last seen of it was written, by the store's clock."""
        return self._written_at

    def beat(self, me: Holder, seen: Holder | None = None) -> bool:
        """Say that `me` lives; False where somebody else has the lease now.

        `seen` is who has it, where that was looked at a moment ago.
        """
        holder = seen or self.holder()
        if holder is not None and holder.owner != me.owner and not self._free(holder):
            return False
        count, run = 0, me.run
        if holder is not None and holder.owner == me.owner:
            count, run = self._own_beat + 1, me.run or holder.run
        self._write(replace(me, beat=count, run=run, released=False))
        return True

    def release(self, me: Holder, run: str | None = None, failed: bool = False) -> None:
        """Give it back, if it is ours (and of this run): the next one need not wait."""
        returned = self.returned(store_of(self.place).get(self.place), me, run, failed)
        if returned is not None:
            self._write(returned)

    def returned(
        self, held: Held | None, me: Holder, run: str | None = None, failed: bool = False
    ) -> Holder | None:
        """What the lease says once it is given back; None where it is not ours (and of this run)."""
        holder = own_holder(held)
        if holder is None or holder.owner != me.owner or holder.released:
            return None
        if run is not None and holder.run not in ("", run):
            return None
        return replace(holder, released=True, failed=failed)

    def claim(self, me: Holder, what: str, *, look: bool = True) -> bool:
        """Make sure that `me` has it: at once where it is free or ours, else once its holder is gone.

        Without `look`, from who had it at the last look.

        True where the run before did not end well: it did not give the lease back, or it failed. Raises
        `OwnedElsewhere` where the holder lives; that is known as soon as its count moves.
        """
        first = holder = self.holder() if look else self._last
        if first is not None and first.owner == me.owner:
            if not first.released and me.run in ("", first.run):
                return False
            if first.released and me.run and first.run == me.run:
                return False  # the loop of this very run has ended: the gate is steered by nobody
        since, moves, last = self._clock(), 0, first
        while not (holder is None or holder.owner == me.owner or self._free(holder)):
            if last is None or (holder.owner, holder.beat) != (last.owner, last.beat):
                # Heard this moment: its silence begins anew, and so does one that has just taken over.
                moves, last, since = moves + 1, holder, self._clock()
            if moves >= 2:  # once may be its last word, before it gives the lease back
                raise OwnedElsewhere(
                    f"{what} is steered by {holder.described}, which is alive: two runs of one query "
                    "would share its plans and its ledger. Stop one of them; a query with a copied "
                    "checkpoint needs a control folder of its own"
                )
            if self._clock() - since >= GONE_S:
                self._write(me)  # and look: of two that waited as long, the last one has it
            self._sleep(_LOOK_S)
            holder = self.holder()
        if holder != me:
            self._write(me)
        self._watch.begin(str(self.place), me)
        return first is not None and _ended_badly(first, me)

    def _write(self, holder: Holder) -> None:
        # Written again and again: no disk is waited for.
        write_json(self.place, asdict(holder), lasting=False)
        self._last, self._written_at, self._own_beat = holder, None, holder.beat

    @staticmethod
    def _free(holder: Holder) -> bool:
        return holder.released or holder.surely_gone()


def own_holder(held: Held | None) -> Holder | None:
    """Who has a lease by what its own file says; None where that is no lease."""
    try:
        return None if held is None else Holder.from_json(parsed_json(held.data))
    except ValueError:
        return None


def _ended_badly(before: Holder, me: Holder) -> bool:
    """Whether the run before this one was killed, or failed, or could not reach the folder any more."""
    if before.released:
        return before.failed
    return before.owner != me.owner or bool(before.run and me.run and before.run != me.run)
