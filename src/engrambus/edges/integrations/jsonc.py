"""JSON as people keep it — comments, trailing commas, their own layout — read with places and edited in place.

Nothing is parsed and printed again: an entry is put in beside the others in their layout, or cut out, and every other
byte stays where it was.
"""

from __future__ import annotations

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]  # the standard library's own reader of strings
from typing import Any, NamedTuple

MAX_DEPTH = 100
_BLANK = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")
_INDENT = re.compile(r"\n([ \t]+)\S")


class Broken(ValueError):
    """The text cannot be read, from this place on."""

    def __init__(self, what: str, at: int) -> None:
        super().__init__(what)
        self.what = what
        self.at = at


class Entry(NamedTuple):
    """One member of an object, or one item of a list, where it stands."""

    key: str | None
    start: int
    value: Node
    comma: int | None
    """Where the comma behind it stands, if there is one."""

    @property
    def end(self) -> int:
        """Where its value ends."""
        return self.value.end


class Node(NamedTuple):
    """A value, where it stands."""

    start: int
    end: int
    value: Any
    entries: tuple[Entry, ...] | None = None
    """What it holds, for objects and lists."""

    def member(self, key: str) -> Entry | None:
        """The member of that name; of several the last, as parsers have it."""
        return next((entry for entry in reversed(self.entries or ()) if entry.key == key), None)


class Edit(NamedTuple):
    """A change of a text at one place."""

    at: int
    removed: str
    inserted: str

    def apply(self, text: str) -> str:
        """The text with it."""
        return text[: self.at] + self.inserted + text[self.at + len(self.removed) :]

    def undo(self, text: str) -> str:
        """The text without it."""
        return text[: self.at] + self.removed + text[self.at + len(self.inserted) :]


def read(text: str) -> Node | None:
    """What a text holds; none for one that holds nothing but blanks and comments."""
    start = _blank(text, 0)
    if start == len(text):
        return None
    node = _value(text, start, 0)
    rest = _blank(text, node.end)
    if rest != len(text):
        raise Broken("something follows the value", rest)
    return node


