"""The rule for deleting bodies: by age and by the space needed, and what protects one. Receipts are never deleted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Literal, NamedTuple, get_args

from engrambus.core import SECOND_US, parse_time
from engrambus.evidence.receipts.bodies import BodyFile
from engrambus.evidence.receipts.values import EMPTY_DIGEST, Receipt

DAY_US = 86_400 * SECOND_US

PurgeReason = Literal["artifact", "printed", "room"]
"""An artifact older than the hot days, output older than the warm days, or the oldest body when space is short."""


KeepReason = Literal["running", "pinned", "fresh", "unnamed", "kept"]
"""What protects a body: an unfinished tuple, an engram, a caller that stored or read it a short time ago, or that no
receipt names it yet; `kept` is any other."""


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


class _Uses(NamedTuple):
    """How receipts name one body."""

    is_artifact: bool
    """True if every receipt that names it names it as an artifact."""
    used_us: int
    """End of the last execution that left it."""
    executed_us: int
    """The same of a worker's; a caller that stored it knows its digest, and may be about to name it."""


_UNNAMED = _Uses(is_artifact=True, used_us=0, executed_us=0)


class PurgePlanner:
    """Bodies of a project as its receipts name them, from which those to delete are chosen."""

    def __init__(
        self, bodies: Iterable[BodyFile], pinned: Collection[str] = (), needed: Collection[str] = (), *, fresh_us: int
    ) -> None:
        """`pinned` are digests of bodies and ids of receipts that engrams point at, `needed` those that
        unfinished tuples need. `fresh_us` is the time since which a body that a caller stored or read is fresh.
        """
        self._files = {body.sha: body for body in bodies}
        self._pinned = pinned
        self._needed = needed
        self._fresh_us = fresh_us
        self._pinned_bodies = self._files.keys() & set(pinned)
        self._needed_bodies = self._files.keys() & set(needed)
        self._unfinished: dict[str, set[str]] = {}
        """Bodies of the steps of each tuple that has no final receipt."""
        self._uses: dict[str, _Uses] = {}
        self.receipts = 0

    def add(self, receipt: Receipt) -> None:
        """Note the bodies one receipt names; receipts are added in the order they were recorded."""
        self.receipts += 1
        if receipt.step is None:  # a final receipt ends its tuple, and an acceptance precedes every step
            self._unfinished.pop(receipt.tuple_id, None)
        ended_us = parse_time(receipt.ended_at)
        executed_us = ended_us if receipt.worker is not None else 0
        for sha, is_artifact in (
            (receipt.stdout_sha, False),
            (receipt.stderr_sha, False),
            *((artifact.sha, True) for artifact in receipt.artifacts),
        ):
            if sha == EMPTY_DIGEST or sha not in self._files:
                continue
            if receipt.id in self._pinned:
                self._pinned_bodies.add(sha)
            if receipt.id in self._needed:
                self._needed_bodies.add(sha)
            if receipt.step is not None:
                self._unfinished.setdefault(receipt.tuple_id, set()).add(sha)
            uses = self._uses.get(sha, _UNNAMED)
            self._uses[sha] = _Uses(
                uses.is_artifact and is_artifact,
                max(uses.used_us, ended_us),
                max(uses.executed_us, executed_us),
            )

    @property
    def pinned(self) -> int:
        """Number of bodies kept because engrams point at them."""
        return len(self._pinned_bodies)

    def untouched_since_us(self, sha: str) -> int:
        """Return the time since which nobody may have touched a body that is deleted.

        A step wrote it before its receipt was made. Whoever touched it later may be about to name it.
        """
        return max(self._fresh_us, self._uses.get(sha, _UNNAMED).executed_us)

    def plan(self, *, now_us: int, hot_days: int, warm_days: int, excess_bytes: int = 0) -> list[Purge]:
        """Return the bodies past their days, then the oldest others until `excess_bytes` are freed; oldest first."""
        protected = self._protected()
        bodies = sorted(
            (
                StoredBody(sha, self._files[sha].size, uses.is_artifact, uses.used_us)
                for sha, uses in self._uses.items()
                if sha not in protected
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

    def keeps(self, purges: Iterable[Purge]) -> dict[KeepReason, list[int]]:
        """Return the sizes of the bodies that stay, by what protects them."""
        protected, purged = self._protected(), {purge.body.sha for purge in purges}
        sizes: dict[KeepReason, list[int]] = {reason: [] for reason in get_args(KeepReason)}
        for sha, body in self._files.items():
            if sha not in purged:
                sizes[protected.get(sha, "kept")].append(body.size)
        return sizes

    def _protected(self) -> dict[str, KeepReason]:
        """Return the bodies that are not deleted, each with the reason that will last longest."""
        unfinished = self._needed_bodies.union(*self._unfinished.values())
        return {sha: reason for sha in self._files if (reason := self._reason(sha, unfinished)) is not None}

    def _reason(self, sha: str, unfinished: Collection[str]) -> KeepReason | None:
        if sha in self._pinned_bodies:
            return "pinned"
        if sha in unfinished:
            return "running"
        if sha not in self._uses:
            return "unnamed"
        return "fresh" if self._files[sha].touched_us > self.untouched_since_us(sha) else None
