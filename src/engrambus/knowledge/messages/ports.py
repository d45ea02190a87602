"""What messages ask of a back end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from engrambus.knowledge.messages.values import Budgets, MessageKind


class Mail(msgspec.Struct, frozen=True, kw_only=True):
    """Something that lies in somebody's inbox."""

    position: int
    """Where it stands among all mail of the project."""
    kind: str
    """message, broadcast, request or answer"""
    item: str
    """Its id."""
    sender: str
    at: int
    text: str


class MessageReads(Protocol):
    """Inboxes, budgets given by parents, and what was sent back."""

    def mail(self, run_id: str, agent: str, *, after: int, limit: int) -> list[Mail]:
        """What lies in an inbox after a position, oldest first."""
        ...

    def budgets(self, run_id: str, agent: str) -> Budgets | None:
        """The budgets an agent's parent last gave it."""
        ...

    def open_rejection(self, run_id: str, agent: str, kind: MessageKind) -> str | None:
        """The last message of an agent in this form that was sent back and not sent again yet."""
        ...
