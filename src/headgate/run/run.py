"""`Run`: one gate, guard, join or meter of results at work in one query, as its batches end.

The control loop knows nothing else. What they share is here: each batch is taken up once, in order;
records that cannot be written wait; people's changes of settings are taken up between batches; what was
learned outlasts a restart; the store is kept small.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

from headgate.core.plan import Plan
from headgate.errors import HeadgateError
from headgate.run.report import Report
from headgate.run.spec import SettledSpec, Spec
from headgate.settings import GateSettings
from headgate.store.change_mark import last_change
from headgate.store.folder import read_json, write_json
from headgate.store.keeping.upkeep import Upkeep
from headgate.store.ledger.bookkeeper import Bookkeeper
from headgate.store.ledger.records import Ledger, Record, Target
from headgate.store.ledger.standing import Standing
from headgate.store.places.place import Place, asks_server
from headgate.store.plans import PinnedPlan, PlanStore
from headgate.store.settings_file import SettingsFile

__all__ = ["BookedRun", "Run", "SettledRun"]

log = logging.getLogger("headgate")

#: How often an object store is asked whether people changed settings: each look is a request.
_ASK_S = 2.0
#: A command of an earlier version leaves no mark of what it changed: that is seen so late.
_ASK_ANYWAY_S = 60.0
#: So many changes of settings are remembered for batches that ran while they were made.
_REMEMBERED = 16

S = TypeVar("S", bound=Spec)
R = TypeVar("R", bound=Report)
WithSettings = TypeVar("WithSettings", bound=SettledSpec)


class Run(ABC, Generic[S, R]):
    """Reports of batches in, each taken up once."""

    def __init__(self, spec: S, query: str) -> None:
        self.spec, self.query = spec, query
        self.last_batch = -1

    def handle(self, report: R) -> Record | None:
        """A batch of its query ended; None if it was taken up before, or nothing is recorded of it."""
        batch = report.sample.batch_id
        if batch <= self.last_batch:
            return None
        self.last_batch = batch
        return self.take_up(report)

    @abstractmethod
    def take_up(self, report: R) -> Record | None:
        """Learn from the batch, decide, record."""

    def pass_over(self, batch: int) -> None:
        """A batch ended that had nothing for it."""
        self.last_batch = max(self.last_batch, batch)

    def refresh(self) -> None:
        """Between batches: look whether something has changed."""

    def finish(self) -> None:
        """Its query is over: write what could not be written before."""

    def standing(self) -> dict[str, Any] | None:
        """How it stands, for people; None where that must be looked up."""
        return None


class _Shown:
    """What people are shown of a run, kept up from its first record on.

    It does not know the run: upkeep takes a query for living as long as its run is there, and one that
    refers to itself is there until somebody collects garbage.
    """

    def __init__(self, control: Place, name: str, query: str) -> None:
        self._of = control, name, query
        self.standing: Standing | None = None

    def take(self, record: Record) -> None:
        """A record is in the ledger."""
        if self.standing is None:
            self.standing = Standing(Ledger(*self._of))
        self.standing.take(record)


class BookedRun(Run[S, R]):
    """A run with a folder of its own: plans, records, what was learned."""

    #: What people call it, and the file of what it learns.
    KIND: ClassVar[str]
    LEARNED: ClassVar[str] = ""

    def __init__(self, spec: S, query: str, clock: Callable[[], float] = time.time) -> None:
        super().__init__(spec, query)
        self._clock = clock
        retention_s = self.begin()  # before anybody may expire records by another one
        self._store = PlanStore(spec.control, spec.name, query, clock)
        self._ledger = Ledger(spec.control, spec.name, query)
        self._shown = _Shown(spec.control, spec.name, query)
        self._books = Bookkeeper(self._ledger, str(self), self._shown.take)
        #: As it was last told.
        self._told_state = ""
        #: Why what was learned could not be written last; empty where it was.
        self._unwritten = ""
        self.upkeep = Upkeep.of_run(spec.control, spec.name, query, retention_s, clock)

    def __str__(self) -> str:
        return f"{self.KIND} {self.spec.name!r} of query {self.query}"

    def take_up(self, report: R) -> Record:
        """Let it learn, publish the next plan, and keep the books."""
        self.refresh()
        self.learn(report)
        self.publish()
        record = self.record(report)
        self._tell_state(record)
        try:
            self._books.add(record)
        except OSError as error:
            log.warning("%s: batch %d is not in the ledger (%s)", self, record.batch, error)
        else:
            self.upkeep.after(record.batch, self.upkeep.retention_s)
            self._try_to_remember(report)
        return record

    def _try_to_remember(self, report: R) -> None:
        """The decision is made and recorded: where this fails, only a restart has less to go on from."""
        try:
            self.remember(report)
            self._unwritten = ""
        except Exception as error:  # whatever a person's controller says that it learned
            before, self._unwritten = self._unwritten, f"{type(error).__name__}: {error}".splitlines()[0]
            if before != self._unwritten:
                log.warning("%s: what was learned cannot be written (%s)", self, self._unwritten)
                log.debug("details", exc_info=error)

    def standing(self) -> dict[str, Any] | None:
        """From its first batch on, without a look at the ledger."""
        if self._shown.standing is None:
            return None
        kind = {"kind": self.KIND, **self.shown_settings()}
        return {**kind, **self._shown.standing.to_json(self._store.last_published)}

    def shown_settings(self) -> dict[str, Any]:
        """The settings that hold, where people may change them."""
        return {}

    def _tell_state(self, record: Record) -> None:
        """One line in the log when the state changes, and none for a batch."""
        if record.state != self._told_state:
            if self._told_state or record.state != "idle":
                log.info(
                    "%s: %s -> %s (%s)", self, self._told_state or "start", record.state, record.why
                )
            self._told_state = record.state

    @abstractmethod
    def begin(self) -> float:
        """Read the settings that hold; how long records are kept, in seconds."""

    @abstractmethod
    def learn(self, report: R) -> None:
        """Take up what the batch says."""

    @abstractmethod
    def record(self, report: R) -> Record:
        """The batch as the ledger has it."""

    def publish(self) -> None:
        """Leave the plan for the next batch."""

    def remember(self, report: R) -> None:
        """Write down what was learned; raises where that cannot be done, which costs nothing else."""

    def refresh(self) -> None:
        """Try again what could not be written."""
        self._books.retry()

    def finish(self) -> None:
        """Try a last time what could not be written."""
        self._books.retry()

    def booked(self, report: R, **of_its_kind: Any) -> Record:
        """The record, with what all kinds have in common."""
        sample = report.sample
        return Record(
            gate=self.spec.name,
            query=self.query,
            batch=sample.batch_id,
            arrived=sample.arrived,
            kept=sample.kept,
            started_at=sample.started_at,
            duration_s=sample.duration_s,
            parts_ms=dict(report.parts_ms),
            delay_s=sample.delay_s,
            backlog=sample.backlog,
            offsets=list(report.offsets),
            target=self.target_of_batch(sample.started_at),
            **of_its_kind,
        )

    def target_of_batch(self, began: float) -> Target:
        """What was to be held while a batch ran that began then."""
        return Target()

    def pinned(self, batch: int) -> PinnedPlan | None:
        """What the batch was pinned to, as far as that can be read."""
        try:
            return self._store.pinned(batch)
        except (OSError, ValueError):
            return None

    def current(self) -> Plan | None:
        """The plan that holds now, as far as that can be read."""
        try:
            return self._store.current()
        except (OSError, ValueError):
            return None

    def load_learned(self) -> Any:
        """What a run before this one wrote; None if there is nothing, or it cannot be read."""
        try:
            return read_json(self._store.folder / self.LEARNED)
        except (OSError, ValueError) as error:
            log.warning("%s: what was learned cannot be read (%s); starting afresh", self, error)
            return None

    def save_learned(self, value: Any) -> None:
        """For the next run; not synced, since the next batch writes it again."""
        write_json(self._store.folder / self.LEARNED, value, lasting=False)


class SettledRun(BookedRun[WithSettings, R]):
    """A run whose settings people may change while it is at work."""

    #: The settings that held, and since when: the latest stand last. A batch may run while they change,
    #: and reports may wait.
    _held: deque[tuple[float, GateSettings]]
    #: People's changes as an object store had them: when it was asked, by this process's clock, and the
    #: mark of the latest change in the whole store.
    _asked: tuple[float, str | None, dict[str, Any]] | None = None

    @property
    def settings(self) -> GateSettings:
        """Those that hold now."""
        return self._held[-1][1]

    @settings.setter
    def settings(self, settings: GateSettings) -> None:
        self._held.append((self._clock(), settings))

    def target_of_batch(self, began: float) -> Target:
        """That of the settings of its time; its plan was made by them."""
        held = next((s for since, s in reversed(self._held) if since <= began), self._held[0][1])
        return Target(held.target_s, held.target_of)

    def begin(self) -> float:
        """What its code says, with people's changes on top."""
        self._held = deque(maxlen=_REMEMBERED)
        self.settings = self.effective_settings(self.spec.settings)
        return self.settings.retention_s

    def shown_settings(self) -> dict[str, Any]:
        """The settings that hold."""
        return {"settings": self.settings.to_json()}

    def effective_settings(self, otherwise: GateSettings) -> GateSettings:
        """What its own code says, with people's changes on top; `otherwise` if those cannot be read.

        Not what ``gate.json`` says: another application may have declared one of the name since.
        """
        try:
            return self.spec.settings.changed(self._overrides())
        except (OSError, HeadgateError, ValueError) as error:
            log.warning("%s: settings cannot be read (%s)", self, error)
            return otherwise

    def _overrides(self) -> dict[str, Any]:
        """What people changed. A file is looked at whenever it matters, a server every two seconds.

        There it is one request for all gates: whether anything was changed at all.
        """
        file = SettingsFile(self.spec.control, self.spec.name)
        if not asks_server(self.spec.control):
            return file.overrides()
        now, mark = time.monotonic(), last_change(self.spec.control, _ASK_S)
        if self._asked is None or self._asked[1] != mark or now - self._asked[0] >= _ASK_ANYWAY_S:
            self._asked = now, mark, file.overrides()
        return self._asked[2]
