"""The SQL of this back end, by name. It lives in `sql/`, where it can be read as documentation."""

from __future__ import annotations

import re
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

ROWS_AT_ONCE = (64, 16, 4, 1)
"""How many rows one statement writes: few lengths, so that few statements are prepared and all of them kept."""
_ROW = re.compile(r"VALUES (\([^()]*\))")

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


def several(query: str, values: list[Any]) -> list[tuple[str, list[Any]]]:
    """A query for many rows' values as few statements, each for several rows.

    `executemany` would look a statement up and put it back for every row, which throws all others out of the cache.
    """
    width, at = _width(query), 0
    if len(values) == width:
        return [(query, values)]
    statements = []
    for rows in ROWS_AT_ONCE:
        taken = rows * width
        while len(values) - at >= taken:
            statements.append((_of_rows(query, rows), values[at : at + taken]))
            at += taken
    return statements


@cache
def _width(query: str) -> int:
    """How many values a row has."""
    return query.count("?")


@cache
def _of_rows(query: str, rows: int) -> str:
    """A query for one row made into one for several: an INSERT with one VALUES, or an UPDATE with one WHERE."""
    if rows == 1:
        return query
    if query.startswith("INSERT"):
        return _ROW.sub(lambda row: f"VALUES {', '.join([row[1]] * rows)}", query)
    column = count(1)
    change, where = re.sub(r"\?", lambda _: f"new.column{next(column)}", query).split("WHERE")
    row = f"({', '.join('?' * _width(query))})"
    return f"{change} FROM (VALUES {', '.join([row] * rows)}) AS new WHERE {where}"
