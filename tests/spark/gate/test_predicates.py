"""What may be run of what stands in the control folder. (No session: the check is text.)"""

from __future__ import annotations

import pytest

import headgate as hg
from headgate.spark.gate.predicates import refused, trusted


@pytest.mark.parametrize(
    "predicate",
    [
        "priority = 'high'",
        "vip",
        "not vip or fare >= 1e3 and route in ('a', 'it''s', \"b\")",
        "lower(trim(`odd name`.`a(b)`)) like 'x%'",
        "case when fare > 1.5D then true else (tip is not null) end",
        "cast(fare as decimal(10, 2)) between 1 and 2",
        "place.lat::int % 2 = 0 and tags[0] <=> 'x'",
        "coalesce(element_at(extra, 'k'), '') != 'reflect(1)'",
        "route rlike 'java_method\\\\(.*\\\\)'",
        "(a + b) * -2 > 3",
        r"""route rlike r'\d+\(.*\)' or route = R"\" or route = 'it\'s'""",
    ],
)
def test_plain_predicates_may_be_run(predicate: str) -> None:
    assert refused(predicate) is None


@pytest.mark.parametrize(
    "predicate",
    [
        "java_method('java.lang.System', 'setProperty', 'a', 'b') is null",
        "reflect('java.lang.System', 'exit', '1') is null",
        "`reflect`('java.lang.System', 'exit') is null",
        "`java_method` ('java.lang.System', 'exit') is null",
        "try_reflect('java.lang.System', 'exit') is null",
        "reflect/**/('java.lang.System', 'exit') is null",
        "reflect -- \n ('java.lang.System', 'exit') is null",
        "identifier('reflect')('java.lang.System', 'exit') is null",
        "system.builtin.reflect('java.lang.System', 'exit') is null",
        "lower.reflect('x') is null",
        "builtin.lower('x') = 'x'",
        "my_udf(fare) > 1",
        "fare > (select max(fare) from other)",
        "exists (select 1)",
        "rand() < 0.5",
        "a = {fn reflect('x')}",
        "a = :marker",
        "aggregate(xs, 0, (a, b) -> a + b) = 1",
        "a = 'unclosed",
        "'x'('y')",
        r"r'\' = java_method('java.lang.System', 'exit', '1') --'",
        r"""r'\' = java_method("java.lang.System", "exit", "1") --'""",
        r"""R"\" = reflect('java.lang.System', 'exit', '1') -- " """,
        "input_file_name() like 'x'",
        "current_date() = day",
    ],
)
def test_anything_else_may_not(predicate: str) -> None:
    assert refused(predicate) is not None


def test_the_callers_own_predicates_are_trusted_if_they_are_the_gates() -> None:
    trusted("g", ["my_udf(fare) > 1"], ["my_udf(fare) > 1"])
    with pytest.raises(hg.BadArgument, match="give the predicates that the gate had"):
        trusted("g", ["java_method('x') is null"], ["my_udf(fare) > 1"])
    with pytest.raises(hg.BadArgument, match="say so with keep="):
        trusted("g", ["java_method('x') is null"], None)
