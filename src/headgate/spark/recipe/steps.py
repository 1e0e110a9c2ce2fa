"""Plain native steps between a source and a gate: as text that can be judged, and run again.

Spark's own SQL text of an expression is noted if three things hold: every expression in it is of a kind
whose text says all there is to say of it, the text has nothing but columns, literals, operators and
functions that only look at their arguments (`headgate.spark.gate.predicates`), and Spark makes the same
expressions of it once more. The second is asked again of what is read from the control store, before any
of it is handed to Spark: whoever can write there can write steps, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headgate.errors import BadArgument, SnapshotError
from headgate.spark.gate.predicates import FUNCTIONS, refused

__all__ = ["Step", "StepUnknown", "follow", "steps_of"]

#: Functions that only look at their arguments, and make values that predicates have no use for.
STEP_FUNCTIONS = FUNCTIONS | {
    "array", "array_distinct", "array_join", "array_max", "array_min", "array_size", "base64",
    "date_add", "date_format", "date_sub", "decode", "encode", "flatten", "from_json", "hex",
    "initcap", "map_keys", "map_values", "named_struct", "sequence", "slice", "sort_array", "split",
    "str_to_map", "struct", "timestamp_micros", "timestamp_millis", "timestamp_seconds", "to_json",
    "unbase64", "unhex", "unix_date",
}  # fmt: skip
#: Expressions whose SQL text leaves nothing out.
_PLAIN = frozenset((
    "Abs", "Add", "Alias", "And", "ArrayContains", "ArrayDistinct", "ArrayJoin", "ArrayMax",
    "ArrayMin", "ArraySize", "Ascii", "AttributeReference", "BRound", "Base64", "CaseWhen", "Cast",
    "Ceil", "Coalesce", "Concat", "ConcatWs", "Contains", "CreateArray", "CreateNamedStruct",
    "DateAdd", "DateDiff", "DateFormatClass", "DateSub", "DayOfMonth", "DayOfWeek", "DayOfYear",
    "Divide", "ElementAt", "EndsWith", "EqualNullSafe", "EqualTo", "Exp", "FindInSet", "Flatten",
    "Floor", "FromUnixTime", "GetArrayItem", "GetJsonObject", "GetMapValue", "GetStructField",
    "GetTimestamp", "GreaterThan", "GreaterThanOrEqual", "Greatest", "Hex", "Hour", "If", "In",
    "InitCap", "IntegralDivide", "IsNaN", "IsNotNull", "IsNull", "JsonToStructs", "LastDay",
    "Least", "Left", "Length", "LessThan", "LessThanOrEqual", "Like", "Literal", "Log", "Log10",
    "Log2", "Lower", "MapKeys", "MapValues", "Md5", "MicrosToTimestamp", "MillisToTimestamp",
    "Minute", "Month", "Multiply", "NaNvl", "Not", "NullIf", "Nvl", "Nvl2", "OctetLength", "Or",
    "ParseToDate", "ParseToTimestamp", "Pmod", "Pow", "Quarter", "RLike", "Remainder", "Reverse",
    "Right", "Round", "Second", "SecondsToTimestamp", "Sha1", "Sha2", "Signum", "Size", "Slice",
    "SoundEx", "Sqrt", "StartsWith", "StringInstr", "StringLocate", "StringReplace", "StringSpace",
    "StringSplit", "StringTranslate", "StringTrim", "StringTrimLeft", "StringTrimRight",
    "Substring", "SubstringIndex", "Subtract", "TruncDate", "TruncTimestamp", "UnBase64",
    "UnaryMinus", "UnaryPositive", "Unhex", "Upper", "WeekDay", "WeekOfYear", "XxHash64", "Year",
))  # fmt: skip
#: Columns of all steps together: each is some calls of the JVM, and a gate is built in no time.
_MOST_COLUMNS = 500
#: Operators that change no row and no column of a batch.
_NOTHING = frozenset((
    "EventTimeWatermark", "RebalancePartitions", "Repartition", "RepartitionByExpression",
    "ResolvedHint", "SubqueryAlias", "UnresolvedHint",
))  # fmt: skip


class StepUnknown(Exception):
    """A step that cannot be noted; its text says which, and why."""


@dataclass(frozen=True)
class Step:
    """A filter (`where`), or the columns that there are from here on (`select`: text and name)."""

    where: str = ""
    select: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As a recipe has it."""
        return {"where": self.where} if self.where else {"select": [list(one) for one in self.select]}

    @classmethod
    def from_json(cls, value: Any) -> Step:
        """What a recipe has."""
        if isinstance(value, dict) and isinstance(value.get("where"), str) and value["where"]:
            return cls(where=value["where"])
        chosen = value["select"]
        return cls(select=tuple((str(text), str(name)) for text, name in chosen))

    def texts(self) -> list[str]:
        """All that Spark would be handed."""
        return [self.where] if self.where else [text for text, _ in self.select]


