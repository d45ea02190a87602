"""How a file changed between two commits."""

from __future__ import annotations

from engrambus.errors import ContentTooLarge, FileNotFound
from engrambus.evidence.pointers.addresses import DiffAddress
from engrambus.evidence.pointers.git import Blob, GitRepository
from engrambus.evidence.pointers.repo import Repositories
from engrambus.evidence.pointers.resolve import Content

_NO_NEWLINE = b"\n\\ No newline at end of file\n"


class DiffResolver:
    """Reads `diff:` addresses: a unified diff with three lines of context, the same bytes on every machine."""

    def __init__(self, repositories: Repositories) -> None:
        self._repositories = repositories

    def resolve(self, address: DiffAddress) -> Content:
        """The diff, empty when the file is the same in both commits."""
        repository = self._repositories.select()
        old = _read(repository, address.base, address.path)
        new = _read(repository, address.head, address.path)
        if old is None and new is None:
            raise FileNotFound("The file is in neither of the two commits.")
        if old and new and old.id == new.id:
            return Content.of(b"")
        if old is None or new is None:
            hunks = _whole(b"+", new.data) if new else _whole(b"-", old.data if old else b"")
        else:
            hunks = _plain_hunks(repository.diff(old.id, new.id))
        name = address.path.encode()
        before = b"--- a/" + name if old else b"--- /dev/null"
        after = b"+++ b/" + name if new else b"+++ /dev/null"
        data = b"%s\n%s\n%s" % (before, after, hunks)
        if len(data) > repository.cap:
            raise ContentTooLarge(limit=repository.cap, used=len(data))
        return Content.of(data)


def _read(repository: GitRepository, revision: str, path: str) -> Blob | None:
    try:
        return repository.read(revision, path)
    except FileNotFound:
        return None


def _whole(sign: bytes, data: bytes) -> bytes:
    """The one hunk of a file that came or went."""
    if not data:
        return b""
    lines = data.split(b"\n")
    ends = lines[-1] == b""
    if ends:
        lines.pop()
    size = b"1" if len(lines) == 1 else b"1,%d" % len(lines)
    where = b"@@ -0,0 +%s @@\n" % size if sign == b"+" else b"@@ -%s +0,0 @@\n" % size
    return where + sign + (b"\n" + sign).join(lines) + (b"\n" if ends else _NO_NEWLINE)


def _plain_hunks(hunks: bytes) -> bytes:
    """The hunks without the function names git may guess after `@@`: which it finds is a matter of configuration."""
    lines = hunks.split(b"\n")
    for position, line in enumerate(lines):
        if line.startswith(b"@@ "):
            lines[position] = line[: line.index(b" @@", 3) + 3]
    return b"\n".join(lines)
