"""How the rows in front of a gate are made, as files, and which batches of a query were made so.

A recipe (`headgate.spark.recipe.recipe.Recipe`) names sources, options and plain steps. Here it is only
JSON: nothing in it is looked up in Spark or executed. Each run of a query leaves word which recipe it
follows, from which batch on, and where its checkpoint is.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from headgate.store.folder import read_json, write_json
from headgate.store.places.place import Place

__all__ = ["Followed", "followed_in", "note_recipe", "recipe_path"]

#: Changes of a query's recipe that are remembered; the oldest go.
_MOST = 200


@dataclass(frozen=True)
class Followed:
    """A recipe that a query followed after a batch."""

    #: Its digest; empty where none could be made.
    recipe: str
    after: int
    #: The query's checkpoint; None where it was not known.
    checkpoint: str | None = None


def recipe_path(control: Place, gate: str, digest: str) -> Place:
    """Where the recipe of this digest is."""
    return control / "gates" / gate / "recipes" / f"{digest}.json"


def _path(control: Place, gate: str, query: str) -> Place:
    return control / "gates" / gate / "queries" / query / "recipes.json"


def note_recipe(control: Place, gate: str, query: str, now: Followed) -> None:
    """From the batch after `now.after` on the query follows this recipe."""
    known = followed_in(control, gate, query)
    if known and (known[-1].recipe, known[-1].checkpoint) == (now.recipe, now.checkpoint):
        return
    if known and now.checkpoint is None and known[-1].recipe == now.recipe:
        return
    kept = [one for one in known if one.after < now.after][-_MOST:]
    write_json(_path(control, gate, query), [asdict(one) for one in (*kept, now)])


def followed_in(control: Place, gate: str, query: str) -> list[Followed]:
    """What a query has followed, oldest first; empty where nobody has noted it."""
    try:
        value = read_json(_path(control, gate, query))
    except ValueError:
        return []
    found = [_followed(one) for one in value] if isinstance(value, list) else []
    return [one for one in found if one is not None]


def _followed(value: Any) -> Followed | None:
    try:
        checkpoint = value.get("checkpoint")
        where = None if checkpoint is None else str(checkpoint)
        return Followed(str(value["recipe"]), int(value["after"]), where)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