def steps_of(plan: Any) -> tuple[Any, list[Step]]:
    """The source at the end of an analysed plan, and the steps from there; raises `StepUnknown`."""
    steps: list[Step] = []
    columns = 0
    while plan.children().size():
        name = str(plan.nodeName())
        columns += int(plan.output().size())
        if columns > _MOST_COLUMNS:
            raise StepUnknown(f"its steps have more than {_MOST_COLUMNS} columns in all")
        if plan.children().size() != 1:
            raise StepUnknown(f"{name} brings several frames together")
        if name == "Project":
            steps.append(Step(select=tuple(_column(one) for one in _each(plan.projectList()))))
            _one_of_each(plan)
        elif name == "Filter":
            steps.append(Step(where=_text(plan.condition())))
        elif name not in _NOTHING:
            raise StepUnknown(f"{name} is no plain step (those are select, withColumn, where, drop)")
        plan = plan.children().apply(0)
    _one_of_each(plan)
    return plan, steps[::-1]


def _one_of_each(plan: Any) -> None:
    names = [str(one.name()).lower() for one in _each(plan.output())]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise StepUnknown(f"two columns are called {twice!r}, and no text tells them apart")


def _each(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(i) for i in range(sequence.size()))


def _column(one: Any) -> tuple[str, str]:
    if str(one.getClass().getSimpleName()) == "Alias":
        return _text(one.child()), str(one.name())
    return _text(one), str(one.name())


def _text(expression: Any) -> str:
    for kind in _kinds(expression):
        if kind not in _PLAIN:
            raise StepUnknown(f"{_short(expression)} has {kind}, whose text may not say all of it")
    text = _sql(expression)
    why = refused(text, STEP_FUNCTIONS)
    if why is not None:
        raise StepUnknown(f"{_short(expression)}: {why}")
    return text


def _kinds(expression: Any) -> Iterator[str]:
    kind = str(expression.getClass().getSimpleName())
    if kind == "AttributeReference" and expression.qualifier().size():
        kind = "the alias of a frame or a table"
    yield kind
    for child in _each(expression.children()):
        yield from _kinds(child)


def _sql(expression: Any) -> str:
    """Spark's text of it; of ``from_json``, whose text lacks the schema, the whole."""
    kind = str(expression.getClass().getSimpleName())
    if kind == "JsonToStructs":
        return _from_json(expression)
    text = str(expression.sql())
    for part in _each(expression.children()):
        if "JsonToStructs" in _kinds(part):
            text = text.replace(str(part.sql()), _sql(part))
    return text


def _from_json(expression: Any) -> str:
    options = expression.options()
    if options.size():
        raise StepUnknown(f"{_short(expression)}: from_json with options is not noted")
    schema = expression.schema()
    if str(schema.getClass().getSimpleName()) != "StructType":
        raise StepUnknown(f"{_short(expression)}: from_json of no struct is not noted")
    ddl = str(schema.toDDL()).replace("\\", "\\\\").replace("'", "\\'")
    return f"from_json({_sql(expression.child())}, '{ddl}')"


def _short(expression: Any, most: int = 60) -> str:
    text = str(expression.sql())
    return repr(text if len(text) <= most else text[: most - 3] + "...")


def follow(frame: DataFrame, steps: Sequence[Step], gate: str) -> DataFrame:
    """The frame behind the steps, if all of them are harmless on their face."""
    for step in steps:
        for text in step.texts():
            why = refused(text, STEP_FUNCTIONS)
            if why is not None:
                raise SnapshotError(
                    f"gate {gate!r}: the control store has the step {text!r}, and {why}: nothing from "
                    "there is run unless it is harmless on its face. Give prepare=, what your query "
                    "does between the source and the gate"
                )
    for step in steps:
        try:
            if step.where:
                frame = frame.where(step.where)
            else:
                frame = frame.select(*[F.expr(text).alias(name) for text, name in step.select])
        except Exception as error:
            raise BadArgument(
                f"gate {gate!r}: the step {step.to_json()!r} of its recipe cannot be followed "
                f"({str(error).splitlines()[0]}): give prepare=, what your query does between the "
                "source and the gate"
            ) from error
    return frame
