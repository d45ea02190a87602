"""The store an operation works on: reads as of one moment, and one way to change anything.

A change is a function (decision 1). It is called with a view of the store under the write lock, and returns facts and
an answer. The back end writes the facts as one line of the journal, and syncs it before it returns the answer. A
function that raises changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from engrambus.core import TimeReads
from engrambus.core.project_clock import TimedStore
from engrambus.gateway.tallies import TallyReads
from engrambus.knowledge.brief import BriefReads
from engrambus.knowledge.cortex import CortexReads
from engrambus.knowledge.engrams import EngramReads, ListingReads, PromotionReads, RecallReads, UseReads
from engrambus.knowledge.gate import GateReads
from engrambus.knowledge.messages import MessageReads
from engrambus.policy import IdentityReads, TokenReads, TurnReads
from engrambus.policy.grants import GrantReads
from engrambus.policy.reservations import ReservationReads

if TYPE_CHECKING:
    from engrambus.core.journal import Line
    from engrambus.policy import AppliedPolicy, Policy, Run

T = TypeVar("T")


class EarlierAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to an earlier request with the same idempotency key."""

    request: str
    """The digest of the request."""
    answer: bytes
    """The answer, as JSON."""


class RequestAnswered(msgspec.Struct, frozen=True, kw_only=True, tag="request.answered", tag_field="fact"):
    """The fact that a request with an idempotency key was answered."""

    caller: str
    key: str
    request: str
    answer: msgspec.Raw


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a store."""

    commits: int
    journal_bytes: int
    runs: int
    agents: int
    engrams: int
    kinds: dict[str, int]


class View(
    IdentityReads,
    TokenReads,
    TurnReads,
    GrantReads,
    ReservationReads,
    EngramReads,
    MessageReads,
    CortexReads,
    BriefReads,
    PromotionReads,
    UseReads,
    GateReads,
    ListingReads,
    RecallReads,
    TallyReads,
    TimeReads,
    Protocol,
):
    """A store as of one moment."""

    def first_us(self) -> int:
        """Return when the project's first run was opened; 0 if none was."""
        ...

    def policy(self) -> Policy:
        """The policy in force."""
        ...

    def applied_policies(self, *, limit: int) -> list[AppliedPolicy]:
        """Return the policies that were applied last, newest first; the first is in force."""
        ...

    def runs(self, *, limit: int, of_sessions: bool = False) -> list[Run]:
        """Return the newest runs that people opened, or those of client sessions; newest first."""
        ...

    def earlier_answer(self, caller: str, key: str) -> EarlierAnswer | None:
        """Return the answer this caller already got under this idempotency key."""
        ...

    def counts(self) -> Counts:
        """Return the size of the store."""
        ...


Decide = Callable[[View], tuple[Sequence[Any], T]]


class CortexFiles(Protocol):
    """The files of the shared cortex: the store of episodes, and a log."""

    def note(self, line: str) -> None:
        """Add a line to the log."""
        ...

    def write_episodes(
        self, read: Callable[[], AbstractContextManager[CortexReads]], *, to_be_read: bool = False
    ) -> None:
        """Append the episodes that the file does not have yet; check all of it if it is to be read."""
        ...

    def find_difference(self, read: Callable[[], AbstractContextManager[CortexReads]]) -> str | None:
        """Explain how the file differs from the store's episodes; None if it does not."""
        ...

    def rewrite_episodes(self, read: Callable[[], AbstractContextManager[CortexReads]]) -> None:
        """Write the file again from the start."""
        ...


class CacheFiles(Protocol):
    """Files that can be deleted at any time: what is in them is worked out again."""

    def find_damaged(self) -> Iterator[tuple[Path, str]]:
        """Yield each file that does not check by itself, and what is wrong with it."""
        ...

    def remove(self, path: Path) -> None:
        """Delete one of these files."""
        ...


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that `verify` found wrong, where, and what to do about it."""

    what: str
    where: str
    """The file, as it is called in the project's folder of private files."""
    is_copy: bool = False
    """True if the file is made from the journals or from git: `verify --repair` makes it again."""
    repaired: bool = False
    hint: str = ""
    """What to do next, where a repair is not possible."""


class Store(TimedStore, Protocol):
    """The store of one project, or of one shared scope."""

    @property
    def project(self) -> str:
        """The project's id."""
        ...

    def read(self) -> AbstractContextManager[View]:
        """Open a view of the store as of now."""
        ...

    def commit(self, decide: Decide[T]) -> T:
        """Change the store; return once the change is on the disk."""
        ...

    def last_line(self) -> int:
        """Return the number of the last line committed by any process; cheap when nothing is new."""
        ...

    def lines_after(self, seq: int, limit: int) -> list[Line]:
        """Return the committed lines of the journal after the line of that number, oldest first."""
        ...

    def watch(self, committed: Callable[[], None]) -> None:
        """Call a function after every commit of this process; it must be quick and must not raise."""
        ...

    def verify(self) -> list[Finding]:
        """Recompute every checksum, and compare the index with a rebuild from the journal."""
        ...

    def rebuild(self) -> None:
        """Rebuild the index from the journal."""
        ...

    def close(self) -> None: ...
