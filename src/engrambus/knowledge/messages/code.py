"""Code inside a message. The detector and its many patterns are loaded by the first text that is looked at."""

from __future__ import annotations

from typing import Literal, NamedTuple

How = Literal["fenced", "indented", "inline", "diff", "pasted"]


class CodeSpan(NamedTuple):
    """One stretch of code: text[start:end], and how it was recognised."""

    start: int
    end: int
    how: How


def find_code(text: str) -> list[CodeSpan]:
    """The code in a text, in order, never overlapping. An empty list: there is none."""
    from engrambus.knowledge.messages.code_detector import detect

    return detect(text)


def code_chars(text: str) -> int:
    """How many characters of a text are code."""
    return sum(span.end - span.start for span in find_code(text))
