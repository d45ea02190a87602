"""Journal facts about messages."""

from __future__ import annotations

import msgspec

from engrambus.evidence.pointers import Pointer
from engrambus.knowledge.messages.values import ChildBudgets, MessageKind


class PointedContent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content behind a pointer that a message carries, named so that a read of it is recognised (decision 80)."""

    digest: str
    tokens: int
    file: str | None = None
    """The id of the file that the content is in; None if it is in none."""
    first: int = 1
    last: int | None = None
    """The last line; None if the content goes to the end of the file."""


class PointerPack(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Pointers of a broadcast, and the children that they are for."""

    to: tuple[str, ...]
    """The names of the children that got it."""
    pointers: tuple[Pointer, ...]
    target: tuple[str, ...] = ()
    """Names and roles (`role:programmer`) as the parent wrote them; empty if it is for all receivers."""


class MessageAccepted(
    msgspec.Struct, frozen=True, kw_only=True, tag="message.accepted", tag_field="fact", omit_defaults=True
):
    """An agent reported to its parent, or wrote to another lead; or a person wrote to an agent."""

    message_id: str
    run: str
    agent: str
    to: str
    """The receiver: the sender's parent or the admin, unless the message was addressed."""
    text: str
    """The message printed in the published form, not as it was sent; a note as it was sent."""
    tokens: int
    """Token count of the text as it was sent."""
    engrams: tuple[str, ...] = ()
    """Ids of the engrams the message put or confirmed."""
    resends: str | None = None
    """Id of the rejection that this message answers."""
    pointed_tokens: int = 0
    """Only in older journals: tokens of content behind the pointers. No longer used."""
    to_run: str | None = None
    """The receiver's run; None if it is the sender's."""
    is_note: bool = False
    """True for plain words, which have no sections."""
    requests: tuple[str, ...] = ()
    """Ids of the requests to read more that the message made."""
    is_known: bool = False
    """True if the receiver's client handed it the whole answer already, so that nothing announces it."""
    pointed: tuple[PointedContent, ...] = ()
    """The content behind its pointers and those of its engrams; used for figures only."""


class MessageRejected(
    msgspec.Struct, frozen=True, kw_only=True, tag="message.rejected", tag_field="fact", omit_defaults=True
):
    """A message over its budget was sent back. Its text is not stored."""

    rejection_id: str
    run: str
    agent: str
    tokens: int
    exceeded: tuple[str, ...]
    """Names of the exceeded quantities, as in `MessageUsage`."""
    kind: MessageKind = "child"
    """`child` for a report, `parent` for a broadcast."""
    work: tuple[str, ...] = ()
    """Short digests of its claims and of the files it pointed at: a later message about them replaces it."""
    resends: str | None = None
    """Id of the earlier rejection that this message replaced, in vain."""


class BroadcastSent(
    msgspec.Struct, frozen=True, kw_only=True, tag="broadcast.sent", tag_field="fact", omit_defaults=True
):
    """A parent sent a message to its children."""

    broadcast_id: str
    run: str
    agent: str
    to: tuple[str, ...]
    text: str
    """The message in the published form, without its budget tokens and without what stands in `packs`."""
    tokens: int
    budgets: ChildBudgets = ChildBudgets()
    """Limits for the children from now on; a broadcast that sets none leaves the previous ones in force."""
    resends: str | None = None
    """Id of the rejection that this broadcast answers."""
    pointed_tokens: int = 0
    """Only in older journals: tokens of content behind the pointers. No longer used."""
    packs: tuple[PointerPack, ...] = ()
    """The pointers it carries, and for whom."""
    grants: tuple[str, ...] = ()
    """Handles of the grants that it hands over."""
    pointed: tuple[tuple[PointedContent, ...], ...] = ()
    """The content behind the pointers of each of `packs`; used for figures only."""


class MailHandedOver(
    msgspec.Struct, frozen=True, kw_only=True, tag="mail.handed_over", tag_field="fact", omit_defaults=True
):
    """An agent was shown its mail up to a position; what comes later is unseen."""

    run: str
    agent: str
    position: int
    """Position among all mail of the project."""
