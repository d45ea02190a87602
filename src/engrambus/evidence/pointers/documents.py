"""Documents at a commit or a tag, and their sections: the resolver of `artifact:NAME` pointers."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from engrambus.core import LruCache, is_hex
from engrambus.errors import (
    ArtifactAmbiguous,
    ArtifactNotFound,
    ContentTooLarge,
    FileNotFound,
    NotText,
    SectionAmbiguous,
    SectionNotFound,
)
from engrambus.evidence.pointers.addresses import ArtifactAddress, RepoAddress
from engrambus.evidence.pointers.git import Blob, GitRepository
from engrambus.evidence.pointers.grammar import print_section
from engrambus.evidence.pointers.read_spans import FileLines
from engrambus.evidence.pointers.repo import file_lines
from engrambus.evidence.pointers.repositories import Repositories
from engrambus.evidence.pointers.resolve import Content

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

MAX_DOCUMENT_BYTES = 1024 * 1024
_MAX_CANDIDATES = 6
"""Candidates listed in a refusal."""


class ArtifactResolver:
    """Reads `artifact:NAME` addresses out of a repository."""

    def __init__(self, repositories: Repositories) -> None:
        self._repositories = repositories
        self._sections: LruCache[str, tuple[Section, ...]] = LruCache(20_000)

    def resolve(self, address: ArtifactAddress) -> Content:
        """Return the named section with its heading, or the whole document."""
        repository = self._repositories.select(address.repository)
        is_commit = is_hex(address.version, 40, 64)
        revision = address.version if is_commit else repository.tag_commit(address.version)
        path, blob = _find_document(repository, revision, address.name)
        source = RepoAddress(path=path, revision=revision)
        if address.section is None:
            return Content.of(blob.data, blob.id, file_lines(blob.id, None), source)
        section = pick_section(self._sections_of(blob), address.section, address.numbers)
        source = RepoAddress(path=path, revision=revision, lines=_filled_lines(blob, section))
        return Content.of(blob.data[section.start : section.end], blob.id, _place(blob, section), source)

    def _sections_of(self, blob: Blob) -> tuple[Section, ...]:
        sections = self._sections.get(blob.id)
        if sections is None:
            if len(blob.data) > MAX_DOCUMENT_BYTES:
                raise ContentTooLarge(
                    "The document is too large to look for sections in.",
                    limit=MAX_DOCUMENT_BYTES,
                    used=len(blob.data),
                )
            sections = read_sections(blob.data)
            self._sections.put(blob.id, sections, weight=len(sections) + 1)
        return sections


def _place(blob: Blob, section: Section) -> FileLines | None:
    """Return the lines of a section as pointers count them; None if it begins or ends inside such a line."""
    before, through = blob.data[: section.start], blob.data[: section.end]
    ends_file = section.end == len(blob.data)
    if not all(part.endswith(b"\n") or not part for part in (before, b"" if ends_file else through)):
        return None
    first = before.count(b"\n") + 1
    return (
        file_lines(blob.id, (first, through.count(b"\n")))
        if not ends_file
        else FileLines(file=f"git:{blob.id}", first=first)
    )


def _filled_lines(blob: Blob, section: Section) -> tuple[int, int]:
    """Return the first and the last line of a section that is not blank."""
    return blob.data[: section.start].count(b"\n") + 1, blob.data[: section.end].rstrip().count(b"\n") + 1


def _find_document(repository: GitRepository, revision: str, name: str) -> tuple[str, Blob]:
    """Return the path and the document at exactly this path, else those of the only file of this name."""
    try:
        return name, repository.read(revision, name)
    except FileNotFound:
        candidates = repository.find_file(revision, name) if "/" not in name else ()
    if not candidates:
        raise ArtifactNotFound(hint=f"Looked at commit {revision[:12]}.")
    if len(candidates) > 1:
        listed = ", ".join(candidates[:_MAX_CANDIDATES]) + (", …" if len(candidates) > _MAX_CANDIDATES else "")
        raise ArtifactAmbiguous(f"{len(candidates)} files have this name.", hint=f"Write the path: {listed}")
    return candidates[0], repository.read(revision, candidates[0])


class Section(NamedTuple):
    """A heading of a Markdown document, and the bytes from it to the next heading of its level or above."""

    path: tuple[str, ...]
    """The headings that contain it, outermost first, and the heading itself."""
    numbers: tuple[int, ...]
    """The number of each of these headings among equal ones under the same parent, from 1."""
    start: int
    end: int


def read_sections(data: bytes) -> tuple[Section, ...]:
    """Return every section of a Markdown document, in order; headings in code blocks, quotes and lists do not count."""
    try:
        text = data.decode()
    except UnicodeDecodeError as problem:
        raise NotText(f"The document is not UTF-8 at byte {problem.start}.") from None
    offsets = _line_offsets(data)
    headings: list[tuple[int, str, int]] = []
    tokens = _parser().parse(text.removeprefix("\ufeff"))
    for position, token in enumerate(tokens):
        # A token with a level is nested in a quote or a list: it divides no document.
        if token.type == "heading_open" and token.level == 0 and token.map:
            title = " ".join(tokens[position + 1].content.split())
            headings.append((int(token.tag[1:]), title, offsets[token.map[0]]))
    return _nest(headings, len(data))


def pick_section(sections: Sequence[Section], heading_path: tuple[str, ...], numbers: tuple[int, ...] = ()) -> Section:
    """Return the one section a heading path names: by its exact text, else by its letters and digits alone.

    `numbers` has the number of each heading among equal ones, 0 where it does not matter.
    """
    written = print_section(heading_path, numbers)
    numbers = numbers or (0,) * len(heading_path)
    # A number may have been meant as part of the text: pointers of older versions wrote `Retries[2]` for that heading.
    literal_path = tuple(
        f"{text}[{number}]" if number else text for text, number in zip(heading_path, numbers, strict=True)
    )
    for is_same in (_same_text, _same_letters):
        for path, path_numbers in ((heading_path, numbers), (literal_path, (0,) * len(numbers))):
            matching = [section for section in sections if _matches(section, path, path_numbers, is_same)]
            if len(matching) == 1:
                return matching[0]
            if matching:
                raise _ambiguous(sections, matching)
    raise SectionNotFound(used=written)


def _ambiguous(sections: Sequence[Section], matching: Sequence[Section]) -> SectionAmbiguous:
    repeated = {(section.path, section.numbers[:-1]) for section in sections if section.numbers[-1] > 1}
    names = []
    for section in matching[:_MAX_CANDIDATES]:
        numbers = (
            number if (section.path[: depth + 1], section.numbers[:depth]) in repeated else 0
            for depth, number in enumerate(section.numbers)
        )
        names.append(print_section(("", *section.path), (0, *numbers)))
    ellipsis = ", …" if len(matching) > _MAX_CANDIDATES else ""
    return SectionAmbiguous(
        f"{len(matching)} sections have this heading.", hint=f"Name one from the top: {', '.join(names)}{ellipsis}"
    )


def _nest(headings: list[tuple[int, str, int]], size: int) -> tuple[Section, ...]:
    sections: list[Section] = []
    open_sections: list[tuple[int, int]] = []  # level, and position in `sections`
    counts: Counter[tuple[int, str]] = Counter()  # of equal headings, by the position of their parent
    for level, title, start in headings:
        while open_sections and open_sections[-1][0] >= level:
            position = open_sections.pop()[1]
            sections[position] = sections[position]._replace(end=start)
        parent = open_sections[-1][1] if open_sections else -1
        path, numbers = (sections[parent].path, sections[parent].numbers) if open_sections else ((), ())
        counts[parent, title] += 1
        open_sections.append((level, len(sections)))
        sections.append(Section((*path, title), (*numbers, counts[parent, title]), start, size))
    return tuple(sections)


def _matches(
    section: Section,
    heading_path: tuple[str, ...],
    numbers: tuple[int, ...],
    is_same: Callable[[str, str], bool],
) -> bool:
    """True if the heading path is the end of the section's, or all of it where its first part is empty."""
    if heading_path[0] == "":
        heading_path, numbers = heading_path[1:], numbers[1:]
        if len(section.path) != len(heading_path):
            return False
    depth = len(heading_path)
    return (
        len(section.path) >= depth
        and all(map(is_same, section.path[-depth:], heading_path))
        and all(number in (0, found) for number, found in zip(numbers, section.numbers[-depth:], strict=True))
    )


def _same_text(heading: str, text: str) -> bool:
    return heading == " ".join(text.split())


def _same_letters(heading: str, text: str) -> bool:
    letters = _letters(text)
    return bool(letters) and _letters(heading) == letters


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))


def _line_offsets(data: bytes) -> list[int]:
    """Return where each line starts, counting lines as Markdown does: after a newline, a return, or both."""
    offsets = [0]
    for line in data.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    return offsets


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # Only blocks are needed: the text of a heading is compared as it is written.
    return MarkdownIt("commonmark").disable("inline")
