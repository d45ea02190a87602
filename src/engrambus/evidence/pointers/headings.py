"""The sections of a Markdown document, found by their headings."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from engrambus.errors import NotText, SectionAmbiguous, SectionNotFound
from engrambus.evidence.pointers.grammar import print_section

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_SHOWN = 6


class Section(NamedTuple):
    """A heading, and the bytes from it to the next heading of its level or above."""

    path: tuple[str, ...]
    """The heading, after the headings it stands under."""
    start: int
    end: int


def read_sections(data: bytes) -> tuple[Section, ...]:
    """Every section of a document, in order; what only looks like a heading, in a code block say, is none."""
    try:
        text = data.decode()
    except UnicodeDecodeError as problem:
        raise NotText(f"The document is not UTF-8 at byte {problem.start}.") from None
    offsets = _line_offsets(data)
    found: list[tuple[int, str, int]] = []
    tokens = _parser().parse(text.removeprefix("\ufeff"))
    for position, token in enumerate(tokens):
        # Nested tokens are headings inside a quote or a list: they part no document.
        if token.type == "heading_open" and token.level == 0 and token.map:
            title = " ".join(tokens[position + 1].content.split())
            found.append((int(token.tag[1:]), title, offsets[token.map[0]]))
    return _nest(found, len(data))


def pick_section(sections: Sequence[Section], wanted: tuple[str, ...]) -> Section:
    """The one section a heading path names: by its exact text, else by its letters and digits alone."""
    for same in (_same_text, _same_letters):
        matching = [section for section in sections if _matches(section.path, wanted, same)]
        if len(matching) == 1:
            return matching[0]
        if matching:
            paths = [print_section(("", *section.path)) for section in matching[:_SHOWN]]
            more = ", …" if len(matching) > _SHOWN else ""
            raise SectionAmbiguous(
                f"{len(matching)} sections have this heading.", hint=f"Name one from the top: {', '.join(paths)}{more}"
            )
    raise SectionNotFound(used=print_section(wanted))


def _nest(found: list[tuple[int, str, int]], size: int) -> tuple[Section, ...]:
    sections: list[Section] = []
    above: list[tuple[int, int]] = []  # level and position in `sections` of every section still open
    for level, title, start in found:
        while above and above[-1][0] >= level:
            position = above.pop()[1]
            sections[position] = sections[position]._replace(end=start)
        parent = sections[above[-1][1]].path if above else ()
        above.append((level, len(sections)))
        sections.append(Section((*parent, title), start, size))
    return tuple(sections)


def _matches(path: tuple[str, ...], wanted: tuple[str, ...], same: Callable[[str, str], bool]) -> bool:
    if wanted[0] == "":
        wanted = wanted[1:]
        if len(path) != len(wanted):
            return False
    return len(path) >= len(wanted) and all(map(same, path[-len(wanted) :], wanted))


def _same_text(heading: str, wanted: str) -> bool:
    return heading == " ".join(wanted.split())


def _same_letters(heading: str, wanted: str) -> bool:
    letters = _letters(wanted)
    return bool(letters) and _letters(heading) == letters


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))


def _line_offsets(data: bytes) -> list[int]:
    """Where each line starts, counting lines as Markdown does: after a newline, a return, or both."""
    offsets = [0]
    at = 0
    for line in data.splitlines(keepends=True):
        at += len(line)
        offsets.append(at)
    return offsets


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # Blocks are all we need; what stands inside a heading is compared as it is written.
    return MarkdownIt("commonmark").disable("inline")
