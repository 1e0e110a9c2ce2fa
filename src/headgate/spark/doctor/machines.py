"""What the executors' answers mean: whether they were reached, what they have, what they can do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from headgate.spark.doctor.executors import Reached
from headgate.spark.doctor.findings import Finding, Level
from headgate.store.places.place import ObjectPath, Place

__all__ = ["look_at_executors"]

#: Packages whose difference between driver and executors matters, up to the part that does.
_COMPARED = {"pyspark": 3, "pyarrow": 1, "numpy": 1, "pandas": 1}
_HOW = (
    "docs/clusters.md says how Headgate reaches executors: --py-files, a packed environment, an image."
)
_CLOCKS_S = 1.0
_Answers = list[dict[str, Any]]


def look_at_executors(
    reached: Reached, driver: Mapping[str, Any], control: Place, *, with_store: bool
) -> Iterator[Finding]:
    """Findings from what was answered; `with_store`: the driver itself could use the store."""
    answers = reached.executors
    yield _reached(reached)
    if not answers:
        return
    yield _headgate(answers, driver)
    yield _packages(answers, driver)
    if isinstance(control, ObjectPath):
        yield _object_stores(answers)
    yield _joins(answers)
    if with_store:
        yield from _store(answers, control)
        yield from _winners(reached)
    yield _clocks(answers)


def _reached(reached: Reached) -> Finding:
    count, known = len(reached.executors), reached.known
    if reached.error is not None:
        said = _cause(reached.error)
        return Finding("executors", "problem", f"A small Python job did not run: {said}", _remedy(said))
    hosts = ", ".join(sorted({str(a["host"]) for a in reached.executors}))
    if known is not None and count < known:
        return Finding(
            "executors",
            "warning",
            f"{count} of {known} executors took a task ({hosts}).",
            "Run it again when the cluster is idle; the others were not looked at.",
        )
    of_all = "" if known is None else f" of {known}"
    return Finding("executors", "ok", f"{count}{of_all} executors answered ({hosts}).")


def _cause(error: Exception) -> str:
    """What a person can do something about, out of the pages that Java and Python print."""
    text = str(error).strip()
    found = re.search(
        r"(PYTHON_VERSION_MISMATCH\].*|Cannot run program .*|ModuleNotFoundError: .*|ImportError: .*"
        r"|no answer in .*)",
        text,
    )
    return (found[1] if found else (text.splitlines() or [type(error).__name__])[0]).strip()


def _remedy(said: str) -> str:
    if said.startswith("no answer"):
        return "Is the master reachable, and do its workers have free cores and memory for this job?"
    if "VERSION_MISMATCH" in said:
        return "Give driver and executors the same Python, up to its second number (PYSPARK_PYTHON)."
    if "Cannot run program" in said:
        return "PYSPARK_PYTHON (or spark.pyspark.python) must name a Python that every executor has."
    return "Executors must be able to run Python functions at all: see what Spark says in their logs."


def _some(answers: _Answers, which: Callable[[dict[str, Any]], bool]) -> str:
    """Which executors, for a sentence: all, or so many with the host of one."""
    chosen = [a for a in answers if which(a)]
    if len(chosen) == len(answers):
        return "No executor" if len(chosen) == 0 else f"Every executor ({len(chosen)})"
    return f"{len(chosen)} of {len(answers)} executors (such as {chosen[0]['host']})"


def _headgate(answers: _Answers, driver: Mapping[str, Any]) -> Finding:
    def without(answer: dict[str, Any]) -> bool:
        return answer["headgate_error"] is not None

    def other(answer: dict[str, Any]) -> bool:
        return bool(answer["headgate"] != driver["headgate"])

    bad = [a for a in answers if without(a)]
    if bad:
        said = bad[0]["headgate_error"]
        return Finding(
            "headgate", "problem", f"{_some(answers, without)} cannot import Headgate: {said}.", _HOW
        )
    others = [a for a in answers if other(a)]
    if others:
        return Finding(
            "headgate",
            "problem",
            f"{_some(answers, other)} have Headgate {others[0]['headgate']} (from "
            f"{others[0]['headgate_from']}), and the driver has {driver['headgate']}.",
            f"Give all the same version. {_HOW}",
        )
    places = sorted({str(Path(str(a["headgate_from"])).parent) for a in answers})
    return Finding(
        "headgate",
        "ok",
        f"Every executor has Headgate {driver['headgate']}, from {', '.join(places[:3])}.",
    )


def _packages(answers: _Answers, driver: Mapping[str, Any]) -> Finding:
    mine = driver["versions"]
    for answer in answers:
        theirs = answer["versions"]
        for name, parts in _COMPARED.items():
            if mine.get(name) and not theirs.get(name):
                return Finding(
                    "versions",
                    "problem",
                    f"An executor on {answer['host']} has no {name}.",
                    "Install it for the executors' Python: pip install 'headgate[spark]'.",
                )
            if _first(mine.get(name), parts) != _first(theirs.get(name), parts):
                level: Level = "problem" if name == "pyspark" else "warning"
                return Finding(
                    "versions",
                    level,
                    f"An executor on {answer['host']} has {name} {theirs[name]}, and the driver "
                    f"{mine[name]}.",
                    "Give driver and executors the same packages.",
                )
        if driver["java"] and _first(driver["java"], 1) != _first(answer["java"], 1):
            return Finding(
                "versions",
                "warning",
                f"An executor on {answer['host']} runs Java {answer['java']}, and the driver "
                f"{driver['java']}.",
                "Give driver and executors the same Java.",
            )
    named = ", ".join(f"{k} {v}" for k, v in answers[0]["versions"].items() if v)
    return Finding("versions", "ok", f"Executors: {named}, java {answers[0]['java']}.")


def _first(version: str | None, parts: int) -> tuple[str, ...]:
    """The first numbers of a version.

    >>> _first("4.3.0.dev1", 2), _first(None, 1)
    (('4', '3'), ())
    """
    return tuple(re.findall(r"\d+", version or "")[:parts])


def _object_stores(answers: _Answers) -> Finding:
    def lacks(answer: dict[str, Any]) -> bool:
        return not answer["versions"].get("obstore")

    if any(map(lacks, answers)):
        return Finding(
            "object stores",
            "problem",
            f"{_some(answers, lacks)} lack obstore, which a control store in an object store needs.",
            "pip install 'headgate[objects]' for the executors' Python.",
        )
    return Finding("object stores", "ok", "Every executor has obstore.")


def _joins(answers: _Answers) -> Finding:
    def lacks(answer: dict[str, Any]) -> bool:
        return not (answer["versions"].get("numba") and answer["versions"].get("protobuf"))

    if any(map(lacks, answers)):
        return Finding(
            "join packages",
            "warning",
            f"{_some(answers, lacks)} lack numba or protobuf: hg.join cannot run.",
            "Only for hg.join: pip install 'headgate[join]' for the executors' Python.",
        )
    return Finding("join packages", "ok", "Every executor has numba and protobuf, which hg.join needs.")


def _store(answers: _Answers, control: Place) -> Iterator[Finding]:
    asked = [a for a in answers if a["store"] is not None]
    failed = [a for a in asked if a["store"]["error"] is not None]
    blind = [a for a in asked if a["store"]["error"] is None and not a["store"]["sees_driver"]]
    if failed:
        yield Finding(
            "store on executors",
            "problem",
            f"{len(failed)} of {len(answers)} executors cannot use the control store: "
            f"{failed[0]['store']['error']}.",
            "Executors need the same region, credentials and endpoint as the driver, in their "
            "environment (spark.executorEnv.AWS_REGION, ...) or from a role; a folder must be "
            "writable for them.",
        )
    if blind:
        what = "address" if isinstance(control, ObjectPath) else "folder"
        yield Finding(
            "store on executors",
            "problem",
            f"{len(blind)} of {len(answers)} executors do not find what the driver wrote to {control}: "
            f"it is another {what} there.",
            "Give a folder on a volume that all machines mount at the same path, or an address in an "
            "object store (control='s3://bucket/path').",
        )
    if asked and not failed and not blind:
        slowest = max(max(a["store"]["ms"].values()) for a in asked)
        yield Finding(
            "store on executors",
            "ok",
            f"{len(asked)} of {len(answers)} executors create, get, list and delete there; the slowest "
            f"median is {slowest:g} ms.",
        )


def _winners(reached: Reached) -> Iterator[Finding]:
    wrong = {name: count for name, count in reached.winners.items() if count != 1}
    if wrong:
        yield Finding(
            "atomic create on executors",
            "problem",
            f"Of tasks that created one name, {max(wrong.values())} won.",
            "Use a store whose conditional put is atomic, or a folder that all machines share.",
        )
    elif reached.winners:
        yield Finding(
            "atomic create on executors",
            "ok",
            f"Of the tasks that raced for each of {len(reached.winners)} names one won.",
        )


def _clocks(answers: _Answers) -> Finding:
    worst = max(answers, key=lambda a: abs(a["clock_off_s"]))
    off = worst["clock_off_s"]
    if abs(off) <= _CLOCKS_S:
        return Finding(
            "clocks", "ok", "Executors' clocks agree with the driver's, as far as a job tells."
        )
    return Finding(
        "clocks",
        "warning",
        f"The clock of {worst['host']} is at least {abs(off):.1f} s "
        f"{'ahead of' if off > 0 else 'behind'} the driver's. "
        "No lease or plan depends on it; event times that machines write do.",
        "Let the machines keep time by NTP or chrony.",
    )
