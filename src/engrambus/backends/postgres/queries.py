"""The SQL of this back end, by name: SQLite's with parameters as PostgreSQL writes them, or its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from itertools import count
from pathlib import Path

from engrambus.backends.sqlite.queries import named_queries
from engrambus.backends.sqlite.queries import queries as sqlite_queries

_FOLDER = Path(__file__).with_name("sql")
_COMMENT = re.compile(r"--[^\n]*\n")
_PARAMETER = re.compile(r"\?(\d*)|'[^']*'")


@cache
def queries(file: str = "queries.sql") -> Mapping[str, str]:
    """Return every query of a file by name. One that this back end has under the same name replaces the shared one.

    Without any text there, it is not asked by this back end.
    """
    own = named_queries((_FOLDER / file).read_text("utf-8"))
    texts = {**{name: translate(text) for name, text in sqlite_queries(file).items()}, **own}
    bare = {name: _COMMENT.sub("", f"{text}\n").strip() for name, text in texts.items()}
    return {name: text for name, text in bare.items() if text}


def translate(query: str) -> str:
    """Return a query with its parameters numbered, `?` or `?1` as `$1`, and the project in the key of a conflict."""
    numbers = count(1)

    def number(match: re.Match[str]) -> str:
        if match[0].startswith("'"):
            return match[0]
        return f"${match[1] or next(numbers)}"

    return _PARAMETER.sub(number, _COMMENT.sub("", query)).replace("ON CONFLICT (", "ON CONFLICT (project, ")
