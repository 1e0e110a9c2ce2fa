"""A backfill of a query that has ended no batch: it says so, and needs no Spark for that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.errors import BadArgument
from headgate.spark.recipe.batches import rows_by_recipe
from tests.view.virtual_gate import VirtualGate

NO_SPARK: Any = None


def test_nothing_is_said_of_recipes_before_there_is_a_record(control: Path) -> None:
    with pytest.raises(BadArgument, match="gate 'rides' of query q has no record of a batch yet"):
        rows_by_recipe(NO_SPARK, control, "rides", "q")
    gate = VirtualGate(control, query="q")
    gate.batch(1000)
    with pytest.raises(BadArgument, match=r"has not noted where .* call hg.repay with rows="):
        rows_by_recipe(NO_SPARK, control, "rides", "q")
