"""Predicates: whether one is true or false of a row, and which of the control folder's may be run.

Whoever can write the control folder can write a shape and its digest, too; so what is read from there is
never run unless it is harmless on its face: columns, literals, operators, and a short list of functions
that only look at their arguments. SQL has functions that call any method of the JVM.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType

from headgate.errors import BadArgument

__all__ = ["FUNCTIONS", "refused", "require_predicate", "trusted"]

#: Functions that only look at their arguments.
FUNCTIONS = frozenset((
    "abs", "array_contains", "ascii", "bigint", "boolean", "bround", "cardinality", "cast",
    "ceil", "ceiling", "char_length", "character_length", "coalesce", "concat", "concat_ws",
    "contains", "date", "date_trunc", "datediff", "day", "dayofmonth", "dayofweek", "dayofyear",
    "decimal", "double", "element_at", "endswith", "equal_null", "exp", "extract", "find_in_set",
    "float", "floor", "from_unixtime", "get", "get_json_object", "greatest", "hash", "hour", "if",
    "ifnull", "ilike", "instr", "int", "isnan", "isnotnull", "isnull", "last_day", "lcase",
    "least", "left", "length", "levenshtein", "like", "ln", "locate", "log", "log10", "log2",
    "lower", "lpad", "ltrim", "map_contains_key", "md5", "minute", "mod", "month", "nanvl",
    "negative", "nullif", "nvl", "nvl2", "octet_length", "pmod", "position", "pow", "power",
    "quarter", "regexp", "regexp_like", "repeat", "replace", "reverse", "right", "rlike", "round",
    "rpad", "rtrim", "second", "sha1", "sha2", "sign", "signum", "size", "smallint", "soundex",
    "split_part", "sqrt", "startswith", "string", "substr", "substring", "substring_index",
    "timestamp", "tinyint", "to_date", "to_timestamp", "to_unix_timestamp", "translate", "trim",
    "trunc", "try_add", "try_cast", "try_divide", "try_element_at", "try_multiply",
    "try_subtract", "try_to_timestamp", "ucase", "unix_micros", "unix_millis", "unix_seconds",
    "upper", "weekday", "weekofyear", "xxhash64", "year",
))  # fmt: skip
#: Words after which a bracket opens something else than the arguments of a function.
_BEFORE_BRACKET = frozenset((
    "all", "and", "any", "between", "by", "case", "div", "else", "escape", "in", "is", "not",
    "null", "on", "or", "some", "then", "when",
))  # fmt: skip
#: Words that a predicate on one row does not need; the first of a subquery is among them.
_REFUSED_WORDS = frozenset((
    "exists", "filter", "from", "identifier", "lateral", "map", "over", "reduce", "select",
    "table", "transform", "using", "values", "with",
))  # fmt: skip
#: Cut as Spark's lexer cuts: in a raw string a backslash escapes nothing, and the next quote ends it.
_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<string>[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    |(?P<quoted>`(?:[^`]|``)+`)
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:[LlSsYyFfDd]|BD|bd)?(?!\w))
    |(?P<word>[^\W\d]\w*)
    |(?P<sign><=>|<=|>=|<>|!=|==|&&|\|\||::|[-+*/%<>=!&|^~.,()\[\]])
    """,
    re.VERBOSE | re.DOTALL,
)


def refused(predicate: str, functions: frozenset[str] = FUNCTIONS) -> str | None:
    """Why this may not be run, in words; None if it may. Only these `functions` may be called.

    >>> refused("priority = 'high' and lower(route) in ('a', 'b')") is None
    True
    >>> refused("java_method('java.lang.System', 'exit', 1) is null")
    'it calls java_method, which is not on the list of functions that only look at their arguments'
    """
    at, before = 0, ("", "")
    while at < len(predicate):
        found = _TOKEN.match(predicate, at)
        if found is None or predicate.startswith(("--", "/*"), at):
            return f"it has {predicate[at : at + 10]!r}, which is not part of a plain predicate"
        at = found.end()
        kind, text = str(found.lastgroup), found.group()
        if kind == "space":
            continue
        why = _why(before, kind, text, functions)
        if why is not None:
            return why
        before = (kind, text if before[1] != "." else f".{text}")
    return None


def _why(before: tuple[str, str], kind: str, text: str, functions: frozenset[str]) -> str | None:
    if kind == "word" and before[1] != "." and text.lower() in _REFUSED_WORDS:
        return f"it has the word {text.upper()}"
    if text != "(" or kind != "sign":
        return None
    name = before[1].lower()
    if before[0] == "word" and not name.startswith(".") and name in functions | _BEFORE_BRACKET:
        return None
    if before[0] in ("word", "quoted", "string", "number") or before[1] in (")", "]"):
        called = before[1].lstrip(".") or before[1]
        return (
            f"it calls {called}, which is not on the list of functions that only look at their arguments"
        )
    return None


def trusted(gate: str, stored: Sequence[str], given: Sequence[str] | None) -> None:
    """Refuse predicates of a shape that are neither harmless on their face nor given by the caller."""
    if given is not None:
        if tuple(given) != tuple(stored):
            raise BadArgument(
                f"keep={list(given)!r}: gate {gate!r} judged these batches by {list(stored)!r}; give "
                "the predicates that the gate had then, in their order, or leave keep= out"
            )
        return
    for predicate in stored:
        why = refused(predicate)
        if why is not None:
            raise BadArgument(
                f"gate {gate!r}: the control folder has the predicate {predicate!r}, and {why}: nothing "
                "from the folder is run unless it is harmless on its face. If it is your gate's own, "
                "say so with keep=, the predicates that the gate had"
            )


def require_predicate(frame: DataFrame, predicate: str) -> None:
    """Refuse what is not true or false of a row."""
    try:
        kind = frame.select(F.expr(predicate).alias("c")).schema["c"].dataType
    except (AnalysisException, PySparkException) as error:
        raise BadArgument(
            f"keep={predicate!r} is not a predicate on this DataFrame's columns "
            f"({', '.join(frame.columns)}): {str(error).strip().splitlines()[0]}"
        ) from error
    if not isinstance(kind, BooleanType):
        raise BadArgument(
            f"keep={predicate!r} is a {kind.simpleString()}, not true or false: "
            "write a predicate such as \"priority = 'high'\""
        )
