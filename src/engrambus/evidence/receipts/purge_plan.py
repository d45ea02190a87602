"""The rule for deleting bodies: by their age and by the space needed. Receipts are never deleted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Literal, NamedTuple

from engrambus.core import SECOND_US, parse_time
from engrambus.evidence.receipts.values import EMPTY_DIGEST, Receipt

DAY_US = 86_400 * SECOND_US

PurgeReason = Literal["artifact", "printed", "room"]
"""An artifact older than the hot days, output older than the warm days, or the oldest body when space is short."""


class StoredBody(NamedTuple):
    """A body and its latest use."""

    sha: str
    size: int
    is_artifact: bool
    """True if every receipt that names it names it as an artifact; otherwise it is also the output of a step."""
    used_us: int
    """End of the last execution that left it."""


class Purge(NamedTuple):
    """A body to delete, and why."""

    body: StoredBody
    why: PurgeReason


def with_step_receipts(pinned: Iterable[str], receipt: Callable[[str], Receipt | None]) -> set[str]:
    """Add to pinned ids the step receipts of each tuple's receipt: a test may be found through either."""
    ids = set(pinned)
    return ids.union(
        *(pinned_receipt.receipts for pinned_id in ids if (pinned_receipt := receipt(pinned_id)) is not None)
    )


class PurgePlanner:
    """Bodies of a project as its receipts name them, from which those to delete are chosen."""

    def __init__(self, sizes: Iterable[tuple[str, int]], pinned: Collection[str] = ()) -> None:
        """`pinned` are digests of bodies and ids of receipts that engrams point at."""
        self._sizes = dict(sizes)
        self._pinned = pinned
        self._pinned_bodies: set[str] = set()
        self._named: dict[str, tuple[bool, int]] = {}
        self.receipts = 0

    def add(self, receipt: Receipt) -> None:
        """Note the bodies one receipt names."""
        self.receipts += 1
        ended_us = parse_time(receipt.ended_at)
        is_pinned = receipt.id in self._pinned
        for sha, is_artifact in (
            (receipt.stdout_sha, False),
            (receipt.stderr_sha, False),
            *((artifact.sha, True) for artifact in receipt.artifacts),
        ):
            if sha == EMPTY_DIGEST or sha not in self._sizes:
                continue
            if is_pinned or sha in self._pinned:
                self._pinned_bodies.add(sha)
            only_artifact, used_us = self._named.get(sha, (True, 0))
            self._named[sha] = only_artifact and is_artifact, max(used_us, ended_us)

    @property
    def pinned(self) -> int:
        """Number of bodies kept because engrams point at them."""
        return len(self._pinned_bodies)

    def plan(self, *, now_us: int, hot_days: int, warm_days: int, excess_bytes: int = 0) -> list[Purge]:
        """Return the bodies past their days, then the oldest others until `excess_bytes` are freed; oldest first.

        A body that no receipt names is left alone: a worker may be about to name it.
        """
        bodies = sorted(
            (
                StoredBody(sha, self._sizes[sha], is_artifact, used_us)
                for sha, (is_artifact, used_us) in self._named.items()
                if sha not in self._pinned_bodies
            ),
            key=lambda body: (body.used_us, body.sha),
        )
        purges, young = [], []
        for body in bodies:
            days = hot_days if body.is_artifact else warm_days
            if body.used_us < now_us - days * DAY_US:
                purges.append(Purge(body, "artifact" if body.is_artifact else "printed"))
                excess_bytes -= body.size
            else:
                young.append(body)
        # decision 28: only for space, whatever the tier; the next execution of such a step is a miss.
        for body in young:
            if excess_bytes <= 0:
                break
            purges.append(Purge(body, "room"))
            excess_bytes -= body.size
        return purges
