"""The pointers that citations in prose stand for: those that lead to a file or to lines that exist.

A citation means what its author had before its eyes: the file on disk. Where its lines are the same in the commit that
is checked out, the pointer names that commit; otherwise a snapshot of the file (decision 82).
"""

from __future__ import annotations

import stat
from pathlib import Path

import msgspec

from engrambus.errors import EngramBusError, FileNotFound
from engrambus.evidence.pointers.addresses import ArtifactAddress, BodyAddress, DiffAddress, Pointer, RepoAddress
from engrambus.evidence.pointers.citations import Citation
from engrambus.evidence.pointers.grammar import check_pointer
from engrambus.evidence.pointers.repositories import Repositories
from engrambus.evidence.pointers.resolve import Content, Evidence
from engrambus.evidence.pointers.short_pointers import PointerCompleter, parse_file_span

MAX_PLACES = 128
"""Citations of one text that are looked up, those with lines first."""
MAX_SNAPSHOTS = 4
"""Changed files of one text that a snapshot is taken of."""
MAX_NAMES = 16
"""Paths of one text whose beginning was left out and that are looked for in the whole tree."""
MAX_FILE_BYTES = 4 * 1024 * 1024
"""A larger file on disk is not compared with its commit."""

_TEXT_TYPES = (RepoAddress, DiffAddress, ArtifactAddress, BodyAddress)
"""What a citation may lead to; a page on the web is not fetched for it."""


class CitedPlaces:
    """Looks up the citations of one text."""

    def __init__(
        self, completer: PointerCompleter, evidence: Evidence, repositories: Repositories, root: Path, head: str | None
    ) -> None:
        """`head` is the commit checked out in `root`; None if there is none."""
        self._completer = completer
        self._evidence = evidence
        self._repositories = repositories
        self._root = root
        self._head = head
        self._pointers: dict[str, Pointer | None] = {}
        self._snapshots: set[str] = set()
        self._names: dict[str, str | None] = {}

    def resolve_all(self, citations: list[Citation]) -> dict[Citation, Pointer]:
        """Return the pointers of those citations that lead to something, in the order of the text."""
        places = dict.fromkeys(citation.place for citation in sorted(citations, key=lambda item: not item.has_lines))
        for place in list(places)[:MAX_PLACES]:
            self._pointers[place] = self._resolve(place)
        found = ((citation, self._pointers.get(citation.place)) for citation in citations)
        return {citation: pointer for citation, pointer in found if pointer is not None}

    def _resolve(self, place: str) -> Pointer | None:
        place = self._from_root(place)
        try:
            return self._read(place)
        except FileNotFound:
            whole = self._with_beginning(place)
            try:
                return self._read(whole) if whole is not None else None
            except EngramBusError:
                return None
        except EngramBusError:
            return None

    def _from_root(self, place: str) -> str:
        """Return a place with its path from the top of the repository."""
        place = place.removeprefix("./")
        return place.removeprefix(f"{self._root}/") if place.startswith("/") else place

    def _read(self, place: str) -> Pointer | None:
        """Return the pointer to a place; refuse one that leads nowhere."""
        pointer = self._completer.complete(place, "text")
        checked, address = check_pointer(pointer)
        if not isinstance(address, _TEXT_TYPES):
            return None
        is_here = isinstance(address, RepoAddress) and address.repository is None and address.revision == self._head
        if not isinstance(address, RepoAddress) or not is_here or address.lines is None:
            return self._stamped(checked, self._evidence.read(checked))
        try:
            content = self._evidence.read(checked)
        except EngramBusError:
            changed = self._on_disk(place, address.path)
            if changed is None:
                raise
            return changed
        if self._differs(address.path, address.lines, content):
            return self._on_disk(place, address.path)
        return self._stamped(checked, content)

    @staticmethod
    def _stamped(pointer: Pointer, content: Content) -> Pointer | None:
        """Return a pointer with the digest of its content; None for content that is binary or too large to quote."""
        if not content.data or b"\0" in content.data or content.end is not None:
            return None
        return msgspec.structs.replace(pointer, digest=content.digest)

    def _differs(self, path: str, span: tuple[int, int], content: Content) -> bool:
        """True if the file on disk has other lines in that place than the commit."""
        data = self._file(path)
        if data is None:  # deleted or unreadable: the commit is the last place that had it
            return False
        first, last = span
        return _lines_of(data)[first - 1 : last] != _lines_of(content.data)

    def _on_disk(self, place: str, path: str) -> Pointer | None:
        """Return the pointer to a place in a snapshot of the file, if it has one there."""
        if self._file(path) is None or (path not in self._snapshots and len(self._snapshots) >= MAX_SNAPSHOTS):
            return None
        self._snapshots.add(path)
        self._completer.on_disk = True
        try:
            pointer, _ = check_pointer(self._completer.complete(place, "text"))
            return self._stamped(pointer, self._evidence.read(pointer))
        except EngramBusError:
            return None
        finally:
            self._completer.on_disk = False

    def _file(self, path: str) -> bytes | None:
        """Return the file on disk at a path; None if it is no file, or too large to be compared."""
        file = self._root / path
        try:
            status = file.lstat()
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
                return None
            return file.read_bytes()
        except (OSError, ValueError):
            return None

    def _with_beginning(self, place: str) -> str | None:
        """Return a place with the whole path, if only one file of the commit has a path that ends like this."""
        span = parse_file_span(place)
        if not span.lines or self._head is None or place.startswith(("/", "../")):
            return None
        if span.path not in self._names:
            if len(self._names) >= MAX_NAMES:
                return None
            self._names[span.path] = self._only_file(span.path)
        path = self._names[span.path]
        return f"{path}{place[len(span.path) :]}" if path is not None else None

    def _only_file(self, path: str) -> str | None:
        try:
            paths = self._repositories.select().find_file(self._head or "", path.rpartition("/")[2])
        except EngramBusError:
            return None
        ending = [found for found in paths if found == path or found.endswith(f"/{path}")]
        return ending[0] if len(ending) == 1 else None


def _lines_of(data: bytes) -> list[bytes]:
    lines = data.replace(b"\r\n", b"\n").split(b"\n")
    return lines if lines[-1] else lines[:-1]
