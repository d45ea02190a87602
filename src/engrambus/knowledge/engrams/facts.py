"""The facts about engrams that are written to the journal."""

from __future__ import annotations

import msgspec

from engrambus.evidence.pointers import Pointer
from engrambus.knowledge.engrams.values import Adoption, Capture, Engram, Learned, UserKind

# Tags and field names are stored in every project's journal, so they never change.


class EngramPut(msgspec.Struct, frozen=True, kw_only=True, tag="engram.put", tag_field="fact", omit_defaults=True):
    """An engram was put on the bus."""

    engram: Engram
    run: str
    """The run it was put in."""
    expires_at: int
    """End of its ttl in microseconds, fixed at put."""
    more_keys: tuple[str, ...] = ()
    """Keys it is also found by, beyond the 32 in `hash_keys`."""
    key_format: int = 1
    """Number of the rules its keys were made by (docs/hash-keys.md); facts without one were made by the first."""
    pointed_tokens: int = 0
    """Size of the content behind its pointers, as far as it could be read here; for statistics."""
    root: str = ""
    """The author's topmost ancestor, whose rate it counts for; empty if it is the author itself."""
    turn: int = 0
    """The author's turn that paid for it; 0 if none did."""
    put_tokens: int = 0
    """Tokens that were charged to that turn."""
    learned: Learned | None = None
    """Where in the repository it was learned; None if a person or an agent stated it."""


class RepositoryLearned(
    msgspec.Struct, frozen=True, kw_only=True, tag="repository.learned", tag_field="fact", omit_defaults=True
):
    """The repository was learned from: what it says at a commit is in the store."""

    commit: str
    run: str
    by: str
    renewed: tuple[str, ...] = ()
    """Ids of engrams learned before that still stand in the repository, and whose ttl starts over."""
    expires_at: int = 0
    """End of their ttl in microseconds."""


class EngramCaptured(
    msgspec.Struct, frozen=True, kw_only=True, tag="engram.captured", tag_field="fact", omit_defaults=True
):
    """A claim was taken from an agent's answer in prose; it awaits confirmation."""

    engram: Engram
    run: str
    """The run of the answer."""
    expires_at: int
    """When it is dropped unless it is confirmed; its own ttl begins with the confirmation."""
    capture: Capture
    more_keys: tuple[str, ...] = ()
    key_format: int = 1
    root: str = ""
    """The author's topmost ancestor, whose rate it counts for; empty if it is the author itself."""
    turn: int = 0
    """The author's turn that paid for it; 0 if none did."""
    put_tokens: int = 0
    """Tokens that were charged to that turn."""


class EngramAdopted(
    msgspec.Struct, frozen=True, kw_only=True, tag="engram.adopted", tag_field="fact", omit_defaults=True
):
    """A person took on an engram of another project; it is untrusted until a person confirms it."""

    engram: Engram
    run: str
    """The run it was adopted in."""
    expires_at: int
    adoption: Adoption
    more_keys: tuple[str, ...] = ()
    key_format: int = 1


class EngramTrusted(msgspec.Struct, frozen=True, kw_only=True, tag="engram.trusted", tag_field="fact"):
    """A person confirmed an adopted engram: from now on it is one of the project's own."""

    id: str
    by: str


class EngramReceived(
    msgspec.Struct, frozen=True, kw_only=True, tag="engram.received", tag_field="fact", omit_defaults=True
):
    """A store that several projects share received an engram."""

    engram: Engram
    run: str
    """The run it was put in."""
    expires_at: int
    origin: str
    """The project it came from."""
    more_keys: tuple[str, ...] = ()
    key_format: int = 1


class EngramDelivered(msgspec.Struct, frozen=True, kw_only=True, tag="engram.delivered", tag_field="fact"):
    """An engram has arrived in a shared store, and left the project's outbox."""

    id: str


class PromotionRequested(msgspec.Struct, frozen=True, kw_only=True, tag="promotion.requested", tag_field="fact"):
    """An agent asked for an engram to be promoted beyond the project, which an admin must approve."""

    request_id: str
    id: str
    """The engram."""
    space: str
    """The space it is in."""
    scope: str
    """The scope it would have."""
    run: str
    by: str


class PromotionAnswered(msgspec.Struct, frozen=True, kw_only=True, tag="promotion.answered", tag_field="fact"):
    """An admin approved or declined a request to promote an engram."""

    request_id: str
    approved: bool
    by: str
    run: str
    """The run of the agent that asked."""


