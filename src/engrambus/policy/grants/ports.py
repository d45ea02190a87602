"""The reads that grant rules need from a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from engrambus.policy.facts import DerefRequested
from engrambus.policy.grants.facts import GrantIssued
from engrambus.policy.identity import IdentityView


class BlockSpending(msgspec.Struct, frozen=True, kw_only=True):
    """Total of what was charged to a block."""

    tokens: int = 0
    uses: int = 0


NOTHING_SPENT = BlockSpending()


class StoredRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to read more, and its answer."""

    request: DerefRequested
    answered: bool
    grant_id: str | None = None
    """The grant that approved it."""


class GrantReads(Protocol):
    """Reads of grants, of what was charged to them, and of requests for them."""

    def grant(self, run_id: str, grant_id: str) -> GrantIssued | None:
        """Return the grant with this id in the run."""
        ...

    def grants_for(self, run_id: str, child: str) -> list[GrantIssued]:
        """Return all grants of a run that an agent holds, oldest first."""
        ...

    def grants_of(self, run_id: str, agent: str | None, *, before: str | None, limit: int) -> list[GrantIssued]:
        """Return grants of a run that an agent holds or issued, or everyone's, newest first.

        `before` is the id of a grant: only grants issued earlier are returned.
        """
        ...

    def spent(self, block_ids: Sequence[str]) -> dict[str, BlockSpending]:
        """Return what was charged to each of these blocks."""
        ...

    def revoked(self, block_ids: Sequence[str]) -> set[str]:
        """Return the ids of those blocks that were revoked."""
        ...

    def request(self, run_id: str | None, request_id: str) -> StoredRequest | None:
        """Return the request with this id in the run, or in any run if it is None."""
        ...

    def open_requests(self, run_id: str | None) -> list[StoredRequest]:
        """Return all unanswered requests of a run, or of every run if it is None, oldest first."""
        ...


class GrantView(IdentityView, GrantReads, Protocol):
    """The store at one moment, as the rules about grants read it."""
