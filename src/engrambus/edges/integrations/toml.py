"""TOML edited in place: one table put at the end or cut out, every other byte left alone."""

from __future__ import annotations

import json
import tomllib
from typing import Any

from engrambus.edges.integrations.jsonc import Broken, Edit


def read(text: str) -> dict[str, Any]:
    """What a text holds."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise Broken(str(problem).partition(" (at")[0].lower(), _place(text, str(problem))) from None


def insert(text: str, path: tuple[str, str], value: dict[str, Any]) -> Edit:
    """What puts a table into the text: at its end, or, where its parent is written in braces, between them."""
    held = read(text)
    wanted = {**held, path[0]: {**held.get(path[0], {}), path[1]: value}}
    newline = "\r\n" if "\r\n" in text else "\n"
    rows = [f"[{'.'.join(path)}]", *(f"{name} = {_literal(each)}" for name, each in value.items())]
    gap = "" if not text else newline if text.endswith("\n") else newline * 2
    edit = Edit(len(text), "", gap + newline.join(rows) + newline)
    if _same(edit.apply(text), wanted):
        return edit
    import tomlkit

    document = tomlkit.parse(text)
    table = tomlkit.inline_table()
    table.update(value)
    document[path[0]][path[1]] = table
    printed = tomlkit.dumps(document)
    if not _same(printed, wanted):
        raise Broken(f"there is no place for {'.'.join(path)}", 0)
    return difference(text, printed)


def remove(text: str, path: tuple[str, str]) -> str:
    """The text without a table and those inside it."""
    held = read(text)
    wanted = {**held, path[0]: {name: each for name, each in held[path[0]].items() if name != path[1]}}
    names = (f"[{'.'.join(path)}]", f"[{'.'.join(path)}.")
    kept: list[str] = []
    ours = False
    for line in text.splitlines(keepends=True):
        head = line.strip().replace(" ", "").replace('"', "")
        if head.startswith("["):
            ours = head.partition("#")[0] == names[0] or head.startswith(names[1])
            if ours and kept and not kept[-1].strip():
                kept.pop()  # the blank line that came with it
        if not ours:
            kept.append(line)
    shorter = "".join(kept)
    if _same(shorter, wanted) or _same(shorter, {name: each for name, each in wanted.items() if each}):
        return shorter
    import tomlkit

    document = tomlkit.parse(text)
    del document[path[0]][path[1]]
    return tomlkit.dumps(document)


def difference(old: str, new: str) -> Edit:
    """The one change between two texts."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    return Edit(start, old[start : len(old) - end], new[start : len(new) - end])


def _same(text: str, wanted: dict[str, Any]) -> bool:
    try:
        return tomllib.loads(text) == wanted
    except tomllib.TOMLDecodeError:
        return False


def _literal(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _place(text: str, problem: str) -> int:
    """Where a reader stopped, from what it said: `(at line 3, column 5)`."""
    words = problem.rpartition("(at line ")[2].partition(",")[0]
    if not words.isdigit():
        return len(text)
    return sum(len(line) for line in text.splitlines(keepends=True)[: int(words) - 1])
