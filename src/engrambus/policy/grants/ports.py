"""What grants ask of a back end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from engrambus.policy.facts import DerefRequested
from engrambus.policy.grants.facts import GrantIssued


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What was debited to a block so far."""

    tokens: int = 0
    uses: int = 0


class KeptRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to read more, and what became of it."""

    asked: DerefRequested
    answered: bool
    grant_id: str | None = None


class GrantReads(Protocol):
    """Grants, what was spent of them, and requests for them."""

    def grant(self, run_id: str, grant_id: str) -> GrantIssued | None:
        """The grant of that id in that run."""
        ...

    def grants_for(self, run_id: str, children: Sequence[str]) -> list[GrantIssued]:
        """Every grant of a run made out to one of these, oldest first."""
        ...

    def spent(self, block_ids: Sequence[str]) -> dict[str, Spent]:
        """What was debited to these blocks."""
        ...

    def revoked(self, block_ids: Sequence[str]) -> set[str]:
        """Which of these blocks were revoked."""
        ...

    def request(self, run_id: str, request_id: str) -> KeptRequest | None:
        """The request of that id in that run."""
        ...

    def open_requests(self, run_id: str) -> list[KeptRequest]:
        """Every request of a run that nobody has answered yet, oldest first."""
        ...
