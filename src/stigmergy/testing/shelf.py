"""Something to read, for tests without a repository."""

from __future__ import annotations

from stigmergy.evidence.pointers import Content, RepoAddress

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
