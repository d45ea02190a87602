"""Sections of documents at a commit or a tag, and stored bodies."""

from __future__ import annotations

from typing import Protocol

from engrambus.core import Memo, is_hex
from engrambus.errors import ArtifactAmbiguous, ArtifactNotFound, ContentTooLarge, FileNotFound
from engrambus.evidence.pointers.addresses import ArtifactAddress, BodyAddress
from engrambus.evidence.pointers.git import MAX_CONTENT, Blob, GitRepository
from engrambus.evidence.pointers.headings import Section, pick_section, read_sections
from engrambus.evidence.pointers.repo import Repositories
from engrambus.evidence.pointers.resolve import Content

MAX_DOCUMENT = 1024 * 1024
AN_END = 512 * 1024
"""How much is held of each end of a large body: more than any answer may have."""
_SHOWN = 6


class Bodies(Protocol):
    """Where stored bodies are read from."""

    def get(self, digest: str, limit: int | None = None) -> bytes:
        """The body of that digest, checked."""
        ...

    def touch(self, digest: str) -> None:
        """Have a body left where it is for a while; refused when it is gone."""
        ...


class LargeBodies(Bodies, Protocol):
    """Where bodies are read from that may be too large to hold."""

    def get_lines(self, digest: str, first: int, last: int, limit: int) -> bytes:
        """Some lines of the body of that digest, checked."""
        ...

    def get_ends(self, digest: str, size: int) -> tuple[bytes, bytes]:
        """The first and the last bytes of the body of that digest, checked."""
        ...


class ArtifactResolver:
    """Reads `artifact:` addresses out of the project's repository."""

    def __init__(self, repositories: Repositories) -> None:
        self._repositories = repositories
        self._sections: Memo[str, tuple[Section, ...]] = Memo(20_000)

    def resolve(self, address: ArtifactAddress) -> Content:
        """The named section with its heading, or the whole document."""
        repository = self._repositories.select()
        pinned = is_hex(address.version, 40, 64)
        revision = address.version if pinned else repository.tag_commit(address.version)
        blob = _find(repository, revision, address.name)
        if address.section is None:
            return Content.of(blob.data, blob.id)
        section = pick_section(self._sections_of(blob), address.section)
        return Content.of(blob.data[section.start : section.end], blob.id)

    def _sections_of(self, blob: Blob) -> tuple[Section, ...]:
        known = self._sections.get(blob.id)
        if known is None:
            if len(blob.data) > MAX_DOCUMENT:
                raise ContentTooLarge(
                    "The document is too large to look for sections in.", limit=MAX_DOCUMENT, used=len(blob.data)
                )
            known = read_sections(blob.data)
            self._sections.put(blob.id, known, weight=len(known) + 1)
        return known


class BodyResolver:
    """Reads `artifact:sha256:` addresses: stored bodies."""

    def __init__(self, bodies: LargeBodies, *, cap: int = MAX_CONTENT) -> None:
        self._bodies = bodies
        self._cap = cap

    def resolve(self, address: BodyAddress) -> Content:
        """The pointed lines, or the stored body; of one that is too large, both its ends."""
        if address.lines is not None:
            return Content.of(self._bodies.get_lines(address.digest, *address.lines, self._cap))
        try:
            return Content.of(self._bodies.get(address.digest, self._cap))
        except ContentTooLarge:
            first, last = self._bodies.get_ends(address.digest, min(AN_END, self._cap))
        return Content(data=_first_lines(first), end=_last_lines(last), digest=address.digest)


def _first_lines(data: bytes) -> bytes:
    """The whole lines of a beginning, or the whole characters where there is nothing but one line."""
    lines = data[: data.rfind(b"\n") + 1]
    return lines if lines.strip() else next((data[:-n] for n in range(1, 5) if _begins(data[-n])), data)


def _last_lines(data: bytes) -> bytes:
    """The whole lines of an end, or the whole characters where there is nothing but one line."""
    lines = data[data.find(b"\n") + 1 or len(data) :]
    return lines if lines.strip() else next((data[n:] for n in range(4) if _begins(data[n])), data)


def _begins(byte: int) -> bool:
    """Whether a byte of UTF-8 is a character's first."""
    return byte & 0xC0 != 0x80


def _find(repository: GitRepository, revision: str, name: str) -> Blob:
    """The document at exactly this path, else the only one of this name."""
    try:
        return repository.read(revision, name)
    except FileNotFound:
        candidates = repository.find_file(revision, name) if "/" not in name else ()
    if not candidates:
        raise ArtifactNotFound(hint=f"Looked at commit {revision[:12]}.")
    if len(candidates) > 1:
        shown = ", ".join(candidates[:_SHOWN]) + (", …" if len(candidates) > _SHOWN else "")
        raise ArtifactAmbiguous(f"{len(candidates)} files have this name.", hint=f"Write the path: {shown}")
    return repository.read(revision, candidates[0])
