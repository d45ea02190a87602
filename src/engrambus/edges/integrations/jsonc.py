"""Edits JSON with comments and trailing commas in place.

The document is never printed again: an entry is inserted in the layout of its siblings or cut out, and every other byte
stays as it was. No maintained library does this (decision 19).
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


class ParseFailure(ValueError):
    """The text cannot be parsed at an offset."""

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.offset = offset


class NodeEntry(NamedTuple):
    """A member of an object or an item of a list, with offsets into the text."""

    key: str | None
    start: int
    value: Node
    comma: int | None
    """Offset of the comma after it, if there is one."""

    @property
    def end(self) -> int:
        return self.value.end


class Node(NamedTuple):
    """A value with its offsets in the text."""

    start: int
    end: int
    value: Any
    entries: tuple[NodeEntry, ...] | None = None
    """Entries of an object or list; None for any other value."""

    def member(self, key: str) -> NodeEntry | None:
        """Return the member with that name; the last of several, as JSON parsers do."""
        return next((entry for entry in reversed(self.entries or ()) if entry.key == key), None)


class Edit(NamedTuple):
    """A replacement at one offset of a text."""

    offset: int
    removed: str
    inserted: str

    def apply(self, text: str) -> str:
        return text[: self.offset] + self.inserted + text[self.offset + len(self.removed) :]

    def undo(self, text: str) -> str:
        return text[: self.offset] + self.removed + text[self.offset + len(self.inserted) :]


def read(text: str) -> Node | None:
    """Parse a text; return None if it has only white space and comments."""
    start = _skip_blank(text, 0)
    if start == len(text):
        return None
    node = _value(text, start, 0)
    end = _skip_blank(text, node.end)
    if end != len(text):
        raise ParseFailure("something follows the value", end)
    return node


def _skip_blank(text: str, offset: int) -> int:
    match = _BLANK.match(text, offset)
    return match.end() if match else offset


def _value(text: str, offset: int, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise ParseFailure(f"nested more than {MAX_DEPTH} deep", offset)
    first = text[offset : offset + 1]
    if first in ("{", "["):
        return _container(text, offset, depth)
    if first == '"':
        return _string(text, offset)
    match = _SCALAR.match(text, offset)
    if match is None:
        raise ParseFailure("a value was expected", offset)
    try:
        return Node(offset, match.end(), json.loads(match[0]))
    except ValueError:
        raise ParseFailure("a number has too many digits", offset) from None


def _string(text: str, offset: int) -> Node:
    try:
        value, end = scanstring(text, offset + 1)
    except ValueError:
        raise ParseFailure("a string is not terminated or has an unknown escape", offset) from None
    return Node(offset, end, value)


def _container(text: str, start: int, depth: int) -> Node:
    is_object = text[start] == "{"
    close = "}" if is_object else "]"
    entries: list[NodeEntry] = []
    offset = _skip_blank(text, start + 1)
    while text[offset : offset + 1] != close:
        if entries and entries[-1].comma is None:
            raise ParseFailure(f"a comma or '{close}' was expected", offset)
        key, entry_start = None, offset
        if is_object:
            if text[offset : offset + 1] != '"':
                raise ParseFailure("a name in quotes was expected", offset)
            name = _string(text, offset)
            key, offset = name.value, _skip_blank(text, name.end)
            if text[offset : offset + 1] != ":":
                raise ParseFailure("a colon was expected", offset)
            offset = _skip_blank(text, offset + 1)
        value = _value(text, offset, depth + 1)
        offset = _skip_blank(text, value.end)
        comma = offset if text[offset : offset + 1] == "," else None
        entries.append(NodeEntry(key, entry_start, value, comma))
        if comma is not None:
            offset = _skip_blank(text, comma + 1)
    values = [entry.value.value for entry in entries]
    content: Any = dict(zip((str(entry.key) for entry in entries), values, strict=True)) if is_object else values
    return Node(start, offset + 1, content, tuple(entries))


def insert(text: str, container: Node, key: str | None, value: Any) -> list[Edit]:
    """Return the edits that add an entry at the end of an object or list, laid out like its siblings."""
    entries = container.entries or ()
    layout = _Layout(text, container)
    printed = layout.print(key, value)
    if not entries:
        return [_first_entry_edit(text, container, layout, printed)]
    last = entries[-1]
    if not layout.multiline:
        # Directly after the last entry: a line comment further on would swallow the new one.
        gap = " " * layout.spaced
        if last.comma:
            return [Edit(last.comma + 1, "", gap + printed + ",")]
        return [Edit(last.end, "", "," + gap + printed)]
    end = last.end + len(text[last.end : container.end - 1].rstrip())
    if last.comma is not None:  # the file uses trailing commas
        return [Edit(end, "", printed + ",")]
    return [Edit(last.end, "", ","), Edit(end + 1, "", printed)]


def _first_entry_edit(text: str, container: Node, layout: _Layout, printed: str) -> Edit:
    inside = text[container.start + 1 : container.end - 1]
    comments = inside.rstrip()
    close = layout.close if layout.multiline else ""
    if not comments:
        return Edit(container.start + 1, inside, printed + close)
    offset = container.start + 1 + len(comments)
    return Edit(offset, "", printed) if layout.multiline else Edit(offset, inside[len(comments) :], printed + close)


class _Layout:
    """The layout of a document around one of its containers."""

    def __init__(self, text: str, container: Node) -> None:
        self.newline = "\r\n" if "\r\n" in text else "\n"
        indented = _INDENT.search(text)
        self.unit = indented[1] if indented else "  "
        entries = container.entries or ()
        container_indent = _indent_at(text, container.start)
        if entries:
            self.multiline = "\n" in text[container.start : entries[0].start]
            self.indent = _indent_at(text, entries[0].start) if self.multiline else container_indent
        else:
            self.multiline = "\n" in text or container.start == _skip_blank(text, 0)
            self.indent = container_indent + self.unit
        self.spaced = ": " in text or '":' not in text
        self.close = self.newline + container_indent

    def print(self, key: str | None, value: Any) -> str:
        """Return an entry in this layout, with the line break before it."""
        name = "" if key is None else json.dumps(key, ensure_ascii=False) + (": " if self.spaced else ":")
        if not self.multiline:
            separators = (", ", ": ") if self.spaced else (",", ":")
            return name + json.dumps(value, ensure_ascii=False, separators=separators)
        lines = json.dumps(value, ensure_ascii=False, indent=self.unit).split("\n")
        start = self.newline + self.indent
        return start + name + start.join(lines)


def _indent_at(text: str, offset: int) -> str:
    """Return the white space at the beginning of the line of an offset."""
    line = text[text.rfind("\n", 0, offset) + 1 : offset]
    return line[: len(line) - len(line.lstrip(" \t"))]


def remove(text: str, container: Node, entry: NodeEntry) -> str:
    """Return the text without one entry and the comma it needed; comments stay."""
    entries = container.entries or ()
    index = entries.index(entry)
    previous = entries[index - 1] if index else None
    start = _after_comments(
        text, (previous.comma or previous.end) + 1 if previous else container.start + 1, entry.start
    )
    if index + 1 < len(entries):
        return text[:start] + text[(entry.comma or entry.end) + 1 :]
    end = entry.end if entry.comma is None else entry.comma + 1
    if previous is None:
        shorter = text[:start] + text[end:]
        inside = shorter[container.start + 1 : container.end - 1 - (end - start)]
        if inside.strip():
            return shorter
        return shorter[: container.start + 1] + shorter[container.start + 1 + len(inside) :]
    if entry.comma is None and previous.comma is not None:
        return text[: previous.comma] + text[previous.comma + 1 : start] + text[end:]
    return text[:start] + text[end:]


_COMMENT_OR_CHARACTER = re.compile(r"//[^\r\n]*|/\*.*?\*/|.", re.DOTALL)


def _after_comments(text: str, start: int, end: int) -> int:
    """Return the offset after the last comment in a range, where the text of an entry begins."""
    offset = after = start
    while offset < end:
        match = _COMMENT_OR_CHARACTER.match(text, offset)
        if match is None:
            break
        if match[0][:1] == "/":
            after = match.end()
        offset = match.end()
    return after
