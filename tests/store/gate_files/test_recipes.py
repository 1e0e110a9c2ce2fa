"""Which recipe a query followed, from which batch on."""

from __future__ import annotations

from pathlib import Path

from headgate.store.folder import write_json
from headgate.store.gate_files.recipes import Followed, followed_in, note_recipe


def test_a_redeployment_with_another_recipe_is_known_by_its_first_batch(control: Path) -> None:
    note_recipe(control, "g", "q", Followed("a", -1, "/checkpoint"))
    note_recipe(control, "g", "q", Followed("a", 9, "/checkpoint"))  # a restart, and nothing new
    note_recipe(control, "g", "q", Followed("a", 12, None))  # one that does not know its checkpoint
    note_recipe(control, "g", "q", Followed("b", 19, "/checkpoint"))
    found = followed_in(control, "g", "q")
    assert found == [Followed("a", -1, "/checkpoint"), Followed("b", 19, "/checkpoint")]
    note_recipe(control, "g", "q", Followed("c", 19, "/checkpoint"))  # none of b's batches ever ran
    assert [one.recipe for one in followed_in(control, "g", "q")] == ["a", "c"]


def test_what_is_no_list_of_recipes_is_nothing(control: Path) -> None:
    path = control / "gates" / "g" / "queries" / "q" / "recipes.json"
    assert followed_in(control, "g", "q") == []
    for value in ({"recipe": "a"}, [1, None, {"after": 3}], "text"):
        write_json(path, value)
        assert followed_in(control, "g", "q") == []
    path.write_text('[{"recipe": "a", "aft')
    assert followed_in(control, "g", "q") == []


def test_it_has_a_bound(control: Path) -> None:
    for batch in range(300):
        note_recipe(control, "g", "q", Followed(str(batch), batch))
    found = followed_in(control, "g", "q")
    assert len(found) <= 201
    assert found[-1].recipe == "299"