class EngramPromoted(
    msgspec.Struct, frozen=True, kw_only=True, tag="engram.promoted", tag_field="fact", omit_defaults=True
):
    """An engram's scope was widened."""

    id: str
    space: str
    """The space it was in before."""
    scope: str
    """The scope it has now."""
    by: str
    approved_by: str | None = None
    """The admin who approved it, for a scope beyond the project."""
    pointers: tuple[Pointer, ...] = ()
    """Its pointers from now on, with the name of their repository; empty if they stay as they are."""


class EngramForgotten(msgspec.Struct, frozen=True, kw_only=True, tag="engram.forgotten", tag_field="fact"):
    """An engram was taken off the bus."""

    id: str
    space: str
    """The space it was in."""
    by: str


class EngramConfirmed(
    msgspec.Struct, frozen=True, kw_only=True, tag="engram.confirmed", tag_field="fact", omit_defaults=True
):
    """An agent confirmed an engram: its ttl starts over, and the agent's root of the hierarchy has voted for it."""

    id: str
    space: str
    by: str
    root: str
    """The agent's topmost ancestor; it has one vote, however many descendants confirm."""
    expires_at: int
    confidence: float | None = None
    """The engram's new confidence, if the repeated claim has a higher one."""
    tags: tuple[str, ...] = ()
    """Tags that the repeated claim adds."""
    more_keys: tuple[str, ...] = ()
    """Keys that the engram is also found by: those of the added tags."""
    key_format: int = 1
    """Number of the rules that `more_keys` were made by."""
    resolved: tuple[Pointer, ...] = ()
    """Pointers that were unresolved and whose content is here now, with its digest."""
    captured_in: str = ""
    """The space that it leaves: set if it was an unconfirmed claim from prose."""
    pointers: tuple[Pointer, ...] = ()
    """All its pointers from now on, if its lines are elsewhere or have changed; empty if they stay as they are."""


class EngramsUsed(msgspec.Struct, frozen=True, kw_only=True, tag="engrams.used", tag_field="fact"):
    """The author of an engram, a message, a contribution or a review named the engrams it is based on."""

    kind: UserKind
    item: str
    """Id of the engram, message, broadcast or contribution that used them; a review has its contribution's."""
    run: str
    agent: str
    """Its author, by the name in the run."""
    engrams: tuple[str, ...]
    """Ids of the engrams it used, in its author's order."""


class EngramsListed(msgspec.Struct, frozen=True, kw_only=True, tag="engrams.listed", tag_field="fact"):
    """A query with `since_last` has shown an agent everything up to a position."""

    run: str
    agent: str
    position: int
    """How many engrams and versions of memories the project had stored: each put, adoption and version counts one."""


class EngramsRecalled(
    msgspec.Struct, frozen=True, kw_only=True, tag="engrams.recalled", tag_field="fact", omit_defaults=True
):
    """An agent was shown engrams unasked, by a hook of its client."""

    run: str
    agent: str
    engrams: tuple[str, ...] = ()
    """Ids of the engrams, which are not shown to it again in this session."""
    stale: tuple[str, ...] = ()
    """Ids of engrams, shown now or earlier, that were announced as stale."""
    task_of: str = ""
    """The agent that started it with a task; what was found for that task has been used up."""
    task: str = ""
    """Digest of what the client said about the sub-agent when it was started."""


class TaskRecalled(msgspec.Struct, frozen=True, kw_only=True, tag="task.recalled", tag_field="fact"):
    """Engrams were found for the task of a sub-agent that is about to be started; it is shown them when it starts."""

    run: str
    agent: str
    """The agent that starts it."""
    task: str
    """Digest of what the client says about the sub-agent, by which it is found when it starts."""
    engrams: tuple[str, ...]


class RecallForgotten(msgspec.Struct, frozen=True, kw_only=True, tag="recall.forgotten", tag_field="fact"):
    """A client compacted or cleared an agent's context: what it was shown before may be shown again."""

    run: str
    agent: str


class EngramPinned(msgspec.Struct, frozen=True, kw_only=True, tag="engram.pinned", tag_field="fact"):
    """An engram was pinned: it comes first in its section of every brief."""

    id: str
    space: str
    by: str


class EngramUnpinned(msgspec.Struct, frozen=True, kw_only=True, tag="engram.unpinned", tag_field="fact"):
    """A pinned engram was unpinned."""

    id: str
    space: str
    by: str


class EngramReplaced(
    msgspec.Struct, frozen=True, kw_only=True, tag="engram.replaced", tag_field="fact", omit_defaults=True
):
    """A newer claim replaced an engram: it is only read by its id, or by asking about the past."""

    id: str
    space: str
    """The space it was in."""
    replaced_by: str
    """Id of the engram that replaced it, or the pointer to a memory that did."""
    by: str
    run: str
    """The run of who replaced it."""
    pinned: bool = False
    """True if it was pinned: the pin ended with it."""
