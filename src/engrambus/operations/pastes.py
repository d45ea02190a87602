"""File text in a message that bears no mark of code: told by the repository it was copied from."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from engrambus.errors import EngramBusError, NoRepository, RevisionNotFound
from engrambus.gateway.project_files import ProjectFiles
from engrambus.knowledge.messages import (
    CHILD_SECTIONS,
    PARENT_SECTIONS,
    Usage,
    code_chars,
    judge,
    texts_of,
)
from engrambus.policy import InlineBudget

if TYPE_CHECKING:
    from engrambus.knowledge.messages import Reading, Recognised

SECTIONS = frozenset({*CHILD_SECTIONS, *PARENT_SECTIONS})
SHORTEST = 40
"""Shorter texts are not held against the repository."""


class Pastes:
    """Finds lines of the repository's present commit in texts; which commit that is is asked once."""

    def __init__(self, project_files: ProjectFiles) -> None:
        self._workplace = project_files
        self._revision: str | None = None
        self._strangers: set[str] = set()

    def judge(self, reading: Reading, budget: InlineBudget) -> tuple[Usage, tuple[EngramBusError, ...]]:
        """What a reading holds and everything wrong with it, code by its looks and by the repository counted."""
        if reading.message is not None:
            texts = {said for _, said in texts_of(reading.message) if len(said) >= SHORTEST}
            with suppress(NoRepository, RevisionNotFound):  # nothing to recognise it by
                self._strangers = self._workplace.anchors.strangers(texts, revision=self._head())
        return judge(reading, budget, self.code_chars)

    def code_chars(self, text: str) -> int:
        """How many characters of a text are code by their looks, or stand in the repository whatever they look like."""
        found = code_chars(text)
        if found or len(text) < SHORTEST or text in self._strangers:
            return found
        return sum(end - start for start, end, _ in self.recognise(text))

    def recognise(self, text: str) -> list[Recognised]:
        """Where a text holds lines of the repository, and the pointers to them."""
        try:
            found = self._workplace.anchors.recognise(text, revision=self._head())
        except (NoRepository, RevisionNotFound):
            return []
        # The form of a message may itself stand in a file, a documentation page say; that is not pasted.
        return [
            (each.start, each.end, each.pointer)
            for each in found
            if text[each.start : each.end].lstrip().partition(":")[0] not in SECTIONS
        ]

    def _head(self) -> str:
        self._revision = self._revision or self._workplace.head()
        return self._revision
