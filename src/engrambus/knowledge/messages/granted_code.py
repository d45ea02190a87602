"""Code that a grant lets a message carry: text of the granted file, and no other (decision 48)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import structs

from engrambus.errors import EngramBusError
from engrambus.evidence.anchoring import QuotedText, is_blank
from engrambus.evidence.pointers import Evidence, Pointer, RepoAddress
from engrambus.policy.grants import PrefixTarget

if TYPE_CHECKING:
    from engrambus.knowledge.messages.pastes import CodeCounter, RepositoryText
    from engrambus.policy.grants import Target, VerifiedGrant

HasLine = Callable[[str], bool]


class GrantedCode:
    """Counts the code in a message's texts that is text of what a grant is for."""

    def __init__(
        self, grant: VerifiedGrant, counter: CodeCounter, evidence: Evidence, repository: RepositoryText
    ) -> None:
        self.limit_chars = grant.inline_code_chars
        """Characters of it that the grant allows."""
        self._counter = counter
        # A narrowed grant has a target for each block that names one, and a line must be in all of them.
        self._targets = [
            _lines_of(block.target, evidence, repository) for block in grant.blocks if block.target is not None
        ]

    def count(self, text: str) -> int:
        """Return how many characters of a text are code of the granted lines."""
        return sum(
            len(line)
            for span in self._counter.find(text)
            for line in text[span.start : span.end].splitlines(keepends=True)
            if is_blank(line) or all(has_line(line) for has_line in self._targets)
        )


def _lines_of(target: Target, evidence: Evidence, repository: RepositoryText) -> HasLine:
    """Return the function that tells whether a line is text of a grant's target."""
    if isinstance(target, PrefixTarget):
        folder = target.folder
        revision = folder.revision if isinstance(folder, RepoAddress) else folder.head
        return lambda line: any(
            target.covers(structs.replace(folder, path=path))
            for path in repository.anchors.paths_with(line, revision=revision)
        )
    with suppress(EngramBusError):  # what cannot be read here contains no line
        content = evidence.read(Pointer(type=target.text.partition(":")[0], ref=target.text))
        return QuotedText(content.data).has_line
    return lambda line: False
