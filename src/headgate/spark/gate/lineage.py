"""What stands between the source and the gate: does every row get through, and does it stay the same?

Read off the plan that Spark has analysed. A classic session gives it as objects; over Connect only its
text is to be had, in which a function that calls itself non-deterministic cannot be told from another.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headgate.core.witness import AT_MOST, EQUAL, UNKNOWN
from headgate.errors import BadArgument
from headgate.spark.analysed_plan import analysed, printed
from headgate.spark.session import is_connect

log = logging.getLogger("headgate")

__all__ = ["limits_in", "relation_to_source", "require_stable"]

#: Operators that hand on every row, and such as drop some; any other may do anything.
_SAME = {
    "Project", "SubqueryAlias", "EventTimeWatermark", "CollectMetrics", "Repartition", "View",
    "RepartitionByExpression", "RebalancePartitions", "ResolvedHint", "UnresolvedHint", "Sort",
}  # fmt: skip
_FEWER = {
    "Filter", "Deduplicate", "DeduplicateWithinWatermark", "Distinct", "GlobalLimit", "LocalLimit",
    "Sample",
}  # fmt: skip
#: Expressions whose value is the time at which the query runs.
_CLOCK = re.compile(
    r"expressions\.(CurrentTimestamp|Now|CurrentDate|LocalTimestamp|CurrentTime|CurrentBatchTimestamp)\b"
)
#: A file's name is not deterministic to Spark, since it knows no rows; a row's file stays the same.
_FILE = "expressions.InputFileName"
_CHANCE = re.compile(
    r"expressions\.(Rand|Randn|Uuid|Shuffle|RandStr|Uniform|MonotonicallyIncreasingID|SparkPartitionID"
    r"|PythonUDF|ScalaUDF|PythonUDAF|Sample\w*|InputFileBlock\w+)\b"
)
#: The same in the text of a plan.
_CHANGING = re.compile(
    r"\b(uuid|rand|randn|random|shuffle|randstr|uniform|monotonically_increasing_id"
    r"|spark_partition_id|SPARK_PARTITION_ID|now|current_timestamp|current_date|current_time"
    r"|localtimestamp|input_file_block_\w+)\(",
    re.IGNORECASE,
)
_NODE = re.compile(r"^[\s:|+-]*(\w+)")
_ALIAS = re.compile(r"^(.*) AS .*#(\d+)L?$", re.DOTALL)
_ID = re.compile(r"#(\d+)")


def relation_to_source(frame: DataFrame) -> str:
    """How many of the rows that the source hands out reach this frame: all, some, or nobody can tell."""
    try:
        names = _text_nodes(frame) if is_connect(frame.sparkSession) else _nodes(analysed(frame))
    except Exception:  # another Spark inside: then it has nothing to say
        return UNKNOWN
    if names is None or not frame.isStreaming:
        return UNKNOWN
    between = names[:-1]  # the last one is the source
    if any(name not in _SAME and name not in _FEWER for name in between):
        return UNKNOWN
    return AT_MOST if any(name in _FEWER for name in between) else EQUAL


def limits_in(frame: DataFrame) -> int:
    """Limits in front of the gate."""
    try:
        return sum("GlobalLimit" in line for line in printed(frame))
    except Exception:  # another Spark inside
        return 0


def _nodes(plan: Any) -> list[str] | None:
    """The operators from top to source; None where there is more than one way down."""
    names = [str(plan.nodeName())]
    while (children := plan.children()).size():
        if children.size() > 1:
            return None
        plan = children.apply(0)
        names.append(str(plan.nodeName()))
    return names


def _text_nodes(frame: DataFrame) -> list[str] | None:
    lines = printed(frame)
    if not lines or any(":-" in line.split("+-")[0] for line in lines):
        return None
    return [found[1] for line in lines if (found := _NODE.match(line))]


def require_stable(
    frame: DataFrame, gate: str, columns: Sequence[str], predicates: Sequence[str] = ()
) -> None:
    """Refuse an identity or a group that is another one when the batch runs again or is read again.

    Such rows would meet another fate in a replay, and a backfill would lose and double rows. A predicate
    may ask for the time: Spark gives a batch that runs again the same one.
    """
    asked = [F.col(name) for name in columns] + [F.expr(text) for text in predicates]
    if not asked:
        return
    try:
        found = _changing(frame, asked, len(columns))
    except BadArgument:
        raise
    except Exception as error:  # another Spark inside
        log.warning("gate %r: whether its identity changes from run to run is unknown (%s)", gate, error)
        return
    if found is None:
        return
    index, why = found
    if index >= len(columns):
        raise BadArgument(
            f"gate {gate!r}: keep={predicates[index - len(columns)]!r} is decided by chance ({why}): a "
            "batch that runs again would keep other rows; write a predicate on the rows' own columns"
        )
    raise BadArgument(
        f"gate {gate!r}: the column {columns[index]} is made by {why}, which has another value when a "
        "batch runs again or is read again, so that other rows would be kept: give identity=, the "
        "columns that tell rows apart, without it; or add the column behind the gate"
    )


def _changing(frame: DataFrame, asked: list[Column], strict: int) -> tuple[int, str] | None:
    """The first of the columns that changes, by index, and what makes it; None if none does."""
    chosen = frame.select(*[column.alias(f"c{i}") for i, column in enumerate(asked)])
    connect = is_connect(frame.sparkSession)
    found = _changing_in_text(chosen) if connect else _changing_in_plan(analysed(chosen))
    for index, why in sorted(found.items()):
        if index < strict or not _only_time(why):
            return index, why
    return None


def _only_time(why: str) -> bool:
    """Whether nothing but the clock makes it change."""
    names = {found[1].lower() for found in _CHANGING.finditer(why)}
    return bool(names) and all(name.startswith(("current_", "now", "localtimestamp")) for name in names)


def _each(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(i) for i in range(sequence.size()))


def _changing_in_plan(plan: Any) -> dict[int, str]:
    bad: dict[int, str] = {}
    for child in _each(plan.children()):
        _taint(child, bad)
    return {
        index: why
        for index, one in enumerate(_each(plan.expressions()))
        if (why := _why(one, bad)) is not None
    }


def _taint(plan: Any, bad: dict[int, str]) -> None:
    """Note the attributes that change, by id, with the expression that makes them."""
    children = list(_each(plan.children()))
    for child in children:
        _taint(child, bad)
    if not children:
        return
    name = str(plan.nodeName())
    if name in ("Filter", "SubqueryAlias", "EventTimeWatermark", "CollectMetrics"):
        return
    if name == "Union":
        if bad:
            _taint_union(plan, children, bad)
        return
    for one in _each(plan.expressions()):
        if one.getClass().getSimpleName() == "AttributeReference":
            continue
        why = _why(one, bad)
        if why is None:
            continue
        if one.getClass().getSimpleName() == "Alias":
            bad[int(one.exprId().id())] = why
        else:  # a generator or a function over whole partitions: all that it makes
            for made in _each(plan.producedAttributes().toSeq()):
                bad[int(made.exprId().id())] = why


def _taint_union(plan: Any, children: list[Any], bad: dict[int, str]) -> None:
    """A column of a union is that of its first part; any part can spoil it."""
    for index, made in enumerate(_each(plan.output())):
        for child in children:
            why = bad.get(int(child.output().apply(index).exprId().id()))
            if why is not None:
                bad[int(made.exprId().id())] = why


def _why(expression: Any, bad: dict[int, str]) -> str | None:
    """What makes the expression's value change; None if nothing does."""
    inside = str(expression.toJSON())
    by_chance = not expression.deterministic() and (_FILE not in inside or _CHANCE.search(inside))
    if by_chance or _CLOCK.search(inside):
        text = str(expression.toString())
        found = _ALIAS.match(text)
        return re.sub(r"\(Some\(-?\d+\)\)", "()", found[1] if found else text)
    if bad:
        for used in _each(expression.references().toSeq()):
            if int(used.exprId().id()) in bad:
                return bad[int(used.exprId().id())]
    return None


def _changing_in_text(chosen: DataFrame) -> dict[int, str]:
    lines = printed(chosen)
    bad: dict[str, str] = {}
    for line in reversed(lines[1:]):
        for item in _items(line):
            found = _ALIAS.match(item)
            if found and (why := _why_in_text(found[1], bad)) is not None:
                bad[found[2]] = why
    top = list(_items(lines[0])) if lines else []
    whys = [_why_in_text(item, bad) for item in top]
    return {index: why for index, why in enumerate(whys) if why is not None}


def _why_in_text(text: str, bad: dict[str, str]) -> str | None:
    if _CHANGING.search(text):
        return re.sub(r"\(Some\(-?\d+\)\)", "()", text.rpartition(" AS ")[0] or text)
    return next((bad[number] for number in _ID.findall(text) if number in bad), None)


def _items(line: str) -> Iterator[str]:
    """What an operator's line lists between its outermost brackets."""
    start = line.find("[")
    depth, item = 0, ""
    for sign in line[start + 1 :] if start >= 0 else "":
        if sign in "([":
            depth += 1
        elif sign in ")]":
            depth -= 1
        if depth < 0 or (depth == 0 and sign == ","):
            yield item.strip()
            item = ""
            if depth < 0:
                return
        else:
            item += sign
