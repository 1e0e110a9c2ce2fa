"""What is exported exists, once, in order."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import headgate

#: Packages with modules that need no extra, numpy at most.
PURE = (
    *(
        "control",
        "core",
        "fairness",
        "job",
        "policies",
        "policies.by_group",
        "run",
        "sites",
        "sites.wire",
    ),
    *("store", "store.ledger", "whatif"),
)


def _pure_modules() -> list[str]:
    found = ["durations", "errors", "settings", "testing.clock", "testing.contracts"]
    for package in PURE:
        found.append(package)
        path = importlib.import_module(f"headgate.{package}").__path__
        found += [f"{package}.{m.name}" for m in pkgutil.iter_modules(path)]
    return sorted(set(found))


def test_the_public_names_are_sorted_and_all_of_them_resolve() -> None:
    assert headgate.__all__ == sorted(set(headgate.__all__))
    for name in headgate.__all__:
        assert getattr(headgate, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'gates'"):
        headgate.gates  # noqa: B018


@pytest.mark.parametrize("name", _pure_modules())
def test_a_modules_exports_exist(name: str) -> None:
    module = importlib.import_module(f"headgate.{name}")
    exports = getattr(module, "__all__", [])
    assert len(exports) == len(set(exports))
    for export in exports:
        assert hasattr(module, export), f"{name}.__all__ names {export}, which is not there"
    assert (module.__doc__ or "").strip(), f"{name} does not say what it is for"


#: What needs a Spark session to be shown: an example of each runs in a page (tests/test_docs.py).
ON_A_SESSION = {
    *("FileLink", "KafkaLink", "Site", "backfill", "count", "delta_rows", "doctor", "dropped"),
    *("file_rows", "gate", "gate_join", "guard", "iceberg_rows", "join", "kafka_rows", "mean", "median"),
    *("Repairable", "difference", "pooled", "quantile", "ratio", "recount", "repaid_batches", "repay"),
    *("sic", "sum", "together", "total"),
}


@pytest.mark.parametrize("name", [n for n in headgate.__all__ if n != "__version__"])
def test_what_is_public_is_explained_by_an_example(name: str) -> None:
    thing = getattr(headgate, name)
    text = inspect.getdoc(thing) or ""
    assert len(text.split()) >= 5, f"hg.{name} does not say what it is"
    if isinstance(thing, type) and issubclass(thing, headgate.HeadgateError):
        return
    if name in ON_A_SESSION:
        pages = "".join(page.read_text() for page in [Path("README.md"), *Path("docs").glob("*.md")])
        blocks = "".join(re.findall(r"^```python\n(.*?)^```", pages, re.MULTILINE | re.DOTALL))
        shown = f"hg.{name}" in blocks or f".{name}(" in text
        assert shown, f"no page has an example of hg.{name}"
    else:
        assert ">>> " in text, f"hg.{name} has no example that runs"
