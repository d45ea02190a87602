"""Claims in an answer in prose: sentences that cite lines, and those that their author marked (decision 82).

A mark is a word at the beginning of a paragraph or a list item: `Learned:`, `Decision:`, `Risk:`, `Constraint:`,
`TODO:`. A claim is what the author wrote: nothing is rephrased; the mark and citations in brackets are left out, as
the kind and the pointers of the engram say the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from engrambus.knowledge.engrams import MAX_CLAIM_CHARS, MAX_CLAIM_SENTENCES, count_sentences, split_sentences
from engrambus.knowledge.messages.extracts import is_clean
from engrambus.knowledge.messages.quotes import is_inside

if TYPE_CHECKING:
    from engrambus.evidence.pointers import Pointer
    from engrambus.evidence.pointers.citations import Citation
    from engrambus.knowledge.engrams import Kind

MARKS: dict[str, Kind] = {
    "learned": "fact",
    "fact": "fact",
    "decision": "decision",
    "risk": "risk",
    "constraint": "constraint",
    "todo": "todo",
}
"""The kind of engram that each mark stands for."""
MIN_LETTERS = 16
MIN_WORDS = 4
"""Words that a claim has besides its citations: fewer say nothing."""
MAX_POINTERS = 8
"""Pointers of one claim."""
MAX_CLAIMS = 200
"""Claims of one answer that are looked at."""

_ITEM = re.compile(r"[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?")
_MARK = re.compile(
    r"[ \t]*(?:[-*+•]|\d{1,3}[.)])?[ \t]*(?:\*\*|__|\*|_)?"
    r"(?P<mark>Learned|Fact|Decision|Risk|Constraint|Todo|LEARNED|FACT|DECISION|RISK|CONSTRAINT|TODO)"
    r"(?:\*\*|__|\*|_)?:(?:\*\*|__|\*|_)?[ \t\n]+"
)
_NO_PROSE = re.compile(r"[ \t]*(?:\||#{1,6}[ \t]|[-=*_]{3,}[ \t]*$|<[!/?a-zA-Z][^>]*>[ \t]*$)")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_BRACKETED = re.compile(r"[ \t\n]*[(\[](?:see|cf\.|in|at)?[\s\0`*_,;&]*(?:and[\s\0`*_,;&]*)*[)\]]", re.IGNORECASE)
"""Brackets around nothing but citations, which are blanked with NUL first."""
_WORD = re.compile(r"[^\W\d_]{2,}")


class ProseClaim(NamedTuple):
    """A claim in a text."""

    start: int
    end: int
    kind: Kind
    claim: str
    pointers: tuple[Pointer, ...]
    """What it cites; may be empty if it is marked."""
    is_marked: bool


class Paragraph(NamedTuple):
    """A paragraph or an item of a list, `text[start:end]`, without its bullet."""

    start: int
    end: int
    mark: str | None


def find_claims(
    text: str,
    cited: Mapping[Citation, Pointer],
    passages: Sequence[tuple[int, int]],
    count_code: Callable[[str], int] = lambda claim: 0,
) -> list[ProseClaim]:
    """Return the claims in a text, marked ones first, then in its order.

    `cited` are the citations that lead somewhere, `passages` the parts that are not the author's words.
    """
    found: list[ProseClaim] = []
    for paragraph in split_paragraphs(text, passages):
        for start, end in _statements(text, paragraph):
            if is_inside(start, passages):
                continue
            inside = {citation: pointer for citation, pointer in cited.items() if start <= citation.start < end}
            if paragraph.mark is None and not any(citation.has_lines for citation in inside):
                continue
            claim = _claim(text, start, end, inside)
            if _says_something(claim) and is_clean(claim) and not count_code(claim):
                kind = MARKS[paragraph.mark] if paragraph.mark else "fact"
                pointers = _pointers(inside)
                found.append(ProseClaim(start, end, kind, claim, pointers, paragraph.mark is not None))
        if len(found) >= MAX_CLAIMS:
            break
    return sorted(found, key=lambda item: (not item.is_marked, item.start))


def split_paragraphs(text: str, passages: Sequence[tuple[int, int]]) -> Iterator[Paragraph]:
    """Yield the paragraphs and list items of a text, without passages, headings, tables and rules."""
    start = end = 0
    is_open = False
    position = 0
    for line in text.splitlines(keepends=True):
        skipped = not line.strip() or _NO_PROSE.match(line) is not None or is_inside(position, passages)
        item = _ITEM.match(line)
        begins = skipped or item is not None or _MARK.match(line) is not None
        if is_open and begins:
            yield _paragraph(text, start, end)
            is_open = False
        if not skipped:
            if not is_open:
                start = position + (item.end() if item else 0)
                is_open = True
            end = position + len(line.rstrip())
        position += len(line)
    if is_open:
        yield _paragraph(text, start, end)


def _paragraph(text: str, start: int, end: int) -> Paragraph:
    mark = _MARK.match(text, start, end)
    return Paragraph(mark.end(), end, mark["mark"].lower()) if mark else Paragraph(start, end, None)


def _statements(text: str, paragraph: Paragraph) -> Iterator[tuple[int, int]]:
    """Yield the sentences of a paragraph; of a marked one, its first sentences together, as a claim has them."""
    sentences: list[tuple[int, int]] = []
    position = paragraph.start
    for sentence in split_sentences(text[paragraph.start : paragraph.end]):
        start = text.find(sentence, position, paragraph.end)
        position = start + len(sentence)
        sentences.append((start, position))
    if paragraph.mark is None:
        yield from sentences
        return
    start = sentences[0][0] if sentences else paragraph.start
    ends = [end for _, end in sentences[:MAX_CLAIM_SENTENCES] if end - start <= MAX_CLAIM_CHARS]
    if ends:
        yield start, ends[-1]


def _claim(text: str, start: int, end: int, citations: Collection[Citation]) -> str:
    """Return what a sentence says on one line, without brackets that hold nothing but its citations."""
    blanked = text[start:end]
    if "\0" not in blanked:
        for citation in citations:
            first, last = citation.start - start, min(citation.end, end) - start
            blanked = f"{blanked[:first]}{chr(0) * (last - first)}{blanked[last:]}"
        kept, copied = [], start
        for match in _BRACKETED.finditer(blanked):
            if "\0" in match[0]:
                kept.append(text[copied : start + match.start()])
                copied = start + match.end()
        return " ".join("".join((*kept, text[copied:end])).split())
    return ""


def _says_something(claim: str) -> bool:
    """True if a text is a statement of a length that a claim may have."""
    if (
        not claim
        or len(claim) > MAX_CLAIM_CHARS
        or claim.rstrip("*_`\"'”)").endswith(("?", ":"))
        or _CONTROL.search(claim)
    ):
        return False
    words = _WORD.findall(claim)
    if len(words) < MIN_WORDS or sum(map(len, words)) < MIN_LETTERS:
        return False
    return count_sentences(claim) <= MAX_CLAIM_SENTENCES


def _pointers(cited: Mapping[Citation, Pointer]) -> tuple[Pointer, ...]:
    """Return the different pointers of a sentence, those with lines first."""
    ordered = sorted(cited, key=lambda citation: not citation.has_lines)
    by_ref = {cited[citation].ref: cited[citation] for citation in ordered}
    return tuple(by_ref.values())[:MAX_POINTERS]
