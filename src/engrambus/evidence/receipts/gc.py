"""What may go: bodies, by their age and by the room there is. Receipts never go."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Literal, NamedTuple

from engrambus.core import SECOND, parse_time
from engrambus.evidence.receipts.values import EMPTY, Receipt

DAY = 86_400 * SECOND

Why = Literal["artifact", "printed", "room"]
"""Past the hot days an artifact goes, past the warm days what was printed, and for room whatever is oldest."""


class Body(NamedTuple):
    """A body, and the last that was said of it."""

    sha: str
    size: int
    artifact: bool
    """Whether every receipt that names it names it as an artifact; otherwise it was printed too."""
    used: int
    """When the last execution that left it ended."""


class Purge(NamedTuple):
    """A body that goes, and why."""

    body: Body
    why: Why


def led_to(pinned: Iterable[str], receipt: Callable[[str], Receipt | None]) -> set[str]:
    """What is pinned, and for the receipt of a whole tuple those of its steps: a test is found through either."""
    found = set(pinned)
    return found.union(*(one.receipts for each in found if (one := receipt(each)) is not None))


class Survey:
    """The bodies of a project, as receipts name them."""

    def __init__(self, sizes: Iterable[tuple[str, int]], pinned: Collection[str] = ()) -> None:
        """`pinned` are digests, and ids of receipts, that engrams point at or that those lead to."""
        self._sizes = dict(sizes)
        self._pinned = pinned
        self._kept: set[str] = set()
        self._named: dict[str, tuple[bool, int]] = {}
        self.receipts = 0

    def take(self, receipt: Receipt) -> None:
        """Hear what one receipt names."""
        self.receipts += 1
        ended = parse_time(receipt.ended_at)
        pinned = receipt.id in self._pinned
        for sha, artifact in (
            (receipt.stdout_sha, False),
            (receipt.stderr_sha, False),
            *((each.sha, True) for each in receipt.artifacts),
        ):
            if sha == EMPTY or sha not in self._sizes:
                continue
            if pinned or sha in self._pinned:
                self._kept.add(sha)
            before = self._named.get(sha, (True, 0))
            self._named[sha] = before[0] and artifact, max(before[1], ended)

    @property
    def pinned(self) -> int:
        """How many bodies stay because engrams point at them."""
        return len(self._kept)

    def plan(self, *, now: int, hot_days: int, warm_days: int, room: int = 0) -> list[Purge]:
        """What goes, oldest first: what is past its days, and then, until so many bytes are free, whatever is oldest.

        What no receipt names is not ours to judge.
        """
        bodies = sorted(
            (
                Body(sha, self._sizes[sha], artifact, used)
                for sha, (artifact, used) in self._named.items()
                if sha not in self._kept
            ),
            key=lambda body: (body.used, body.sha),
        )
        purges, young = [], []
        for body in bodies:
            days = hot_days if body.artifact else warm_days
            if body.used < now - days * DAY:
                purges.append(Purge(body, "artifact" if body.artifact else "printed"))
                room -= body.size
            else:
                young.append(body)
        for body in young:
            if room <= 0:
                break
            purges.append(Purge(body, "room"))
            room -= body.size
        return purges
