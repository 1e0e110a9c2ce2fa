"""The hold table: how well a gate holds its target at 0.9 to 10 times capacity.

The demo's query under a load that steps: half of what the machine sustains, then `load` times that
capacity (steadily, in bursts, or as a real trace had it), then half again; each load first without and
then with a gate. With another release beside, its gate is the third, load by load, so that what else the
machine does meets both alike. On the rate source the load is in the data: each row is multiplied
natively behind the source, whose offsets do not tell; through Kafka they do, up to a constant factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headgate.errors import BadArgument
from headgate_lab.bench.hold.arrivals import ARRIVALS, Step, factors, stepped
from headgate_lab.bench.hold.feed import rows_each
from headgate_lab.bench.hold.figures import held_figures
from headgate_lab.bench.hold.orders import Shedding
from headgate_lab.bench.hold.process import THIS, ReleaseProcess
from headgate_lab.bench.hold.setting import RATE_LEAD_S, TARGET_S, Setting, settings_of
from headgate_lab.bench.progress import bench_progress

__all__ = ["LOADS", "HoldPlan", "run"]

LOADS = (0.9, 1.0, 2.0, 5.0, 10.0)
#: Starting sessions, a broker, and measuring the capacity: seconds for each release.
_PREPARING_S = 60.0
#: The load before and after the step, by capacity.
_LOW = 0.5


@dataclass(frozen=True)
class HoldPlan:
    """Which runs there are, and how long each lasts."""

    loads: Sequence[float] = LOADS
    arrivals: Sequence[str] = ("steady",)
    source: str = "rate"
    trace: str = "web"
    beside: str | None = None
    #: Whether each load is run without a gate, too.
    ungated: bool = True
    #: All of it, capacity included; without it, each run lasts 90 s.
    minutes: float | None = None
    seed: int = 0
    #: What batches should take at most, and rows a second that count as the capacity; measured if None.
    target_s: float = TARGET_S
    capacity: float | None = None

    def __post_init__(self) -> None:
        if not self.loads or min(self.loads) <= 0:
            raise BadArgument(
                f"loads={self.loads!r}: give multiples of the capacity above 0, such as 2,5"
            )
        for kind in self.arrivals:
            if kind not in ARRIVALS:
                raise BadArgument(f"arrivals={kind!r}: give some of {', '.join(ARRIVALS)}")

    @property
    def sides(self) -> int:
        """Runs for each load and kind of arrivals."""
        return 1 + self.ungated + (self.beside is not None)

    @property
    def runs(self) -> int:
        """All runs."""
        return len(self.loads) * len(self.arrivals) * self.sides

    @property
    def step(self) -> Step:
        """When the load of each run rises and falls.

        >>> HoldPlan(loads=(2, 5), minutes=10).step.end_s
        127.0
        """
        if self.minutes is None:
            return Step()
        preparing = _PREPARING_S * (2 if self.beside else 1)
        each = (60.0 * self.minutes - preparing) / self.runs - RATE_LEAD_S - self.target_s
        if each < 30.0:
            least = (38.0 * self.runs + preparing) / 60.0
            raise BadArgument(
                f"minutes={self.minutes:g} are too few for {self.runs} runs of 30 s or more: give "
                f"{least:.0f}, fewer loads or arrivals, or leave out the side without a gate"
            )
        return Step.lasting(float(int(each)))


def run(*, quick: bool = False, plan: HoldPlan | None = None) -> dict[str, Any]:
    """One row for each load and side; ratios are shares of one run."""
    plan = plan or HoldPlan(loads=(5.0,) if quick else LOADS)
    step = plan.step  # what cannot be done is said before anything starts
    rows: list[dict[str, Any]] = []
    with bench_progress() as progress:
        task = progress.add_task("starting", total=plan.runs + (2 if plan.beside else 1))
        with settings_of(
            plan.source,
            plan.beside,
            lambda text: progress.update(task, description=text),
            target_s=plan.target_s,
            capacity=plan.capacity,
        ) as here:
            capacities = here.capacities(progress, task)
            for kind in plan.arrivals:
                for load in plan.loads:
                    for process, gated in _turns(plan, here.processes):
                        side = f"{process.release.name}, gated" if gated else "without a gate"
                        text = f"{kind}, {load:g} times capacity, {side}"
                        progress.update(task, description=text)
                        rows.append(_one(here, plan, step, kind, load, process, gated, capacities[0]))
                        progress.advance(task)
            versions = {p.release.name: p.version for p in here.processes}
            source, remarks = here.source, here.remarks
    context = {
        "target_s": plan.target_s,
        "capacity_rows_s": round(capacities[0]),
        "capacities_rows_s": [round(c) for c in capacities],
        "rows": rows,
        "source": source,
        "seconds_a_run": step.end_s,
        "versions": versions,
        "tables": {f"bench hold, rows through {source}": _shown(rows)},
        "remarks": remarks,
    }
    return {"bench": "hold", "ratios": _ratios(rows, plan.arrivals), "context": context}


def _turns(plan: HoldPlan, processes: Sequence[ReleaseProcess]) -> list[tuple[ReleaseProcess, bool]]:
    """Without a gate, if at all, in this release's session; then each release's gate."""
    bare = [(processes[0], False)] if plan.ungated else []
    return [*bare, *((process, True) for process in processes)]


def _one(
    here: Setting,
    plan: HoldPlan,
    step: Step,
    kind: str,
    load: float,
    process: ReleaseProcess,
    gated: bool,
    capacity: float,
) -> dict[str, Any]:
    shape = factors(kind, step.down_s - step.up_s, seed=plan.seed, trace=plan.trace)
    schedule = stepped(_LOW * capacity, load * capacity, step, shape)
    control = str(here.fresh("control"))
    shedding = Shedding("gate", hold_s=here.target_s, control=control) if gated else Shedding()
    each = rows_each(load * capacity)
    ran = here.run(process, schedule, shedding, unit=capacity / 20, rows=each)
    row: dict[str, Any] = {
        "load": int(load) if load == int(load) else load,
        "gated": gated,
        "headgate": process.release.name if gated else "none",
        "arrivals": kind,
        **held_figures(ran.answered.batches, ran.began, step, here.target_s),
    }
    if gated:
        row["ledger_balanced"] = here.balanced(control)
    if ran.topic is not None:
        row["rows_a_message"] = each
        row["producer_late_s"] = round(ran.late_s, 2)
    return row


def _ratios(rows: list[dict[str, Any]], arrivals: Sequence[str]) -> dict[str, float | None]:
    """Named as ever where arrivals are steady; others have their name at the end."""
    found = {}
    for row in rows:
        side = "ungated" if not row["gated"] else "gated" if row["headgate"] == THIS else "beside"
        end = f"{side}_at_{row['load']}" + ("" if row["arrivals"] == "steady" else f"_{row['arrivals']}")
        found[f"inside_{end}"] = row["inside"]
        if row["gated"]:
            found[f"longest_{end}"] = row["longest_targets"]
            found[f"kept_of_best_{end}"] = row["kept_of_best"]
    return {name: value for name, value in found.items() if value is not None}


#: The table's columns, in their order, and what people see above them.
_COLUMNS = {
    "arrivals": "arrivals",
    "load": "load",
    "headgate": "gate",
    "inside": "inside",
    "inside_of_possible": "of possible",
    "hopeless": "hopeless",
    "longest_targets": "longest",
    "kept": "kept",
    "kept_of_best": "of best",
    "p50_delay_s": "p50",
    "p95_delay_s": "p95",
    "p100_delay_s": "p100",
    "batches_to_enter": "to enter",
    "batches_to_zero": "to zero",
}


def _shown(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: row[key] for key, name in _COLUMNS.items()} for row in rows]
