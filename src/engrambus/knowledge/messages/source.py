"""From the text an agent sent to a plain value and the line of each of its fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from engrambus.core import read_json_with_lines, read_yaml_with_lines
from engrambus.errors import BadText, BadYaml, BodyTooLarge, EngramBusError, MessageEmpty, MessageFence

MAX_MESSAGE_BYTES = 262_144
MAX_MESSAGE_DEPTH = 16
MAX_PROBLEMS = 20

_FENCE = re.compile(r" {0,3}(```+|~~~+)[ \t]*([A-Za-z]*)[ \t]*\r?")
_JSON = re.compile(r'\s*\{\s*["}]')
_LANGUAGES = ("", "yaml", "yml", "json")


class Sheet:
    """A message being read: where its fields stand, and everything found wrong with them so far."""

    def __init__(self, lines: Mapping[str, int]) -> None:
        self.lines = lines
        self.problems: list[EngramBusError] = []

    def line(self, field: str) -> int | None:
        """The line a field stands on, or that of the nearest field around it."""
        while field and field not in self.lines:
            field = field[: max(field.rfind("."), field.rfind("["), 0)]
        return self.lines.get(field)

    @property
    def is_full(self) -> bool:
        """Whether so much is wrong that reading on is no help to anybody."""
        return len(self.problems) >= MAX_PROBLEMS

    @contextmanager
    def noting(self, under: str = "") -> Iterator[None]:
        """Keep a refusal given inside, with its line; the names of its fields are relative to `under`."""
        try:
            yield
        except EngramBusError as problem:
            if not self.is_full:
                self.problems.append(self.placed(problem, under))

    def placed(self, problem: EngramBusError, under: str = "") -> EngramBusError:
        """The refusal with its field written from the top of the message, and its line."""
        if under:
            inner = problem.field or ""
            problem.field = f"{under}.{inner}" if inner and inner[0] != "[" else f"{under}{inner}"
        line = self.line(problem.field or "")
        if line is not None and problem.line is None:
            problem.line = line
            problem.detail = f"{problem.detail.removesuffix('.')}, at line {line}."
            problem.args = (problem.detail,)
        return problem


def read_source(text: str) -> tuple[Any, dict[str, int]]:
    """The value a text holds, YAML or JSON, plain or inside one fence; lines are counted on the text as sent."""
    _check_size(text)
    bare = _unfenced(text.removeprefix("\ufeff"))
    if not bare or bare.isspace():
        raise MessageEmpty(line=1)
    if _JSON.match(bare):
        return read_json_with_lines(bare, max_bytes=MAX_MESSAGE_BYTES, max_depth=MAX_MESSAGE_DEPTH)
    try:
        return read_yaml_with_lines(bare, max_bytes=MAX_MESSAGE_BYTES, max_depth=MAX_MESSAGE_DEPTH)
    except BadYaml as problem:
        problem.hint = problem.hint or "Indent with spaces; put texts that hold a colon or a quote in double quotes."
        raise


def _check_size(text: str) -> None:
    try:
        size = len(text) if len(text) > MAX_MESSAGE_BYTES else len(text.encode())
    except UnicodeEncodeError:
        raise BadText("The text holds half of a surrogate pair.") from None
    if size > MAX_MESSAGE_BYTES:
        raise BodyTooLarge(limit=MAX_MESSAGE_BYTES, used=size)


def _unfenced(text: str) -> str:
    """The text with an empty line in place of each mark of its fence, so that every line keeps its number."""
    if "```" not in text and "~~~" not in text:
        return text
    lines = text.split("\n")
    filled = [number for number, line in enumerate(lines) if line and not line.isspace()]
    first, last = filled[0], filled[-1]
    opening = _FENCE.fullmatch(lines[first])
    if opening is None:
        _refuse_fences(lines)
        return text
    mark, language = opening.groups()
    if language.lower() not in _LANGUAGES:
        raise MessageFence(f"A message is not {language[:20]}, at line {first + 1}.", line=first + 1, hint="```yaml")
    closing = _FENCE.fullmatch(lines[last])
    if first == last or closing is None or not closing[1].startswith(mark) or closing[2]:
        _refuse_fences(lines[first + 1 :], first + 1)
        raise MessageFence(f"The fence opened at line {first + 1} is never closed.", line=first + 1)
    lines[first] = lines[last] = ""
    _refuse_fences(lines)
    return "\n".join(lines)


def _refuse_fences(lines: list[str], skipped: int = 0) -> None:
    """A fence at the margin is never part of a YAML or JSON message."""
    for number, line in enumerate(lines, skipped + 1):
        if line.startswith(("```", "~~~")):
            raise MessageFence(
                f"A fence stands at line {number}.",
                line=number,
                hint="Send the message alone, without words around it; at most one fence around the whole.",
            )
