"""Evidence for tests without a repository: every file, episode and test case exists, and two stored bodies."""

from __future__ import annotations

from engrambus.core import digest
from engrambus.evidence.pointers import (
    Address,
    BodyAddress,
    Content,
    FileLines,
    RepoAddress,
    Repositories,
    SamAddress,
    TestAddress,
)

SHA = "5" * 40
FILE_LINES = 40
CODE_PATH = "src/reserve.py"
CODE = "def reserve(lease):\n    if lease is None:\n        raise ValueError(lease)\n    return lease.token\n"
BODIES = {digest(text.encode()): text for text in ("A short body.\n", "A longer body, line by line.\n" * 30)}


class FakeRepository:
    """A repository in which every path is a file of forty lines, each naming itself, and `CODE_PATH` has `CODE`."""

    def resolve(self, address: RepoAddress) -> Content:
        """Return the lines an address names."""
        first, last = address.lines or (1, FILE_LINES)
        if address.path == CODE_PATH:
            text = "".join(CODE.splitlines(keepends=True)[first - 1 : last])
        else:
            text = "".join(f"line {number} of {address.path}\n" for number in range(first, last + 1))
        return Content.of(text.encode(), place=self.locate(address))

    def locate(self, address: RepoAddress) -> FileLines:
        """Return the lines of a file, which is the same at every commit."""
        first, last = address.lines or (1, None)
        return FileLines(file=f"git:{address.path}", first=first, last=last)

    def check_folder(self, address: RepoAddress) -> None:
        """Accept every folder."""


class FakeRepositories(Repositories):
    """Repositories without git: everything that is pointed at stays."""

    def __init__(self) -> None:
        super().__init__(None)

    def retain(self, address: Address) -> None:
        """Nothing is ever pruned."""


class FakeBodyStore:
    """A body store that holds `BODIES`."""

    def resolve(self, address: BodyAddress) -> Content:
        """Return the body with the address's digest."""
        return Content.of(BODIES[address.digest].encode())


class FakeMemory:
    """A memory in which every entry has a sentence that names it."""

    def resolve(self, address: SamAddress) -> Content:
        """Return the sentence of an entry."""
        return Content.of(f"The {address.kind} {address.slug} at {address.version}.".encode())


class FakeReports:
    """Test reports in which every case of every receipt has passed."""

    def resolve(self, address: TestAddress) -> Content:
        """Return the outcome of a case."""
        return Content.of(f"{address.node} passed\n".encode())


def repo_ref(path: str, first: int = 1, last: int = 2) -> str:
    """Return the ref of some lines of a file."""
    return f"repo:{path}#L{first}-L{last}@{SHA}"


def body_refs() -> tuple[str, str]:
    """Return the refs of the two stored bodies, the short one first."""
    short, long = BODIES
    return f"artifact:{short}", f"artifact:{long}"
