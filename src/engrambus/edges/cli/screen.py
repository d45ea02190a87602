"""Text for terminals. Nothing that an agent wrote can move the cursor, change a colour or hide text."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import click

from engrambus.visible_text import escape_json, make_visible

# Not printable for Python, and part of ordinary text: no-break and ideographic spaces, and joiners.
_HARMLESS = frozenset("\u00a0\u3000\u200c\u200d")
_QUOTED_NAME = re.compile(r"`([\w.]+)`")
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
    """Return the text on one line, with every character that is not printable as an escape."""
    text = make_visible(text)  # decision 72: some of these are printable for Python
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in _HARMLESS else _escape(char) for char in text)


def safe_id(identifier: str) -> str:
    """Return the short form of an id, which every command takes; `--json` prints the whole one."""
    from engrambus.core import short_id

    return safe(short_id(identifier))


def safe_line(text: str) -> str:
    """Return a line of a file like `safe`, with its tabs."""
    return "\t".join(safe(part) for part in text.split("\t"))


def json_line(data: bytes) -> str:
    """Return JSON on one line, with escapes for everything a terminal would act on."""
    text = escape_json(data).decode()
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _json_escape(char) for char in text)


def command_words(text: str, option_names: Mapping[str, str] = MappingProxyType({})) -> str:
    """Replace what an error quotes as `field` or `operation.title` by the option or the command of that name."""
    from engrambus.edges.cli.table import COMMANDS

    def word(match: re.Match[str]) -> str:
        commands = (f"engrambus {words}" for words, entry in COMMANDS.items() if entry.title == match[1])
        return option_names.get(match[1]) or next(commands, match[0])

    # The domain writes errors for every edge, so it can only use the names that all of them share.
    return _QUOTED_NAME.sub(word, text)


def width() -> int | None:
    """Return the number of columns of the terminal; None in a pipe."""
    if not sys.stdout.isatty():
        return None
    import shutil

    # Above 120 columns, lines are hard to read; below 40, every pointer would be broken.
    return max(40, min(shutil.get_terminal_size().columns, 120))


def cells(text: str) -> int:
    """Return the number of columns a text takes."""
    if text.isascii():
        return len(text)
    return sum(_char_cells(char) for char in text)


def wrap(text: str, columns: int | None) -> list[str]:
    """Break a text into lines of at most that many columns; without a limit, return one line."""
    if columns is None or cells(text) <= columns:
        return [text]
    lines, line = [], ""
    for word in text.split(" "):
        while cells(word) > columns:
            if line:
                lines.append(line)
                line = ""
            head = _chars_within(word, columns)
            lines.append(word[:head])
            word = word[head:]
        if line and cells(line) + 1 + cells(word) > columns:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line] if line else lines


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return rows below their headings, with aligned columns."""
    printable = [[safe(cell) for cell in row] for row in rows]
    widths = [max(cells(row[column]) for row in [headings, *printable]) for column in range(len(headings))]
    lines = ["  ".join(cell + " " * (width - cells(cell)) for cell, width in zip(row, widths, strict=True)).rstrip()
             for row in [headings, *printable]]  # fmt: skip
    return [click.style(lines[0], bold=True), *lines[1:]]


def pairs(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Return names with their values, one pair a line."""
    printable = [(safe(name), safe(value)) for name, value in rows]
    column = max((len(name) for name, _ in printable), default=0)
    return [f"{dim(name.ljust(column))}  {value}" for name, value in printable]


def dim(text: str) -> str:
    """Return a text in grey, for what matters less."""
    return click.style(text, dim=True)


def kind(name: str) -> str:
    """Return a kind of engram in its colour."""
    return click.style(safe(name), fg=COLOURS.get(name, "blue"), bold=True)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 run`, `2,600 runs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(char: str) -> str:
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000  # JSON writes these as a surrogate pair
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def _char_cells(char: str) -> int:
    if unicodedata.combining(char) or char in "\u200c\u200d":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _chars_within(word: str, columns: int) -> int:
    """Return how many characters of a word fit into the columns: at least one."""
    used = 0
    for position, char in enumerate(word):
        used += _char_cells(char)
        if used > columns:
            return max(1, position)
    return len(word)
