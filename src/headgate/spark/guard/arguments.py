"""What a call of `guard` may say, checked before anything is built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from headgate.durations import Duration, seconds
from headgate.errors import BadArgument
from headgate.guards.targets import LatencyTarget
from headgate.spark.gate.identity import require_own_column

__all__ = [
    "check_choices",
    "check_target",
    "in_words",
    "key_columns",
    "name_of",
    "result_schema",
]

_ON_ERROR = ("fail", "dead-letter", "keep")
_FORMS = ("row", "pandas", "arrow")


def in_words(target: LatencyTarget) -> str:
    """``AverageLatency(1.0)`` is "average 1 s"."""
    kind = type(target).__name__.removesuffix("Latency").removesuffix("Average") or "Average"
    return f"{kind.lower()} {target.tau_s:g} s"


def name_of(function: Callable[[Any], Any]) -> str:
    """The guard's name where the call gives none: the function's."""
    name = str(getattr(function, "__name__", ""))
    if not name or name == "<lambda>":
        raise BadArgument("name=: give the guard a name; the function has none to borrow")
    return name.lstrip("_")[:64]


def check_choices(on_error: str, form: str, chunk: int) -> None:
    """Refuse an unknown way with errors, an unknown form, an empty chunk."""
    if on_error not in _ON_ERROR:
        raise BadArgument(f"on_error={on_error!r}: one of {', '.join(map(repr, _ON_ERROR))}")
    if form not in _FORMS:
        raise BadArgument(f"form={form!r}: one of {', '.join(map(repr, _FORMS))}")
    if isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 1:
        raise BadArgument(f"chunk={chunk!r}: give the most rows of one call, 1 or more")


def check_target(target: LatencyTarget, trigger: Duration | None) -> None:
    """Refuse what is no target, and one that no dropping can reach.

    A row waits half an interval for its batch, and half a batch for its turn.
    """
    if not (hasattr(target, "build") and hasattr(target, "tau_s")):
        raise BadArgument(
            f"target={target!r}: give hg.average('1 second'), hg.absolute(...) or hg.sliding(...)"
        )
    if trigger is None:
        return
    interval = seconds(trigger, "trigger")
    if target.tau_s < interval:
        raise BadArgument(
            f"target of {target.tau_s:g} s with trigger={trigger!r}: with batches every {interval:g} s "
            f"rows wait about that long, whatever is dropped; give a target of {interval:g} s or more, "
            "or a shorter trigger"
        )


def result_schema(schema: str | StructType) -> StructType:
    """The columns that the function returns, from what the call says."""
    if isinstance(schema, StructType):
        found = schema
    else:
        try:
            parsed = StructType.fromDDL(schema)
        except (ParseException, AnalysisException, PySparkException, ValueError) as error:
            raise BadArgument(
                f"schema={schema!r} is no schema: write names and types, such as 'id bigint, score "
                f"double' ({str(error).strip().splitlines()[0]})"
            ) from error
        if not isinstance(parsed, StructType):
            raise BadArgument(f"schema={schema!r} is no list of columns: write 'score double'")
        found = parsed
    if not found.fields:
        raise BadArgument("schema= has no columns: say what the function returns")
    return found


def key_columns(frame: DataFrame, key: str | Sequence[str]) -> tuple[str, ...]:
    """The columns that tell what a row will cost; refused if the frame does not have them."""
    names = (key,) if isinstance(key, str) else tuple(key)
    if not names:
        raise BadArgument("key=(): give at least one column that tells what a row will cost")
    for name in names:
        require_own_column(frame, name, "key")
    return names
