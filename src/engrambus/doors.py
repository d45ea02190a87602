"""Doors that open late: a room's module is loaded when something it has is first asked for.

A command that starts, does one thing and ends spends most of its life loading code. Through doors that open late it
loads the rooms it enters and no others.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def homes_of(rooms: Mapping[str, str]) -> dict[str, str]:
    """The module of each name, from the names of each module."""
    return {name: module for module, names in rooms.items() for name in names.split()}


def opened_late(package: str, rooms: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package: finds a name in the module that has it, and keeps it in the door.

    No module may be called what the door offers: once loaded, it would stand in the door under that name.
    """
    homes = homes_of(rooms)

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
