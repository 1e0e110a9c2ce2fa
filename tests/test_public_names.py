"""What is exported exists, once, in order."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import headgate

#: Packages with modules that need no extra, numpy at most.
PURE = (
    *("control", "core", "fairness", "policies", "policies.by_group", "run", "sites", "sites.wire"),
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
