"""The reads that message rules need from a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from engrambus.knowledge.engrams import PromotionView
from engrambus.knowledge.messages.facts import PointerPack
from engrambus.knowledge.messages.limits import BudgetReads
from engrambus.policy import ADMIN
from engrambus.policy.grants import GrantView

if TYPE_CHECKING:
    from engrambus.knowledge.messages.values import MessageKind


class Mail(msgspec.Struct, frozen=True, kw_only=True):
    """One item in an agent's inbox."""

    position: int
    """Position among all mail of the project; the cursor of an inbox."""
    run: str
    """The receiver's run."""
    kind: str
    """`message`, `note`, `broadcast`, `request`, `grant` or `denial`."""
    item: str
    """Id of the message, broadcast, request or grant."""
    sender: str
    """Name of the sender; `<run>/<name>` if it is in another run than the receiver."""
    sent_us: int
    text: str
    engrams: tuple[str, ...] = ()
    """Ids of the engrams that it put."""
    requests: tuple[str, ...] = ()
    """Ids of the requests to read more that it made."""
    grants: tuple[str, ...] = ()
    """Handles of the grants that it hands over."""


class Inbox(msgspec.Struct, frozen=True, kw_only=True):
    """The receiver whose mail is read."""

    agent: str
    run: str | None
    """None for a person, who has one inbox for all runs of the project."""


def inbox_of(run_id: str, agent: str) -> Inbox:
    """Return the inbox of an agent of a run, or of the person who is the admin of every run."""
    return Inbox(agent=agent, run=None if agent == ADMIN else run_id)


class Unseen(msgspec.Struct, frozen=True, kw_only=True):
    """What waits in an inbox."""

    position: int
    """Position up to which the mail was handed over."""
    count: int
    """Number of later items."""
    newest: int
    """Position of the newest item; 0 if there is none."""


class SentPack(msgspec.Struct, frozen=True, kw_only=True):
    """A pointer pack of a broadcast, with its sender and time."""

    sender: str
    sent_us: int
    pack: PointerPack


class OpenRejection(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was rejected and not resent yet."""

    rejection_id: str
    work: tuple[str, ...] = ()
    """Short digests of its claims and of the files it pointed at."""


class MessageReads(BudgetReads, Protocol):
    """Reads of inboxes, of budgets set by parents, and of rejected messages."""

    def mail(self, inbox: Inbox, *, after: int, limit: int, with_answers: bool = True) -> list[Mail]:
        """Return the mail after a position, oldest first; answers only if wanted, which their receiver knows."""
        ...

    def mail_before(self, inbox: Inbox, *, position: int, limit: int) -> list[Mail]:
        """Return the mail up to a position, and all answers, newest first."""
        ...

    def mail_items(self, inbox: Inbox, beginning: str, *, limit: int) -> list[Mail]:
        """Return the mail whose item id begins with a text, oldest first."""
        ...

    def unseen(self, inbox: Inbox) -> Unseen:
        """Return how much mail was not handed over yet; answers are known to their receiver."""
        ...

    def pointer_packs(self, run_id: str, *, limit: int) -> list[SentPack]:
        """Return the pointer packs that were broadcast in a run, newest first."""
        ...

    def open_rejections(self, run_id: str, agent: str, kind: MessageKind, *, limit: int) -> list[OpenRejection]:
        """Return the agent's rejected messages of this kind that were not resent yet, the newest first."""
        ...


class MessageView(MessageReads, PromotionView, GrantView, Protocol):
    """The store at one moment, as message rules read it."""
