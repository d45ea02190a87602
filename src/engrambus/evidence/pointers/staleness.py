"""How pointed lines stand at a later commit: as they were, moved, changed, or gone with their file."""

from __future__ import annotations

from typing import Literal

from engrambus.core import Memo
from engrambus.errors import EngramBusError, FileNotFound, NotAFile, SpanNotFound
from engrambus.evidence.pointers.addresses import Pointer, RepoAddress
from engrambus.evidence.pointers.git import GitRepository
from engrambus.evidence.pointers.grammar import parse_ref
from engrambus.evidence.pointers.repo import Repositories, cut_lines

Staleness = Literal["same", "moved", "changed", "gone"]
STALE: frozenset[str] = frozenset({"changed", "gone"})
"""The standings in which the evidence no longer says what it said."""

REMEMBERED = 16_384


class StalenessChecker:
    """Tells how pointers stand; what was found out about a pointer and a commit never changes and is remembered."""

    def __init__(self, repositories: Repositories) -> None:
        self._repositories = repositories
        self._known: Memo[tuple[str, str], Staleness] = Memo(REMEMBERED)

    def of(self, pointer: Pointer, head: str) -> Staleness | None:
        """How the lines a pointer leads to stand at a commit of the project's own repository.

        None where that cannot be said: other repositories, documents by tag, and all that is no file.
        """
        known = self._known.get((head, pointer.ref))
        if known is None:
            try:
                address = parse_ref(pointer.ref)
                if not isinstance(address, RepoAddress) or address.repository is not None:
                    return None
                known = _compare(self._repositories.select(), address, head)
            except EngramBusError:  # what cannot be read is not judged
                return None
            self._known.put((head, pointer.ref), known)
        return known


def _compare(repository: GitRepository, address: RepoAddress, head: str) -> Staleness:
    then = repository.blob_id(address.revision, address.path)
    try:
        now = repository.blob_id(head, address.path)
    except (FileNotFound, NotAFile):
        return "gone"
    if then == now:
        return "same"
    if address.lines is None:
        return "changed"
    lines = _closed(cut_lines(repository.blob(then), *address.lines))
    text = _closed(repository.blob(now))
    if b"\n" + lines not in b"\n" + text:
        return "changed"
    try:
        return "same" if cut_lines(text, *address.lines) == lines else "moved"
    except SpanNotFound:
        return "moved"


def _closed(text: bytes) -> bytes:
    """A text whose last line has its end, so that it is not taken for the beginning of a longer one."""
    return text if text.endswith(b"\n") else text + b"\n"
