"""Lazy package exports: a module is imported when one of its names is first used.

A command that starts, does one thing and ends spends most of its time on imports (decision 39). The tables are written
by `tools/generate.py` from each package's `if TYPE_CHECKING:` imports.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(package: str, names_by_module: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's `__getattr__`, which imports a name from its module and caches it in the package.

    The table maps each module, relative to the package, to its exported names, separated by spaces. No module may have
    the name of an export: once imported, the module would replace it as an attribute of the package.
    """
    modules = {name: module for module, names in names_by_module.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
