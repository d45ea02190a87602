"""The SQL of this back end, by name. It lives in `sql/`, where it can be read as documentation."""

from __future__ import annotations

from functools import cache
from importlib import resources


def schema() -> str:
    """The statements that make a new index."""
    return _text("schema.sql")


def _text(name: str) -> str:
    return (resources.files("stigmergy.backends.sqlite") / "sql" / name).read_text("utf-8")


@cache
def queries() -> dict[str, str]:
    """Every named query."""
    named: dict[str, str] = {}
    for part in _text("queries.sql").split("-- name: ")[1:]:
        name, _, text = part.partition("\n")
        named[name.strip()] = text.strip().rstrip(";")
    return named
