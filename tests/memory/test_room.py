"""Nothing in the controller's room could make two reads differ."""

from __future__ import annotations

import ast
from pathlib import Path

import engrambus.knowledge.memory as room

HARMLESS = {
    "__future__",
    "bisect",
    "collections",
    "collections.abc",
    "hashlib",
    "itertools",
    "json",
    "msgspec",
    "operator",
    "posixpath",
    "re",
    "stringzilla",
    "struct",
    "typing",
}
FROM = {
    "datetime": {"UTC", "datetime", "timedelta"},
    "engrambus.core": {"BYTES_PER_TOKEN", "canonical", "check_depth", "estimate_tokens", "read_json"},
    "engrambus.lazy_imports": {"opened_late"},  # loads modules of this same room
    "engrambus.errors": None,
}
TELLS_TIME_OR_PLACE = {"now", "today", "utcnow", "fromtimestamp", "astimezone", "open", "environ", "getenv", "urandom"}


def modules() -> list[Path]:
    found = sorted(Path(room.__path__[0]).glob("*.py"))
    assert len(found) > 8
    return found


def test_it_imports_no_clock_no_network_no_environment_and_no_randomness() -> None:  # MC-09
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
                allowed = FROM.get(names[0], set())
                if allowed:
                    assert {each.name for each in node.names} <= allowed, path
            for name in names:
                assert name in HARMLESS or name in FROM or name.startswith("engrambus.knowledge.memory"), (path, name)


def test_it_calls_nothing_that_looks_around() -> None:  # MC-09
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            name = getattr(called, "attr", getattr(called, "id", ""))
            assert name not in TELLS_TIME_OR_PLACE, (path, name)
