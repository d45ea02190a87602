"""The SQL of this back end, by name. It lives in `sql/`, where it can be read as documentation."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).with_name("sql")  # importlib.resources would take two milliseconds to load


def schema(name: str = "schema.sql") -> str:
    """The statements that make a new index."""
    return _text(name)


def _text(name: str) -> str:
    return (_FOLDER / name).read_text("utf-8")


@cache
def queries(file: str = "queries.sql") -> dict[str, str]:
    """Every named query of a file; `{row}` in one stands for the columns that the part called `row` lists."""
    named: dict[str, str] = {}
    for part in _text(file).split("-- name: ")[1:]:
        name, _, text = part.partition("\n")
        named[name.strip()] = text.strip().rstrip(";")
    row = named.pop("row", "")
    return {name: text.replace("{row}", row) for name, text in named.items()}