def _blank(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _value(text: str, at: int, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise Broken(f"nested more than {MAX_DEPTH} deep", at)
    first = text[at : at + 1]
    if first in ("{", "["):
        return _container(text, at, depth)
    if first == '"':
        return _string(text, at)
    match = _SCALAR.match(text, at)
    if match is None:
        raise Broken("a value was expected", at)
    try:
        return Node(at, match.end(), json.loads(match[0]))
    except ValueError:
        raise Broken("a number of more digits than can be read", at) from None


def _string(text: str, at: int) -> Node:
    try:
        value, end = scanstring(text, at + 1)
    except ValueError:
        raise Broken("a text that does not end, or an escape there is not", at) from None
    return Node(at, end, value)


def _container(text: str, start: int, depth: int) -> Node:
    is_object = text[start] == "{"
    close = "}" if is_object else "]"
    entries: list[Entry] = []
    at = _blank(text, start + 1)
    while text[at : at + 1] != close:
        if entries and entries[-1].comma is None:
            raise Broken(f"a comma or '{close}' was expected", at)
        key, place = None, at
        if is_object:
            if text[at : at + 1] != '"':
                raise Broken("a name in quotes was expected", at)
            name = _string(text, at)
            key, at = name.value, _blank(text, name.end)
            if text[at : at + 1] != ":":
                raise Broken("a colon was expected", at)
            at = _blank(text, at + 1)
        value = _value(text, at, depth + 1)
        at = _blank(text, value.end)
        comma = at if text[at : at + 1] == "," else None
        entries.append(Entry(key, place, value, comma))
        if comma is not None:
            at = _blank(text, comma + 1)
    held: Any = (
        {str(each.key): each.value.value for each in entries} if is_object else [each.value.value for each in entries]
    )
    return Node(start, at + 1, held, tuple(entries))


def insert(text: str, container: Node, key: str | None, value: Any) -> list[Edit]:
    """What puts an entry at the end of an object or a list, laid out as the others are."""
    entries = container.entries or ()
    lines = _Layout(text, container)
    written = lines.write(key, value)
    if not entries:
        inside = text[container.start + 1 : container.end - 1]
        close = lines.close if lines.many else ""
        if inside.strip():  # comments stay where they are, before what is put in
            at = container.start + 1 + len(inside.rstrip())
            return (
                [Edit(at, "", written)] if lines.many else [Edit(at, inside[len(inside.rstrip()) :], written + close)]
            )
        return [Edit(container.start + 1, inside, written + close)]
    last = entries[-1]
    trailing = last.comma is not None  # who ends with a comma keeps doing so
    if not lines.many:  # close behind the last entry: a comment further on would swallow it
        gap = " " * lines.spaced
        return [
            Edit(last.comma + 1, "", gap + written + ",") if last.comma else Edit(last.end, "", "," + gap + written)
        ]
    behind = text[last.end : container.end - 1]
    at = last.end + len(behind.rstrip())
    if trailing:
        return [Edit(at, "", written + ",")]
    return [Edit(last.end, "", ","), Edit(at + 1, "", written)]


class _Layout:
    """How a document is laid out around one of its containers."""

    def __init__(self, text: str, container: Node) -> None:
        self.newline = "\r\n" if "\r\n" in text else "\n"
        found = _INDENT.search(text)
        self.unit = found[1] if found else "  "
        entries = container.entries or ()
        own = _indent_at(text, container.start)
        if entries:
            self.many = "\n" in text[container.start : entries[0].start]
            self.indent = _indent_at(text, entries[0].start) if self.many else own
        else:
            self.many = "\n" in text or container.start == _blank(text, 0)
            self.indent = own + self.unit
        self.spaced = ": " in text or '":' not in text
        self.close = self.newline + own

    def write(self, key: str | None, value: Any) -> str:
        """An entry as it would stand here, with what goes before it."""
        name = "" if key is None else json.dumps(key, ensure_ascii=False) + (": " if self.spaced else ":")
        if not self.many:
            separators = (", ", ": ") if self.spaced else (",", ":")
            return name + json.dumps(value, ensure_ascii=False, separators=separators)
        lines = json.dumps(value, ensure_ascii=False, indent=self.unit).split("\n")
        start = self.newline + self.indent
        return start + name + start.join(lines)


def _indent_at(text: str, at: int) -> str:
    """The blanks a line begins with."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def remove(text: str, container: Node, entry: Entry) -> str:
    """The text without one entry of a container, and without the comma it needed; comments stay."""
    entries = container.entries or ()
    place = entries.index(entry)
    before = entries[place - 1] if place else None
    from_ = _before(text, (before.comma or before.end) + 1 if before else container.start + 1, entry.start)
    if place + 1 < len(entries):
        return text[:from_] + text[(entry.comma or entry.end) + 1 :]
    end = entry.end if entry.comma is None else entry.comma + 1
    if before is None:
        shorter = text[:from_] + text[end:]
        inside = shorter[container.start + 1 : container.end - 1 - (end - from_)]
        return (
            shorter if inside.strip() else shorter[: container.start + 1] + shorter[container.start + 1 + len(inside) :]
        )
    if entry.comma is None and before.comma is not None:
        return text[: before.comma] + text[before.comma + 1 : from_] + text[end:]
    return text[:from_] + text[end:]


def _before(text: str, start: int, end: int) -> int:
    """Where what belongs to an entry begins: behind the last comment before it."""
    at = last = start
    while at < end:
        match = re.compile(r"//[^\r\n]*|/\*.*?\*/|.", re.DOTALL).match(text, at)
        if match is None:
            break
        if match[0][:1] == "/":
            last = match.end()
        at = match.end()
    return last
