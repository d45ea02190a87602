"""What the shared cortex writes into the journal."""

from __future__ import annotations

import msgspec

from engrambus.core import print_time
from engrambus.knowledge.cortex.contributions import Contribution, Status
from engrambus.knowledge.cortex.episodes import Episode


class EpisodeKept(msgspec.Struct, frozen=True, kw_only=True, tag="sam.kept", tag_field="fact"):
    """Something was remembered, or remembered anew."""

    run: str
    by: str
    episode: Episode


class ContributionSubmitted(msgspec.Struct, frozen=True, kw_only=True, tag="contribution.submitted", tag_field="fact"):
    """An agent handed a learning to its parent."""

    run: str
    agent: str
    contribution: Contribution


class ContributionMoved(
    msgspec.Struct, frozen=True, kw_only=True, tag="contribution.moved", tag_field="fact", omit_defaults=True
):
    """A contribution was decided on, or taken back."""

    run: str
    by: str
    contribution_id: str
    status: Status
    reason: str = ""
    memory_id: str | None = None
    """What it was remembered as."""


class SnapshotTaken(msgspec.Struct, frozen=True, kw_only=True, tag="snapshot.taken", tag_field="fact"):
    """An agent was handed a part of what the team remembers."""

    run: str
    by: str
    heir: str
    snapshot_id: str
    items: int
    chars: int


def moved(before: Contribution, fact: ContributionMoved, at: int) -> Contribution:
    """A contribution as it stands after it was decided on."""
    return msgspec.structs.replace(
        before,
        status=fact.status,
        decided_by=fact.by,
        decided_at=print_time(at),
        reason=fact.reason or None,
        memory_id=fact.memory_id,
    )
