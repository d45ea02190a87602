"""Nothing that the memory controller imports or calls could make two reads differ."""

from __future__ import annotations

import ast
from pathlib import Path

import engrambus.knowledge.memory as memory_package

DETERMINISTIC_MODULES = {
    "__future__",
    "array",
    "bisect",
    "collections",
    "collections.abc",
    "functools",
    "hashlib",
    "itertools",
    "json",
    "msgspec",
    "posixpath",
    "re",
    "typing",
}
DETERMINISTIC_NAMES = {
    "datetime": {"UTC", "date", "datetime", "timedelta"},
    "engrambus.core": {"SECOND_US", "canonical", "check_depth", "read_json"},
    "engrambus.policy": {"ContentDrawn", "Payers", "TurnCharged", "draw_content"},
    "engrambus.lazy_imports": {"lazy_exports"},  # loads modules of this same package
    "engrambus.errors": None,
}
"""Modules of which only these names may be imported; None allows all."""
READS_SURROUNDINGS = {"now", "today", "utcnow", "fromtimestamp", "astimezone", "open", "environ", "getenv", "urandom"}


def modules() -> list[Path]:
    paths = sorted(Path(memory_package.__path__[0]).glob("*.py"))
    assert len(paths) >= 5
    return paths


def test_it_imports_no_clock_no_network_no_environment_and_no_randomness() -> None:  # MC-09
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
                allowed = DETERMINISTIC_NAMES.get(names[0], set())
                if allowed:
                    assert {alias.name for alias in node.names} <= allowed, path
            for name in names:
                is_allowed = name in DETERMINISTIC_MODULES or name in DETERMINISTIC_NAMES
                assert is_allowed or name.startswith("engrambus.knowledge.memory"), (path, name)


def test_it_calls_no_function_that_reads_its_surroundings() -> None:  # MC-09
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            function = node.func if isinstance(node, ast.Call) else None
            name = getattr(function, "attr", getattr(function, "id", ""))
            assert name not in READS_SURROUNDINGS, (path, name)
