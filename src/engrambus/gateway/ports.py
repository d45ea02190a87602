"""The store an operation works on: reads as of one moment, and one way to change anything.

A change is a function: it is called with a view of the store under the write lock and returns what happened (facts) and
what to answer. The back end writes the facts as one line of the journal, syncs it, and only then lets the answer out.
A function that raises changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from engrambus.gateway.tallies import TallyReads
from engrambus.knowledge.brief import BriefReads
from engrambus.knowledge.cortex import CortexReads
from engrambus.knowledge.engrams import EngramReads
from engrambus.knowledge.messages import MessageReads
from engrambus.policy import IdentityReads, TurnReads
from engrambus.policy.grants import GrantReads

if TYPE_CHECKING:
    from engrambus.core.journal import Line
    from engrambus.policy import Policy, Run

T = TypeVar("T")


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was answered under an idempotency key."""

    request: str
    """The digest of the request."""
    answer: bytes
    """The answer, as JSON."""


class RequestAnswered(msgspec.Struct, frozen=True, kw_only=True, tag="request.answered", tag_field="fact"):
    """A request with an idempotency key was carried out."""

    caller: str
    key: str
    request: str
    answer: msgspec.Raw


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How much a store holds."""

    commits: int
    journal_bytes: int
    runs: int
    agents: int
    engrams: int
    kinds: dict[str, int]


class View(
    IdentityReads, TurnReads, GrantReads, EngramReads, MessageReads, CortexReads, BriefReads, TallyReads, Protocol
):
    """A store as of one moment."""

    @property
    def as_of(self) -> int:
        """The moment, by the project's clock: never earlier than the last commit."""
        ...

    def policy(self) -> Policy:
        """The policy in force."""
        ...

    def runs(self, *, limit: int) -> list[Run]:
        """The runs opened last, newest first."""
        ...

    def remembered(self, caller: str, key: str) -> Remembered | None:
        """The answer once given to this caller under this idempotency key."""
        ...

    def counts(self) -> Counts:
        """How much there is."""
        ...


Decide = Callable[[View], tuple[Sequence[Any], T]]


class CortexFiles(Protocol):
    """Where the episodic store and the log of the shared cortex are written."""

    def note(self, line: str) -> None:
        """Add a line to the log."""
        ...

    def write_episodes(self, read: Callable[[], AbstractContextManager[CortexReads]]) -> None:
        """Write what is remembered and not yet in the store."""
        ...


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something `verify` found wrong."""

    what: str
    where: str


class Store(Protocol):
    """Everything one project knows."""

    @property
    def project(self) -> str:
        """The project's id."""
        ...

    def read(self) -> AbstractContextManager[View]:
        """The store as of now."""
        ...

    def commit(self, decide: Decide[T]) -> T:
        """Change the store; returns once the change is on the disk."""
        ...

    def last_line(self) -> int:
        """The number of the last line committed by anyone; cheap to ask when nothing is new."""
        ...

    def lines_after(self, seq: int, limit: int) -> list[Line]:
        """The committed lines of the journal that follow the line of that number, oldest first."""
        ...

    def watch(self, committed: Callable[[], None]) -> None:
        """Have a function called after every commit this process makes; it must be quick and must not raise."""
        ...

    def verify(self) -> list[Finding]:
        """Recompute every checksum and hold the index against a rebuild from the journal."""
        ...

    def rebuild(self) -> None:
        """Make the index anew from the journal."""
        ...

    def close(self) -> None:
        """Let go of every file."""
        ...
