"""Edits TOML in place: adds one table at the end or cuts it out; every other byte stays as it was."""

from __future__ import annotations

import json
import tomllib
from typing import Any

from engrambus.edges.integrations.jsonc import Edit, ParseFailure


def read(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise ParseFailure(str(problem).partition(" (at")[0].lower(), _failure_offset(text, str(problem))) from None


def insert(text: str, path: tuple[str, str], value: dict[str, Any]) -> Edit:
    """Return the edit that adds a table at the end or, if its parent is an inline table, inside that."""
    before = read(text)
    expected = {**before, path[0]: {**before.get(path[0], {}), path[1]: value}}
    newline = "\r\n" if "\r\n" in text else "\n"
    rows = [f"[{'.'.join(path)}]", *(f"{name} = {_literal(member)}" for name, member in value.items())]
    gap = "" if not text else newline if text.endswith("\n") else newline * 2
    edit = Edit(len(text), "", gap + newline.join(rows) + newline)
    if _parses_to(edit.apply(text), expected):
        return edit
    import tomlkit

    document = tomlkit.parse(text)
    table = tomlkit.inline_table()
    table.update(value)
    document[path[0]][path[1]] = table
    printed = tomlkit.dumps(document)
    if not _parses_to(printed, expected):
        raise ParseFailure(f"{'.'.join(path)} cannot be added", 0)
    return difference(text, printed)


def remove(text: str, path: tuple[str, str]) -> str:
    """Return the text without a table and its sub-tables."""
    before = read(text)
    siblings = {name: value for name, value in before[path[0]].items() if name != path[1]}
    expected = {**before, path[0]: siblings}
    names = (f"[{'.'.join(path)}]", f"[{'.'.join(path)}.")
    lines: list[str] = []
    in_table = False
    for line in text.splitlines(keepends=True):
        head = line.strip().replace(" ", "").replace('"', "")
        if head.startswith("["):
            in_table = head.partition("#")[0] == names[0] or head.startswith(names[1])
            if in_table and lines and not lines[-1].strip():
                lines.pop()  # the blank line that was added with the table
        if not in_table:
            lines.append(line)
    shorter = "".join(lines)
    if _parses_to(shorter, expected) or _parses_to(shorter, {name: value for name, value in expected.items() if value}):
        return shorter
    import tomlkit

    document = tomlkit.parse(text)
    del document[path[0]][path[1]]
    return tomlkit.dumps(document)


def difference(old: str, new: str) -> Edit:
    """Return the single edit between two texts."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    return Edit(start, old[start : len(old) - end], new[start : len(new) - end])


def _parses_to(text: str, expected: dict[str, Any]) -> bool:
    try:
        return tomllib.loads(text) == expected
    except tomllib.TOMLDecodeError:
        return False


def _literal(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _failure_offset(text: str, problem: str) -> int:
    """Return the offset of a parse failure from its message: `(at line 3, column 5)`."""
    words = problem.rpartition("(at line ")[2].partition(",")[0]
    if not words.isdigit():
        return len(text)
    return sum(len(line) for line in text.splitlines(keepends=True)[: int(words) - 1])
