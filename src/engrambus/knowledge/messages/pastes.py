"""Code in a text: by its looks, or because its lines stand in the repository (decisions 12 and 48)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from engrambus.errors import NoRepository, RevisionNotFound
from engrambus.knowledge.messages.code import CodeBlock, find_code, find_code_blocks
from engrambus.knowledge.messages.code_lines import MAX_LINE_CHARS, score
from engrambus.knowledge.messages.code_markup import CodeSpan
from engrambus.knowledge.messages.values import CHILD_SECTIONS, PARENT_SECTIONS, free_texts

if TYPE_CHECKING:
    from engrambus.evidence.anchoring import Anchors, Recognised
    from engrambus.evidence.pointers import Pointer
    from engrambus.knowledge.messages.values import Message

MIN_PASTE_CHARS = 40
"""A shorter text of several lines is not compared with the repository."""
SUSPECT_POINTS = 4
"""Points of a line that is code if it also stands in the repository; prose has far fewer, code alone needs 14."""
_ONE_NAME = re.compile(r"[^\s;{}()\"']{0,80}(?:\{[\w.]{0,40}\}|\([\w.*]{0,40}\))?")
"""One word as keys and tags are written: `kind=risk`, `parse(text)`, `--flag=value`, `{id}`; never code by itself."""
_SECTIONS = frozenset({*CHILD_SECTIONS, *PARENT_SECTIONS})


class RepositoryText(Protocol):
    """The project's repository, as far as pasted text is looked up in it."""

    @property
    def anchors(self) -> Anchors:
        """The index of lines."""
        ...

    def head(self) -> str:
        """Return the commit that is checked out."""
        ...


class CodeCounter:
    """Finds the code in the texts of one request; the repository is asked only about texts that may come from it."""

    def __init__(self, repository: RepositoryText, message: Message | None = None) -> None:
        self._repository = repository
        self._head: str | None = None
        self._not_pasted = self._screen(message) if message is not None else set()

    def count(self, text: str) -> int:
        """Return how many characters of a text are code."""
        return sum(span.end - span.start for span in self.find(text))

    def find(self, text: str) -> list[CodeSpan]:
        """Return the parts of a text that look like code or, if none do, are lines of the repository."""
        if _ONE_NAME.fullmatch(text):
            return []
        spans = find_code(text)
        if spans or text in self._not_pasted:
            return spans
        if "\n" in text and len(text) >= MIN_PASTE_CHARS:
            pastes = (CodeSpan(paste.start, paste.end, "pasted") for paste in self.find_pastes(text))
            # A single line of prose may be quoted: a claim may say what a document says.
            spans = [span for span in pastes if "\n" in text[span.start : span.end] or _is_suspect(text, span)]
        return spans or self._find_suspects(text)

    def find_blocks(self, text: str) -> list[CodeBlock]:
        """Return the code in a text as blocks that can be cut out."""
        spans = self.find(text)
        if not spans:
            return []
        # What was found in the repository has no looks of code, so the detector has no blocks for it.
        return find_code_blocks(text) or [
            CodeBlock(span.start, span.end, text[span.start : span.end]) for span in spans
        ]

    def find_pastes(self, text: str) -> list[Recognised]:
        """Return the parts of a text that are lines of the repository's checked-out commit, with their pointers."""
        try:
            pastes = self._repository.anchors.recognise(text, revision=self._revision())
        except (NoRepository, RevisionNotFound):
            return []
        # A section name may begin a line of the repository too, of a documentation page for example; not a paste.
        return [paste for paste in pastes if text[paste.start : paste.end].lstrip().partition(":")[0] not in _SECTIONS]

    def locate(self, code: str) -> Pointer | None:
        """Return the pointer to code that stands in the checked-out commit, in one place of several if need be."""
        if self._absent([code]):
            return None  # spares the search, which asks git about lines that no file has
        with suppress(NoRepository, RevisionNotFound):
            anchor = self._repository.anchors.find(code, revision=self._revision())
            return anchor.pointer or next(iter(anchor.candidates), None)
        return None

    def locate_only(self, text: str) -> Pointer | None:
        """Return the pointer to a text that stands in one place of the checked-out commit, and in no other."""
        with suppress(NoRepository, RevisionNotFound):
            return self._repository.anchors.find(text, revision=self._revision()).pointer
        return None

    def is_absent(self, text: str) -> bool:
        """True if no line of the text is a whole line of the repository."""
        return bool(self._absent([text]))

    def _find_suspects(self, text: str) -> list[CodeSpan]:
        """Return the lines that look a little like code and stand in the repository as they are."""
        suspects = [line for line in _line_spans(text) if _is_suspect(text, line)]
        return [line for line in suspects if self.locate(text[line.start : line.end]) is not None]

    def _screen(self, message: Message) -> set[str]:
        """Return the texts that have no line in the repository, with one query for all of them (decision 14)."""
        return self._absent({text for _, text in free_texts(message)})

    def _absent(self, texts: Iterable[str]) -> set[str]:
        try:
            return self._repository.anchors.absent_texts(texts, revision=self._revision())
        except (NoRepository, RevisionNotFound):
            return set(texts)

    def _revision(self) -> str:
        self._head = self._head or self._repository.head()
        return self._head


def _line_spans(text: str) -> Iterable[CodeSpan]:
    start = 0
    for line in text.split("\n"):
        yield CodeSpan(start, start + len(line), "pasted")
        start += len(line) + 1


def _is_suspect(text: str, span: CodeSpan) -> bool:
    return score(text[span.start : min(span.end, span.start + MAX_LINE_CHARS)]) >= SUSPECT_POINTS
