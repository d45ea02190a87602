"""From the text an agent sent to a plain value, with the line number of each field."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from engrambus.core import read_json_with_lines, read_yaml_with_lines
from engrambus.errors import BadText, BadYaml, BodyTooLarge, EngramBusError, MessageEmpty, MessageFence
from engrambus.knowledge.messages.values import CHILD_SECTIONS

MAX_MESSAGE_BYTES = 262_144
MAX_MESSAGE_CHARS = 65_536
"""Longest text that the operations accept as a message or as an answer."""
MAX_MESSAGE_DEPTH = 16
MAX_PROBLEMS = 20
MIN_SECTIONS = 2
"""A text with fewer section names is prose, not a message."""

_FENCE = re.compile(r" {0,3}(```+|~~~+)[ \t]*([A-Za-z]*)[ \t]*\r?")
_JSON = re.compile(r'\s*\{\s*["}]')
_LANGUAGES = ("", "yaml", "yml", "json")


def looks_like_report(text: str) -> bool:
    """True if a text was probably meant as a child's message: some of its lines begin with section names."""
    words = {line.partition(":")[0].strip('{ "').upper() for line in text.replace(",", "\n").splitlines()}
    return len(words.intersection(CHILD_SECTIONS)) >= MIN_SECTIONS


class ProblemList:
    """The problems collected while one message is parsed, each located by the line of its field."""

    def __init__(self, lines: Mapping[str, int], field_as_sent: Callable[[str], str] = lambda field: field) -> None:
        """`field_as_sent` returns the field that the author wrote for one that was made from it."""
        self.lines = lines
        self._field_as_sent = field_as_sent
        self.problems: list[EngramBusError] = []

    def line(self, field: str) -> int | None:
        """Return the line of a field, or of the nearest field that contains it."""
        while field and field not in self.lines:
            field = field[: max(field.rfind("."), field.rfind("["), 0)]
        return self.lines.get(field)

    @property
    def is_full(self) -> bool:
        """True if parsing should stop because the limit of problems is reached."""
        return len(self.problems) >= MAX_PROBLEMS

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Record an error raised in the block, with its line, instead of letting it through."""
        try:
            yield
        except EngramBusError as problem:
            if not self.is_full:
                self.problems.append(self.locate(problem))

    def locate(self, problem: EngramBusError, parent: str = "") -> EngramBusError:
        """Make the problem's field relative to the whole message instead of to `parent`, and add its line."""
        if parent:
            inner = problem.field or ""
            problem.field = f"{parent}.{inner}" if inner and inner[0] != "[" else f"{parent}{inner}"
        if problem.field:
            problem.field = self._field_as_sent(problem.field)
        line = self.line(problem.field or "")
        # decision 6: agents write YAML by hand, and the line is what they need to correct it
        if line is not None and problem.line is None:
            problem.line = line
            problem.detail = f"{problem.detail.removesuffix('.')}, at line {line}."
            problem.args = (problem.detail,)
        return problem


def published_name(written: str) -> str:
    """Return the published name of a section: `ROLE` for `role`, `POINTER_PACK` for `Pointer pack`."""
    return written.strip().upper().replace(" ", "_").replace("-", "_")


def read_source(text: str) -> tuple[Any, dict[str, int]]:
    """Return the value of a YAML or JSON text, plain or inside one fence, and the line of each field as sent."""
    _check_size(text)
    body = _remove_fence(text.removeprefix("\ufeff"))
    if not body or body.isspace():
        raise MessageEmpty(line=1)
    # `{` alone may begin YAML too: a flow mapping with unquoted keys.
    if _JSON.match(body):
        return read_json_with_lines(body, max_bytes=MAX_MESSAGE_BYTES, max_depth=MAX_MESSAGE_DEPTH)
    try:
        return read_yaml_with_lines(body, max_bytes=MAX_MESSAGE_BYTES, max_depth=MAX_MESSAGE_DEPTH)
    except BadYaml as problem:
        problem.hint = problem.hint or "Indent with spaces; put a text that has a colon or a quote in double quotes."
        raise


def _check_size(text: str) -> None:
    try:
        # A text is at least as many bytes as characters, so a huge one is refused without encoding it.
        size_bytes = len(text) if len(text) > MAX_MESSAGE_BYTES else len(text.encode())
    except UnicodeEncodeError:
        raise BadText("The text has an unpaired surrogate.") from None
    if size_bytes > MAX_MESSAGE_BYTES:
        raise BodyTooLarge(limit=MAX_MESSAGE_BYTES, used=size_bytes)


def _remove_fence(text: str) -> str:
    """Replace the two fence lines around a message by empty lines, so that every other line keeps its number."""
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
        raise MessageFence(
            f"A message is YAML or JSON, not {language[:20]}, at line {first + 1}.", line=first + 1, hint="```yaml"
        )
    closing = _FENCE.fullmatch(lines[last])
    if first == last or closing is None or not closing[1].startswith(mark) or closing[2]:
        _refuse_fences(lines[first + 1 :], first + 1)
        raise MessageFence(f"The fence opened at line {first + 1} is never closed.", line=first + 1)
    lines[first] = lines[last] = ""
    _refuse_fences(lines)
    return "\n".join(lines)


def _refuse_fences(lines: list[str], skipped: int = 0) -> None:
    # A fence at the margin is never part of a YAML or JSON message, so there is prose or a second block around it.
    for number, line in enumerate(lines, skipped + 1):
        if line.startswith(("```", "~~~")):
            raise MessageFence(
                f"There is a code fence at line {number}.",
                line=number,
                hint="Send only the message, with no text around it and at most one fence around all of it.",
            )
