"""Something to read, for tests without a repository."""

from __future__ import annotations

from engrambus.core import digest
from engrambus.evidence.pointers import BodyAddress, Content, RepoAddress

SHA = "5" * 40
LENGTH = 40


class Shelf:
    """Every file there could be, at every commit: forty lines that say where they stand."""

    def resolve(self, address: RepoAddress) -> Content:
        """The lines an address names."""
        first, last = address.lines or (1, LENGTH)
        return Content.of("".join(f"line {number} of {address.path}\n" for number in range(first, last + 1)).encode())


def on_shelf(path: str, first: int = 1, last: int = 2) -> str:
    """The ref of some lines of a file."""
    return f"repo:{path}#L{first}-L{last}@{SHA}"


BODIES = {digest(text.encode()): text for text in ("A short body.\n", "A longer body, line by line.\n" * 30)}


class Drawer:
    """Two stored bodies."""

    def resolve(self, address: BodyAddress) -> Content:
        """The body of a digest."""
        return Content.of(BODIES[address.digest].encode())


def in_drawer() -> tuple[str, str]:
    """The refs of the two, the short one first."""
    short, long = BODIES
    return f"artifact:{short}", f"artifact:{long}"
