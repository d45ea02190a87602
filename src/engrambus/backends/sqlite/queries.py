"""The SQL of this back end, by name. It is kept in `sql/`, where it can be read as documentation."""

from __future__ import annotations

import re
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

ROWS_PER_STATEMENT = (64, 16, 4, 1)
"""Few sizes, so that few statements are prepared and all of them stay in SQLite's cache (decision 35)."""
_VALUES = re.compile(r"VALUES (\([^()]*\))")

_FOLDER = Path(__file__).with_name("sql")  # importing importlib.resources would take two milliseconds


def schema(name: str = "schema.sql") -> str:
    """Return the statements that create a new index."""
    return _text(name)


def _text(name: str) -> str:
    return (_FOLDER / name).read_text("utf-8")


@cache
def queries(file: str = "queries.sql") -> dict[str, str]:
    """Return every query of a file by name. `{columns}` in one stands for the text of the part called `columns`."""
    return named_queries(_text(file))


def named_queries(text: str) -> dict[str, str]:
    """Return the queries of a file's text by name."""
    named: dict[str, str] = {}
    for part in text.split("-- name: ")[1:]:
        name, _, text = part.partition("\n")
        named[name.strip()] = text.strip().rstrip(";")
    columns = named.pop("columns", "")
    return {name: text.replace("{columns}", columns) for name, text in named.items()}


def statements_for(query: str, values: list[Any]) -> list[tuple[str, list[Any]]]:
    """Split the values of many rows over few statements, each for several rows.

    decision 35: `executemany` looks a statement up and puts it back for every row, which evicts all others.
    """
    width, start = _width(query), 0
    if len(values) == width:
        return [(query, values)]
    statements = []
    for rows in ROWS_PER_STATEMENT:
        size = rows * width
        while len(values) - start >= size:
            statements.append((_for_rows(query, rows), values[start : start + size]))
            start += size
    return statements


@cache
def _width(query: str) -> int:
    """Return the number of values in a row."""
    return query.count("?")


@cache
def _for_rows(query: str, rows: int) -> str:
    """Turn a query for one row into one for several: an INSERT with one VALUES, or an UPDATE with one WHERE."""
    if rows == 1:
        return query
    if query.startswith("INSERT"):
        return _VALUES.sub(lambda match: f"VALUES {', '.join([match[1]] * rows)}", query)
    column = count(1)
    change, where = re.sub(r"\?", lambda _: f"new.column{next(column)}", query).split("WHERE")
    row = f"({', '.join('?' * _width(query))})"
    return f"{change} FROM (VALUES {', '.join([row] * rows)}) AS new WHERE {where}"
