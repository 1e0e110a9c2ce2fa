"""The tables and keys of a job file, and what each takes."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.job.checks import (
    Key,
    duration,
    first_rows,
    flag,
    gate_name,
    inside,
    number,
    one_of,
    options,
    retention,
    share,
    text,
    texts,
    whole,
)
from headgate.settings import MODES, ON_FAILURE

__all__ = [
    "ACCURACY", "AVAILABLE_NOW", "CONCEPT_DRIVEN", "FILES", "GATE", "GROUP_RATES", "POLICIES", "RESCUE",
    "SINKS", "SOURCES", "SPARK", "SQL", "TABLES", "TOP", "TRIALS", "WATERMARK", "Keys",
]  # fmt: skip

Keys = Mapping[str, Key]

#: Formats of files that Spark streams by itself.
FILES = ("json", "csv", "parquet", "orc", "text")
#: Sinks that keep nothing: for trials.
TRIALS = ("console", "memory", "noop")
AVAILABLE_NOW = "available-now"

#: Which tables there are, and which of them must be there.
TABLES = {
    "source": True, "sql": False, "gate": True, "rescue": False, "sink": True, "spark": False,
}  # fmt: skip
TOP: Keys = {"name": Key(gate_name)}

_ANY = {"options": Key(options)}
_KAFKA: Keys = {
    "servers": Key(text, required=True),
    "topic": Key(texts),
    "start": Key(text),
    **_ANY,
}
_FOLDER: Keys = {"path": Key(text, required=True), "schema": Key(text, required=True), **_ANY}
_TABLE: Keys = {"path": Key(text), "table": Key(text), **_ANY}
_RATE: Keys = {"rows_per_second": Key(whole(1)), **_ANY}
#: What a source takes besides its format.
SOURCES: Mapping[str, Keys] = {
    "kafka": _KAFKA,
    **dict.fromkeys(FILES, _FOLDER),
    "text": {**_FOLDER, "schema": Key(text)},
    "delta": _TABLE,
    "rate": _RATE,
    "rate-micro-batch": {"rows_per_batch": Key(whole(1), required=True), **_ANY},
}

WATERMARK: Keys = {"column": Key(text, required=True), "delay": Key(duration, required=True)}
#: A watermark is a table of its own; `before` and `after` are single SELECTs.
SQL: Keys = {"before": Key(text), "after": Key(text), "view": Key(text)}

#: What `hg.gate` takes and a file can say; policy and rescue are tables of their own, a controller is
#: code.
GATE: Keys = {
    "name": Key(gate_name, required=True),
    "hold": Key(duration),
    "delay": Key(duration),
    "rate": Key(share),
    "control": Key(text),
    "keep": Key(texts),
    "arrival": Key(text),
    "identity": Key(texts),
    "mode": Key(one_of(*MODES)),
    "min_keep": Key(share),
    "inside": Key(inside),
    "first_rows": Key(first_rows),
    "on_failure": Key(one_of(*ON_FAILURE)),
    "start": Key(share),
    "retention": Key(retention),
    "seed": Key(whole(0)),
    "weight": Key(flag),
    "on_reshape": Key(one_of("refuse", "accept")),
    "checkpoint": Key(text),
}
#: What `hg.Rescue` takes.
RESCUE: Keys = {"sink": Key(text), "keep": Key(number), "whole": Key(whole(1))}
POLICIES = ("uniform", "concept-driven", "group-rates")
CONCEPT_DRIVEN: Keys = {
    "by": Key(texts, required=True),
    "window": Key(duration),
    "slide": Key(duration),
    "time": Key(text),
    "allocation": Key(text),
    "value": Key(text),
    "least": Key(whole(1)),
    "overflow": Key(text),
    "prefer": Key(text),
    "thrifty": Key(flag),
    "counts": Key(text),
    "draw": Key(text),
}
ACCURACY: Keys = {
    "of": Key(text, required=True),
    "within": Key(number, required=True),
    "confidence": Key(number),
    "least_rows": Key(whole(1)),
}
GROUP_RATES: Keys = {"by": Key(text, required=True), "default": Key(share)}

_WRITTEN = {
    "mode": Key(one_of("append", "update", "complete")),
    "trigger": Key(lambda value, name: value if value == AVAILABLE_NOW else duration(value, name)),
    "checkpoint": Key(text),
    **_ANY,
}
_KEPT = {**_WRITTEN, "checkpoint": Key(text, required=True)}
_FILES_KEPT: Keys = {"path": Key(text, required=True), **_KEPT}
#: What a sink takes besides its format.
SINKS: Mapping[str, Keys] = {
    "kafka": {
        "servers": Key(text, required=True),
        "topic": Key(text, required=True),
        "key": Key(text),
        **_KEPT,
    },
    **dict.fromkeys(FILES, _FILES_KEPT),
    "delta": {"path": Key(text), "table": Key(text), **_KEPT},
    **dict.fromkeys(TRIALS, _WRITTEN),
}

SPARK: Keys = {
    "master": Key(text),
    "memory": Key(text),
    "packages": Key(texts),
    "conf": Key(options),
}
