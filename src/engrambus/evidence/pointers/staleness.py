"""Staleness of evidence: pointed lines are the same at a later commit, moved, changed, or gone with their file."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from engrambus.core import LruCache
from engrambus.errors import EngramBusError, FileNotFound, NotAFile, SpanNotFound
from engrambus.evidence.pointers.addresses import Pointer, RepoAddress
from engrambus.evidence.pointers.git import GitRepository
from engrambus.evidence.pointers.grammar import parse_ref
from engrambus.evidence.pointers.repo import cut_lines
from engrambus.evidence.pointers.repositories import Repositories

Staleness = Literal["same", "moved", "changed", "gone", "unresolved"]
"""How pointed lines compare with a later commit; `unresolved` where what a pointer names is not here."""

# decision 17: lines that only moved are not stale; a warning that is mostly wrong is not read
STALE: frozenset[str] = frozenset({"changed", "gone"})
"""The values that mean the evidence no longer says what it said."""


class EvidenceState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the lines of a pointer compare with the files as they are now."""

    state: Staleness
    share: float | None = None
    """Share of the lines that survive, from 0 to 1; only for `changed`."""
    now: str | None = None
    """The lines that hold them now, as `src/a.py:12-14`; for `moved` and `changed`."""

    @property
    def is_stale(self) -> bool:
        """True if the evidence no longer says what it said."""
        return self.state in STALE


CACHE_SIZE = 16_384


class StalenessChecker:
    """Compares pointed lines with a commit. A result never changes, so it is cached by commit and pointer."""

    def __init__(self, repositories: Repositories) -> None:
        self._repositories = repositories
        self._results: LruCache[tuple[str, str], EvidenceState] = LruCache(CACHE_SIZE)

    def check(self, pointer: Pointer, head: str) -> EvidenceState | None:
        """Compare the lines of a pointer with the commit `head` of the project's own repository.

        Return None where no comparison is possible: another repository, a document by tag, anything but a file.
        """
        result = self._results.get((head, pointer.ref))
        if result is None:
            try:
                address = parse_ref(pointer.ref)
                if not isinstance(address, RepoAddress) or not self._repositories.is_own(address.repository):
                    return None
                result = EvidenceState(state=_compare(self._repositories.select(), address, head))
            except EngramBusError:  # unreadable evidence is not called stale
                return None
            self._results.put((head, pointer.ref), result)
        return result


def _compare(repository: GitRepository, address: RepoAddress, head: str) -> Staleness:
    old_blob = repository.blob_id(address.revision, address.path)
    try:
        new_blob = repository.blob_id(head, address.path)
    except (FileNotFound, NotAFile):
        return "gone"
    if old_blob == new_blob:
        return "same"
    if address.lines is None:
        return "changed"
    lines = _with_newline(cut_lines(repository.blob(old_blob), *address.lines))
    text = _with_newline(repository.blob(new_blob))
    if b"\n" + lines not in b"\n" + text:
        return "changed"
    try:
        return "same" if cut_lines(text, *address.lines) == lines else "moved"
    except SpanNotFound:
        return "moved"


def _with_newline(text: bytes) -> bytes:
    """Return the text with its last line ended, so that it cannot match the beginning of a longer line."""
    return text if text.endswith(b"\n") else text + b"\n"
