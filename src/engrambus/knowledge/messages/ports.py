"""The reads that message rules need from a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from engrambus.knowledge.engrams import PromotionView
from engrambus.knowledge.messages.limits import BudgetReads
from engrambus.policy.grants import GrantView

if TYPE_CHECKING:
    from engrambus.knowledge.messages.values import MessageKind


class Mail(msgspec.Struct, frozen=True, kw_only=True):
    """One item in an agent's inbox."""

    position: int
    """Position among all mail of the project; the cursor of an inbox."""
    kind: str
    """`message`, `broadcast`, `request` or `answer`."""
    item: str
    """Id of the message, broadcast, request or grant."""
    sender: str
    sent_us: int
    text: str


class OpenRejection(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was rejected and not resent yet."""

    rejection_id: str
    work: tuple[str, ...] = ()
    """Short digests of its claims and of the files it pointed at."""


class MessageReads(BudgetReads, Protocol):
    """Reads of inboxes, of budgets set by parents, and of rejected messages."""

    def mail(self, run_id: str, agent: str, *, after: int, limit: int) -> list[Mail]:
        """Return an agent's mail after a position, oldest first."""
        ...

    def open_rejections(self, run_id: str, agent: str, kind: MessageKind, *, limit: int) -> list[OpenRejection]:
        """Return the agent's rejected messages of this kind that were not resent yet, the newest first."""
        ...


class MessageView(MessageReads, PromotionView, GrantView, Protocol):
    """The store at one moment, as message rules read it."""
