"""Code in a message: by its looks, or because its lines stand in the repository (decision 12)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from engrambus.errors import NoRepository, RevisionNotFound
from engrambus.knowledge.messages.budget import free_texts
from engrambus.knowledge.messages.code import find_code
from engrambus.knowledge.messages.values import CHILD_SECTIONS, PARENT_SECTIONS

if TYPE_CHECKING:
    from engrambus.evidence.anchoring import Anchors, Recognised
    from engrambus.knowledge.messages.values import Message

MIN_PASTE_CHARS = 40
"""A shorter text is not compared with the repository."""
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
    """Counts the code in the texts of one message."""

    def __init__(self, repository: RepositoryText, message: Message | None = None) -> None:
        self._repository = repository
        self._head: str | None = None
        self._not_pasted = self._screen(message) if message is not None else set()

    def count(self, text: str) -> int:
        """Return how many characters of a text look like code or, if none do, are lines of the repository."""
        code_chars = sum(span.end - span.start for span in find_code(text))
        if code_chars or len(text) < MIN_PASTE_CHARS or text in self._not_pasted:
            return code_chars
        return sum(paste.end - paste.start for paste in self.find_pastes(text))

    def find_pastes(self, text: str) -> list[Recognised]:
        """Return the parts of a text that are lines of the repository's checked-out commit, with their pointers."""
        try:
            pastes = self._repository.anchors.recognise(text, revision=self._revision())
        except (NoRepository, RevisionNotFound):
            return []
        # A section name may begin a line of the repository too, of a documentation page for example; not a paste.
        return [paste for paste in pastes if text[paste.start : paste.end].lstrip().partition(":")[0] not in _SECTIONS]

    def _screen(self, message: Message) -> set[str]:
        """Return the texts that have no line in the repository, with one query for all of them (decision 14)."""
        texts = {text for _, text in free_texts(message) if len(text) >= MIN_PASTE_CHARS}
        with suppress(NoRepository, RevisionNotFound):
            return self._repository.anchors.absent_texts(texts, revision=self._revision())
        return set()

    def _revision(self) -> str:
        self._head = self._head or self._repository.head()
        return self._head
