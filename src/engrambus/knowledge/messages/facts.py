"""What messages write into the journal."""

from __future__ import annotations

import msgspec

from engrambus.knowledge.messages.values import Budgets, MessageKind


class MessageAccepted(
    msgspec.Struct, frozen=True, kw_only=True, tag="message.accepted", tag_field="fact", omit_defaults=True
):
    """A child reported to its parent."""

    message_id: str
    run: str
    agent: str
    to: str
    """Its parent, or the admin."""
    text: str
    """The message in the published form, printed anew."""
    tokens: int
    """What it cost as it was sent."""
    engrams: tuple[str, ...] = ()
    """The engrams it put or confirmed."""
    resends: str | None = None
    """The rejection it answers."""
    pointed_tokens: int = 0
    """What stands behind its pointer pack, beyond what its engrams point at; for the figures."""


class MessageRejected(
    msgspec.Struct, frozen=True, kw_only=True, tag="message.rejected", tag_field="fact", omit_defaults=True
):
    """A message was over its budget and sent back. What it said is not kept."""

    rejection_id: str
    run: str
    agent: str
    tokens: int
    exceeded: tuple[str, ...]
    kind: MessageKind = "child"
    """Whose form it had: a report, or a broadcast."""


class BroadcastSent(
    msgspec.Struct, frozen=True, kw_only=True, tag="broadcast.sent", tag_field="fact", omit_defaults=True
):
    """A parent spoke to its children."""

    broadcast_id: str
    run: str
    agent: str
    to: tuple[str, ...]
    text: str
    """The message in the published form, its budget tokens left out."""
    tokens: int
    budgets: Budgets = Budgets()
    """What the children may spend from now on; when nothing is said, what was said before holds."""
    resends: str | None = None
    """The rejection it answers."""
    pointed_tokens: int = 0
    """What stands behind its pointer pack, once for each child it went to; for the figures."""
