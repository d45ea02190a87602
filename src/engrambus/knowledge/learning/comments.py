"""Comments that mark what is left to do: TODO, FIXME, XXX and HACK."""

from __future__ import annotations

import re

from engrambus.knowledge.learning.markup import sentences_of
from engrambus.knowledge.learning.scoring import quality
from engrambus.knowledge.learning.values import Draft, SourceFile

MAX_FROM_FILE = 20
MAX_LINES = 4
"""Lines of a comment that are read, with that of the mark."""

_MARK = re.compile(
    r"(?:#|//|/\*|^\s*\*|--|;|<!--|%|\.\. )\s*(?:@)?(TODO|FIXME|XXX|HACK)\b(?:\(([^)\n]{0,40})\))?[:\s-]*(.*)"
)
_CONTINUED = re.compile(r"^\s*(?:#|//|\*(?!/)|--|;|%)+\s?(?!\s*(?:TODO|FIXME|XXX|HACK)\b)(.*)$")
_CLOSING = re.compile(r"\s*(?:\*/|-->)\s*$")
_POINTS = {"FIXME": 6, "HACK": 6, "XXX": 4, "TODO": 2}


def todos(file: SourceFile) -> list[Draft]:
    """Return the marked comments of a file; their age is added when they are chosen."""
    drafts = []
    for position, line in enumerate(file.lines):
        # Most lines have no such word, and searching for it is fast.
        if not ("TODO" in line or "FIXME" in line or "XXX" in line or "HACK" in line) or len(line) > 400:
            continue
        match = _MARK.search(line)
        if match is None:
            continue
        text, last = _read_comment(file, position, match[3])
        points = quality(text)
        if points < 0:
            continue
        drafts.append(
            Draft(
                source="todo",
                kind="todo",
                sentences=sentences_of(text, 4),
                prefix=f"{match[1]}: ",
                path=file.path,
                first=position + 1,
                last=last + 1,
                points=22 + points // 2 + _POINTS[match[1]],
            )
        )
    return sorted(drafts, key=lambda draft: -draft.points)[:MAX_FROM_FILE]


def _read_comment(file: SourceFile, position: int, text: str) -> tuple[str, int]:
    """Return the words of a comment and the position of its last line."""
    words = [_CLOSING.sub("", text)]
    last = position
    if not _CLOSING.search(text):
        for next_position in range(position + 1, min(position + MAX_LINES, len(file.lines))):
            continued = _CONTINUED.match(file.lines[next_position])
            if continued is None or not continued[1].strip():
                break
            words.append(_CLOSING.sub("", continued[1]))
            last = next_position
    return " ".join(" ".join(words).split()), last
