"""`Record`: one batch through one gate, guard or join, as the ledger keeps it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self, TypeVar

from headgate.core.batch_size import RowsExpected
from headgate.core.plan import Plan
from headgate.errors import SnapshotError

__all__ = ["Evidence", "Findings", "Record", "Size", "Target"]

_VERSION = 1


@dataclass(frozen=True)
class Findings:
    """What a mechanism says of a batch besides its rows; each has its own names."""

    #: Rows by value class; the largest groups that kept no row; a guard's dropped rows by reason, and
    #: the failed among the kept.
    groups: dict[str, int] = field(default_factory=dict)
    #: What else was measured, by name.
    measures: dict[str, float] = field(default_factory=dict)
    #: Of a join, for each of the latest windows: its start, the pairs found, the estimate of those
    #: missed, the share found and that share's standard error.
    windows: list[list[float]] = field(default_factory=list)


@dataclass(frozen=True)
class Evidence:
    """What speaks for a gate's counts, and against them."""

    #: Of the kept rows, whatever their order (`headgate.spark.gate.fingerprint`); empty where unknown.
    fingerprint: str = ""
    #: Who confirms `arrived` (`headgate.core.witness`), and why it cannot be trusted, in words.
    witness: str = ""
    doubt: str = ""
    #: Rows that the sources handed out, over all passes, as far as they say.
    handed_out: int | None = None
    #: Whether the counts are from reading the batch again, after the first ones were lost or doubtful.
    repaired: bool = False


@dataclass(frozen=True)
class Size:
    """How large a batch was expected to be when its plan was pinned."""

    #: Rows; None where nobody could tell.
    expected_rows: float | None = None
    #: What they were read from (`headgate.core.batch_size`): offsets, steps, bytes or files.
    size_known_by: str = ""

    @classmethod
    def of(cls, expected: RowsExpected | None) -> Self:
        """As a pin has it."""
        return cls() if expected is None else cls(expected.rows, expected.known_by)


@dataclass(frozen=True)
class Target:
    """What was to be held while a batch ran: people change it while the query goes on."""

    #: Seconds; None where none was to be held, or where a version wrote the record that did not note it.
    target_s: float | None = None
    #: Of what: ``duration``, ``delay`` or ``queue``; ``share`` where a share of rows was asked for, and
    #: empty where nobody noted it.
    target_of: str = ""


@dataclass(frozen=True)
class Record:
    """One batch through one gate.

    `arrived` is counted in front of the gate and `kept` behind it, by meters that know nothing of
    each other or of the plan; `shed` is what came and did not pass. A guard counts what it sheds by
    itself, row by row and reason by reason. A join sheds comparisons: those that the full join makes,
    those it made, those it skipped; of rows, where it leaves some out, its measures tell.

    In JSON all fields lie flat, those of its parts too, as 0.1.0 wrote them.
    """

    gate: str
    query: str
    batch: int
    arrived: int
    kept: int
    shed: int
    plan: Plan
    #: The digest of the `GateShape` that the rows met: which columns, which seed.
    shape: str = ""
    #: Why this plan: plan, start, fail-open, fail-closed, or unpinned; lost-plan where the batch had run
    #: before and what it met then cannot be known any more; rescued where runs before did not end it,
    #: and it was run with fewer rows.
    origin: str = "plan"
    mode: str = "shed"
    #: In monitor mode, the rows that would have been shed.
    would_shed: int = 0
    state: str = ""
    why: str = ""
    started_at: float = 0.0
    duration_s: float = 0.0
    parts_ms: dict[str, int] = field(default_factory=dict)
    delay_s: float | None = None
    backlog: int | None = None
    #: Where the batch's rows are in the sources: what a backfill reads again.
    offsets: list[dict[str, Any]] = field(default_factory=list)
    #: Whose record it is: a gate's (follows a plan), a guard's (follows the clock), or a join's.
    kind: str = "gate"
    #: The run of the query that ended it, counted from the first that began it; counted only by a gate
    #: with `rescue`.
    attempt: int = 1
    #: The batch that its writer had recorded before it: a record that was there when this one came. None
    #: of a writer's first, and of a recount. It is no part of what the batch was.
    after: int | None = field(default=None, compare=False)
    size: Size = field(default_factory=Size)
    found: Findings = field(default_factory=Findings)
    evidence: Evidence = field(default_factory=Evidence)
    target: Target = field(default_factory=Target)

    @property
    def balanced(self) -> bool:
        """Whether no row is unaccounted for, and none came from nowhere.

        Under a plan that keeps everything (or nothing) this is exact: the two meters must agree.
        """
        if self.arrived != self.kept + self.shed or self.kept < 0 or self.shed < 0:
            return False
        if self.kind in ("guard", "join"):
            return True
        if self.plan.keeps_everything:
            return self.shed == 0
        return self.kept == 0 if self.plan.keeps_nothing else True

    def to_json(self) -> dict[str, Any]:
        """As one line of the ledger has it, and `headgate ledger show --json`."""
        value = asdict(self)
        value |= value.pop("size") | value.pop("found") | value.pop("evidence")
        value |= value.pop("target")
        value["plan"] = self.plan.to_json()
        value["digest"] = self.plan.digest
        return {"v": _VERSION, **value}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """What `to_json` wrote, in this version or an earlier one."""
        try:
            known = _known(cls, value)
            known["plan"] = Plan.from_json(value["plan"])
            known["size"] = Size(**_known(Size, value))
            known["found"] = Findings(**_known(Findings, value))
            known["evidence"] = Evidence(**_known(Evidence, value))
            known["target"] = Target(**_known(Target, value))
            return cls(**known)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise SnapshotError(f"a line of the ledger is no record ({error})") from error


_T = TypeVar("_T", Record, Size, Findings, Evidence, Target)


#: What the fields hold, by how their type is written; the parts and the plan read themselves.
_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "bool": (bool,),
    "int": (int,),
    "int | None": (int, type(None)),
    "float": (int, float),
    "float | None": (int, float, type(None)),
}


#: No count, time or duration is beyond, and NaN is not within: clocks and JSON could not show it.
_MOST = 1e18


def _known(kind: type[_T], value: dict[str, Any]) -> dict[str, Any]:
    """The fields of this kind among the value's, if they are what it holds: nobody else asks again."""
    found = {f.name: value[f.name] for f in fields(kind) if f.name in value}
    for one in fields(kind):
        if one.name in found and not _fits(str(one.type), found[one.name]):
            raise ValueError(f"{one.name} is {str(found[one.name])[:40]!r}")
    return found


def _fits(kind: str, given: Any) -> bool:
    if kind in _KINDS:
        within = type(given) not in (int, float) or -_MOST <= given <= _MOST
        return type(given) in _KINDS[kind] and within
    if kind in ("dict[str, int]", "dict[str, float]"):
        return isinstance(given, dict) and all(type(one) in (int, float) for one in given.values())
    if kind == "list[list[float]]":
        return isinstance(given, list) and all(_numbers(one) for one in given)
    if kind == "list[dict[str, Any]]":
        return isinstance(given, list) and all(isinstance(one, dict) for one in given)
    return True


def _numbers(given: Any) -> bool:
    return isinstance(given, list) and all(type(one) in (int, float, type(None)) for one in given)
