"""Text for terminals: nothing an agent wrote can move the cursor, change a colour or hide."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Sequence

import click

_HARMLESS = frozenset("\u00a0\u3000\u200c\u200d")
COLOURS = {
    "risk": "red",
    "constraint": "yellow",
    "decision": "magenta",
    "policy": "magenta",
    "todo": "cyan",
    "test": "green",
    "perf": "green",
}


def safe(text: str) -> str:
    """The text on one line, with every character that is not plain printing shown as its escape."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in _HARMLESS else _escape(each) for each in text)


def safe_line(text: str) -> str:
    """A line of a file: as `safe`, with tabs left alone."""
    return "\t".join(safe(part) for part in text.split("\t"))


def json_line(data: bytes) -> str:
    """JSON on one line, with nothing in its texts that a terminal would act on."""
    text = data.decode()
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _json_escape(each) for each in text)


def width() -> int | None:
    """How many columns there are; none in a pipe."""
    if not sys.stdout.isatty():
        return None
    import shutil

    return max(40, min(shutil.get_terminal_size().columns, 120))


def cells(text: str) -> int:
    """How many columns a text takes."""
    if text.isascii():
        return len(text)
    return sum(_cells(each) for each in text)


def wrap(text: str, columns: int | None) -> list[str]:
    """The text in lines of at most so many columns; one line when there is no limit."""
    if columns is None or cells(text) <= columns:
        return [text]
    lines, line = [], ""
    for word in text.split(" "):
        while cells(word) > columns:
            if line:
                lines.append(line)
                line = ""
            head = _fitting(word, columns)
            lines.append(word[:head])
            word = word[head:]
        if line and cells(line) + 1 + cells(word) > columns:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line] if line else lines


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Rows under their headings, columns aligned."""
    shown = [[safe(cell) for cell in row] for row in rows]
    widths = [max(cells(row[column]) for row in [headings, *shown]) for column in range(len(headings))]
    lines = ["  ".join(cell + " " * (width - cells(cell)) for cell, width in zip(row, widths, strict=True)).rstrip()
             for row in [headings, *shown]]  # fmt: skip
    return [click.style(lines[0], bold=True), *lines[1:]]


def pairs(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Names and what they are, one to a line."""
    held = [(safe(name), safe(value)) for name, value in rows]
    column = max(len(name) for name, _ in held)
    return [f"{dim(name.ljust(column))}  {value}" for name, value in held]


def dim(text: str) -> str:
    """Text that matters less."""
    return click.style(text, dim=True)


def kind(name: str) -> str:
    """A kind of engram in its colour."""
    return click.style(safe(name), fg=COLOURS.get(name, "blue"), bold=True)


def counted(number: int, what: str) -> str:
    """So many of something: `1 run`, `2,600 runs`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _escape(each: str) -> str:
    code = ord(each)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(each: str) -> str:
    code = ord(each)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def _cells(each: str) -> int:
    if unicodedata.combining(each) or each in "\u200c\u200d":
        return 0
    return 2 if unicodedata.east_asian_width(each) in "WF" else 1


def _fitting(word: str, columns: int) -> int:
    used = 0
    for position, each in enumerate(word):
        used += _cells(each)
        if used > columns:
            return max(1, position)
    return len(word)
