"""The values of the shared cortex: episodes, contributions, and the facts about them in the journal.

This module imports little, because every command decodes the facts of the journal and so loads it.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import field

from engrambus.core import print_time
from engrambus.evidence.pointers import Pointer
from engrambus.knowledge.engrams import Adoption

Status = Literal["submitted", "duplicate", "flagged", "accepted", "rejected", "withdrawn"]
WAITING: tuple[Status, ...] = ("submitted", "flagged")
UNDECIDED: tuple[Status, ...] = (*WAITING, "duplicate")
"""Statuses that may still be decided on. A duplicate is not listed as waiting, but a parent may decide on it too."""

Verdict = Literal["clean", "potential_conflict", "conflict"]
CHECKED_KINDS = frozenset({"fact", "decision", "constraint", "policy"})
"""Kinds of a new engram that is compared with earlier claims."""
Keep = Literal["new", "old", "both"]
"""Which of two contradictory claims holds."""
ItemOrigin = Literal["working_memory", "stm", "manual", "atom", "embedding"]
"""Why a snapshot has an item: it is pinned; it is an agent's memory; a person added it by hand, without a pin; it is an
engram, and those were asked for; it was found by meaning."""
EvidenceKind = Literal["path", "url", "command_output", "note"]


class Acceptance(msgspec.Struct, frozen=True, kw_only=True):
    """The decision by which a contribution became an episode."""

    contribution_id: str
    accepted_by: str
    accepted_at: str


class Episode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One version of something the team remembers: a decision, a preference, the state of some work.

    It is addressed `sam:<kind>:<slug>@<version or date>`.
    """

    kind: str
    slug: str
    version: int
    text: str
    categories: tuple[str, ...] = ()
    importance: float
    confidence: float | None = None
    pinned: bool = False
    """True if it belongs to working memory: it is always inherited, and contradictions of it are flagged."""
    created_us: int = field(name="at")
    """Time of this version, in microseconds."""
    expires_us: int | None = field(name="expires_at", default=None)
    by: str
    """The author: `<run>/<agent>`."""
    pointers: tuple[Pointer, ...] = ()
    acceptance: Acceptance | None = field(name="accepted", default=None)

    @property
    def memory_id(self) -> str:
        """The id of its record in a memory store."""
        return f"{self.kind}:{self.slug}@{self.version}"

    @property
    def ref(self) -> str:
        """The pointer to this version."""
        return f"sam:{self.memory_id}"

    def is_live(self, now_us: int) -> bool:
        """True if it has not expired."""
        return self.expires_us is None or self.expires_us > now_us

    def has_category(self, categories: frozenset[str]) -> bool:
        """True if it has one of these lower-case categories, or if none are given."""
        return not categories or not categories.isdisjoint(category.lower() for category in self.categories)

    def record(self) -> dict[str, Any]:
        """Return the record of this version for a memory store."""
        # decision 26: all fields but the text and the tags stand in `refs`, because a record's hash covers `refs`.
        details: dict[str, Any] = {
            "type": "episode",
            "kind": self.kind,
            "slug": self.slug,
            "version": self.version,
            "importance": self.importance,
            "pinned": self.pinned,
            "by": self.by,
        }
        if self.confidence is not None:
            details["confidence"] = self.confidence
        if self.expires_us is not None:
            details["expires_at"] = print_time(self.expires_us)
        refs = [details]
        refs += [{"type": "pointer", "ref": pointer.ref, "digest": pointer.digest} for pointer in self.pointers]
        if self.acceptance is not None:
            refs.append({"type": "contribution", **msgspec.to_builtins(self.acceptance)})
        return {
            "memory_id": self.memory_id,
            "ts_utc": print_time(self.created_us),
            "text": self.text,
            "tags": sorted({category.lower() for category in self.categories}),
            "refs": refs,
        }


class NearClaim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An earlier claim that a new one is near to."""

    id: str
    """The engram's id, or the pointer to the memory: `sam:kind:slug@version`."""
    kind: str
    claim: str
    pinned: bool = False
    verdict: Verdict = "clean"
    """What the rules say about the two; they only sort, and find less than half of all contradictions."""


class EvidenceItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Evidence for a contribution."""

    kind: EvidenceKind
    value: str
    pointer: Pointer | None = None
    """Where it was found in the repository, if it was."""


class ConflictCheck(msgspec.Struct, frozen=True, kw_only=True):
    status: Verdict = "clean"
    against: tuple[str, ...] = ()
    """The pinned memories and engrams it contradicts."""


class Dedupe(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    content_hash: str
    similarity_key: str
    duplicate_of: str | None = None
    """An earlier contribution with the same content, within the dedupe window."""
    similar_to: tuple[str, ...] = ()
    """Contributions with nearly the same content."""


class Security(msgspec.Struct, frozen=True, kw_only=True):
    redacted: bool = False
    redaction_notes: tuple[str, ...] = ()
    """The field and the kind of each secret that was removed."""


class Contribution(msgspec.Struct, frozen=True, kw_only=True):
    """Something a sub-agent learned, which a parent may turn into an episode."""

    contribution_id: str
    submitted_at: str
    from_session: str
    """The author: `<run>/<agent>`."""
    thread_id: str
    """One thread per task."""
    content: str
    proposed_categories: tuple[str, ...]
    confidence: float
    evidence: tuple[EvidenceItem, ...]
    inputs_used: tuple[str, ...]
    """Snapshots and references it is based on."""
    conflict_check: ConflictCheck
    dedupe: Dedupe
    security: Security
    status: Status
    decided_by: str | None = None
    decided_at: str | None = None
    reason: str | None = None
    """Why it was rejected."""
    memory_id: str | None = None
    """The episode made from it, once accepted."""
    atoms: tuple[str, ...] = ()
    """The engrams made from it, once accepted."""
    used: tuple[str, ...] = ()
    """Engrams it is based on; filled in when it is shown."""
    review_used: tuple[str, ...] = ()
    """Engrams that the decision on it is based on; filled in when it is shown."""
    untrusted: Adoption | None = None
    """Where it came from, if a person took it on from elsewhere; only a person decides on it."""
    nearest: tuple[NearClaim, ...] = ()
    """The pins that are nearest to it, at most three, while it waits; filled in when it is shown."""


class EpisodeKept(msgspec.Struct, frozen=True, kw_only=True, tag="sam.kept", tag_field="fact"):
    """A journal fact: a version of an episode was made."""

    run: str
    by: str
    episode: Episode


class ContributionSubmitted(msgspec.Struct, frozen=True, kw_only=True, tag="contribution.submitted", tag_field="fact"):
    """A journal fact: an agent handed a contribution to its parent."""

    run: str
    agent: str
    contribution: Contribution


class ContributionMoved(
    msgspec.Struct, frozen=True, kw_only=True, tag="contribution.moved", tag_field="fact", omit_defaults=True
):
    """A journal fact: a contribution was accepted, rejected or withdrawn."""

    run: str
    by: str
    contribution_id: str
    status: Status
    reason: str = ""
    memory_id: str | None = None
    """The episode made from it."""
    atoms: tuple[str, ...] = ()
    """Ids of the engrams made from it."""


class SnapshotPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The place of an item in a snapshot, from which its content is found again."""

    id: str
    """The `memory_id` or the `atom_id`."""
    origin: ItemOrigin
    confidence: float | None = None
    """Of an engram, whose confidence and tags may change."""
    tags: tuple[str, ...] = ()


class SnapshotRecipe(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a snapshot was made of: all that its items do not hold themselves."""

    # decision 109: memories never change, so the journal needs their ids and no second copy of their texts
    source_session: str
    scope: dict[str, Any]
    max_chars: int
    max_items: int
    left_out: int
    parts: tuple[SnapshotPart, ...]


class SnapshotTaken(
    msgspec.Struct, frozen=True, kw_only=True, tag="snapshot.taken", tag_field="fact", omit_defaults=True
):
    """A journal fact: an agent inherited a snapshot."""

    run: str
    by: str
    heir: str
    snapshot_id: str
    items: int
    chars: int
    recipe: SnapshotRecipe | None = None
    """None if the same snapshot was taken before: the journal has its recipe."""


class SnapshotTaking(msgspec.Struct, frozen=True, kw_only=True):
    """Who took a snapshot first for an agent, and when."""

    taken_us: int
    run: str
    by: str
    """Who took it: `<run>/<agent>`."""
    heir: str
    """The agent it was taken for."""
    recipe: SnapshotRecipe | None


def apply_move(contribution: Contribution, fact: ContributionMoved, now_us: int) -> Contribution:
    """Return the contribution as it is after the decision."""
    return msgspec.structs.replace(
        contribution,
        status=fact.status,
        decided_by=fact.by,
        decided_at=print_time(now_us),
        reason=fact.reason or None,
        memory_id=fact.memory_id,
        atoms=fact.atoms,
    )


class Contradiction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Two claims that the rules call contradictory; a person or a parent decides which holds."""

    contradiction_id: str
    found_at: str
    found_by: str
    """The author of the newer claim: `<run>/<agent>`."""
    newer: str
    """Id of the engram that was put last."""
    older: str
    """Id of the earlier engram, or the pointer to the pinned memory: `sam:kind:slug@version`."""
    verdict: Verdict
    risk: str
    """Id of the risk engram that points at the sources of both."""
    space: str
    """The space of those who see both."""
    keep: Keep | None = None
    """The decision; None while it waits."""
    decided_by: str | None = None
    decided_at: str | None = None
    reason: str | None = None


class ContradictionRecorded(msgspec.Struct, frozen=True, kw_only=True, tag="contradiction.recorded", tag_field="fact"):
    """A journal fact: a new claim may contradict an earlier one."""

    contradiction_id: str
    run: str
    by: str
    newer: str
    older: str
    verdict: Verdict
    risk: str
    space: str

    def record(self, now_us: int) -> Contradiction:
        """Return the contradiction as it waits for a decision."""
        return Contradiction(
            contradiction_id=self.contradiction_id,
            found_at=print_time(now_us),
            found_by=self.by,
            newer=self.newer,
            older=self.older,
            verdict=self.verdict,
            risk=self.risk,
            space=self.space,
        )


class ContradictionSettled(msgspec.Struct, frozen=True, kw_only=True, tag="contradiction.settled", tag_field="fact"):
    """A journal fact: it was decided which of two claims holds, or one of them has ended."""

    contradiction_id: str
    run: str
    by: str
    keep: Keep
    reason: str
    space: str


def settle(contradiction: Contradiction, fact: ContradictionSettled, now_us: int) -> Contradiction:
    """Return the contradiction as it is after the decision."""
    return msgspec.structs.replace(
        contradiction, keep=fact.keep, decided_by=fact.by, decided_at=print_time(now_us), reason=fact.reason or None
    )
