"""What a fresh clone compiles once: the asserts of all tests, and the kernels of joins.

Each of a run's processes would compile all tests for itself, as they begin together, and the workers of
the first join its kernels. ``python -m tests.harness.warm.compiled_once`` does both beforehand; `make
test` runs it beside the making of the class archive, which needs one core of two.
"""

from __future__ import annotations

import pytest

import headgate as hg
from headgate.joins.warm_up import warm_up

__all__: list[str] = []

_CONDITIONS = (
    *(hg.overlap("items", at_least=2), hg.subset("items"), hg.superset("items"), hg.equal("topic")),
    *(hg.inner_product("items", at_least=1.0),),
)

if __name__ == "__main__":
    pytest.main(["--collect-only", "-qq", "-p", "no:xdist", "-p", "no:cacheprovider"])
    for condition in _CONDITIONS:
        warm_up(condition)
