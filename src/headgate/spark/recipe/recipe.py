"""`Recipe`: the source in front of a gate, its options, and the plain steps from there to the gate.

Noted when a gate is built on a classic session, whose plan can be read; over Connect there is none. It
holds no value of an option that is not on the list of harmless ones (`headgate.spark.recipe.options`),
and no code.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headgate.errors import SnapshotError
from headgate.spark.analysed_plan import analysed
from headgate.spark.recipe.options import FORMATS, keepable, only_known
from headgate.spark.recipe.steps import Step, StepUnknown, follow, steps_of
from headgate.spark.session import is_connect
from headgate.store.folder import read_json, write_json
from headgate.store.gate_files.recipes import recipe_path
from headgate.store.places.place import Place

__all__ = ["SETTINGS", "Recipe", "note", "recipe_of", "setting"]

log = logging.getLogger("headgate")

#: Settings of a session that change what steps make of a row.
SETTINGS = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.legacy.timeParserPolicy")


@dataclass(frozen=True)
class Recipe:
    """What is known of how a gate's rows are made."""

    source: str
    options: Mapping[str, str] = field(default_factory=dict)
    #: Options by name whose values are not noted.
    asked: tuple[str, ...] = ()
    #: The source's own columns, as Spark writes a schema.
    schema: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    #: Why there are no steps although the query has some.
    unknown: str = ""
    #: The columns in front of the gate: name and type.
    columns: tuple[tuple[str, str], ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    #: The name of a table, where the source is one that has a name.
    table: str = ""

    def to_json(self) -> dict[str, Any]:
        """As the control store has it."""
        return {
            "v": 1,
            "source": self.source,
            "options": dict(self.options),
            "asked": list(self.asked),
            "schema": dict(self.schema),
            "steps": [step.to_json() for step in self.steps],
            "unknown": self.unknown,
            "columns": [list(one) for one in self.columns],
            "settings": dict(self.settings),
            "table": self.table,
        }

    @property
    def digest(self) -> str:
        """Twelve hexadecimal digits that name this recipe."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def save(self, control: Place, gate: str) -> None:
        """Keep it beside the gate's shapes."""
        write_json(recipe_path(control, gate, self.digest), self.to_json())

    @classmethod
    def load(cls, control: Place, gate: str, digest: str) -> Recipe | None:
        """The recipe of this digest; None where there is none. Whoever can write there wrote it."""
        value = read_json(recipe_path(control, gate, digest))
        if value is None:
            return None
        try:
            found = cls(
                source=str(value["source"]),
                options={str(k): str(v) for k, v in value["options"].items()},
                asked=tuple(str(name) for name in value["asked"]),
                schema=value["schema"],
                steps=tuple(Step.from_json(one) for one in value["steps"]),
                unknown=str(value["unknown"]),
                columns=tuple((str(name), str(kind)) for name, kind in value["columns"]),
                settings={str(k): str(v) for k, v in value["settings"].items()},
                table=str(value["table"]),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise SnapshotError(
                f"gate {gate!r}: what is stored as the recipe {digest!r} is none ({error!r}): give "
                "rows=, a reader of the gate's batches"
            ) from error
        strange = only_known(found.source, found.options)
        if found.digest != digest or found.source not in FORMATS or strange:
            raise SnapshotError(
                f"gate {gate!r}: the recipe {digest!r} in the control store is not what Headgate wrote "
                f"(digest {found.digest}, source {found.source!r}, options {strange}): somebody changed "
                "it; give hg.repay rows=, a reader of the gate's batches"
            )
        return found

    def read_schema(self) -> StructType:
        """The source's columns; types that name a class are refused, as reading one would load it."""
        if _names_a_class(self.schema):
            raise SnapshotError(
                "the recipe's schema has a user-defined type, whose class is not loaded from the "
                "control store: give hg.repay rows=, a reader of the gate's batches"
            )
        try:
            return StructType.fromJson(dict(self.schema))
        except (KeyError, TypeError, ValueError) as error:
            raise SnapshotError(
                f"the recipe's schema is none ({error!r}): give hg.repay rows="
            ) from error


def _names_a_class(value: Any) -> bool:
    if isinstance(value, Mapping):
        kind = value.get("type")
        told = {"pyClass", "class", "serializedClass", "sqlType"} & value.keys()
        return kind == "udt" or bool(told) or any(_names_a_class(one) for one in value.values())
    return isinstance(value, list) and any(_names_a_class(one) for one in value)


def note(frame: DataFrame, control: Place, gate: str) -> str:
    """Keep the recipe of the rows in front of a gate; its digest, or nothing where there is none.

    A gate works without it: whatever goes wrong here is a line in the log.
    """
    if not frame.isStreaming or is_connect(frame.sparkSession):
        return ""
    try:
        found = recipe_of(frame)
        if found is None:
            return ""
        found.save(control, gate)
        return found.digest
    except Exception as error:  # the plan's objects are Spark's own, and may change
        log.debug("gate %r: how its rows are made cannot be noted: %s", gate, error)
        return ""


def recipe_of(frame: DataFrame) -> Recipe | None:
    """How this frame's rows are made; None where its source is not one that can be read again."""
    plan = analysed(frame)
    steps: list[Step] = []
    unknown = ""
    try:
        leaf, steps = steps_of(plan)
    except StepUnknown as why:
        unknown = str(why)
        leaf = _only_source(plan)
    bare = None if leaf is None else _source(leaf)
    if bare is None or bare.source not in FORMATS:
        return None
    columns = tuple((one.name, one.dataType.simpleString()) for one in frame.schema.fields)
    spark = frame.sparkSession
    settings = {name: setting(spark, name) for name in SETTINGS}
    found = replace(bare, steps=tuple(steps), unknown=unknown, columns=columns, settings=settings)
    if steps and not unknown and not _again(spark, found):
        return replace(found, steps=(), unknown="Spark makes something else of its steps' text")
    return found


def setting(spark: SparkSession, name: str) -> str:
    """What holds, set or not: asked with a default, Spark would hide its own (a machine's time zone)."""
    try:
        return str(spark.conf.get(name))
    except PySparkException:  # this Spark has no such setting
        return ""


def _again(spark: SparkSession, recipe: Recipe) -> bool:
    """Whether Spark makes the same of the steps' text, once more."""
    empty = spark.createDataFrame([], recipe.read_schema())
    try:
        made = follow(empty, recipe.steps, "")
        _, steps = steps_of(analysed(made))
    except Exception:
        return False
    columns = tuple((one.name, one.dataType.simpleString()) for one in made.schema.fields)
    return tuple(steps) == recipe.steps and columns == recipe.columns


def _only_source(plan: Any) -> Any | None:
    """The one source of a plan that has steps which cannot be noted; None where there are several."""
    found: list[Any] = []
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        if str(node.nodeName()).startswith("StreamingRelation"):
            found.append(node)
        waiting += [node.children().apply(i) for i in range(node.children().size())]
    return found[0] if len(found) == 1 else None


def _source(leaf: Any) -> Recipe | None:
    kind = str(leaf.getClass().getSimpleName())
    schema = json.loads(str(leaf.schema().json()))
    if kind == "StreamingRelation":
        data = leaf.dataSource()
        pairs = data.options().toSeq()
        given = {str(p._1()): str(p._2()) for p in (pairs.apply(i) for i in range(pairs.size()))}
        name = str(data.className()).lower()
        return _recipe(name, given, schema)
    if kind != "StreamingRelationV2":
        return None
    options = leaf.extraOptions()
    given = {str(key): str(options.get(key)) for key in options.keySet().toArray()}
    of = str(leaf.table().getClass().getName()).lower()
    name = next((one for one in ("delta", "iceberg") if one in of), str(leaf.sourceName()).lower())
    table = ""
    if name in ("delta", "iceberg"):
        table = str(leaf.table().path()) if name == "delta" else str(leaf.table().name())
    return _recipe(name, given, schema, table)


def _recipe(name: str, given: Mapping[str, str], schema: Any, table: str = "") -> Recipe:
    options, asked = keepable(name, given)
    return Recipe(name, options, tuple(asked), schema, table=table)
