"""A store that lives as long as its process, with the same journal, byte for byte, as one on disk."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from engrambus.backends.facts import Fact, decode_facts
from engrambus.backends.memory.state import MemoryView, State
from engrambus.core import Clock, ProjectClock
from engrambus.core.journal import Line, encode_facts, print_header, print_line
from engrambus.core.journal.format import checks, parse_header, parse_line
from engrambus.gateway.ports import Decide, Finding, View

T = TypeVar("T")
V = TypeVar("V")


class MemoryJournal:
    """Lines of a journal, kept in a list; hand it to another store to open the same project again."""

    def __init__(self, *, project: str, at: int, kind: str = "memory") -> None:
        self.lines = [print_header(kind=kind, project=project, at=at)[0]]

    def text(self) -> bytes:
        """The whole journal, as it would stand on disk."""
        return b"".join(self.lines)


class MemoryLog(ABC, Generic[V]):
    """A journal in memory and what it adds up to, whatever that is: `V` is how it is looked at."""

    def __init__(self, journal: MemoryJournal, clock: Clock) -> None:
        self._journal = journal
        self._clock = ProjectClock(clock)
        self._lock = threading.RLock()
        self._watchers: list[Callable[[], None]] = []
        self.rebuild()

    @property
    def project(self) -> str:
        """The project's id."""
        return self._project

    @contextmanager
    def read(self) -> Iterator[V]:
        """The store as of now."""
        with self._lock:
            yield self._view(self._clock.now(self._at))

    def _commit(self, decide: Callable[[V], tuple[Sequence[Any], T]], *, synced: bool = True) -> T:
        with self._lock:
            at = self._clock.now(self._at)
            facts, answer = decide(self._view(at))
            if facts:
                self._append([*facts], at)
                if synced or self._lasts(facts):
                    self._synced = self._size
        for committed in self._watchers:
            committed()
        return answer

    def last_line(self) -> int:
        """The number of the last line."""
        with self._lock:
            return self._seq

    def lines_after(self, seq: int, limit: int) -> list[Line]:
        """The lines that follow the line of that number."""
        with self._lock:
            written = self._journal.lines[seq + 1 : seq + 1 + limit]
        return [parse_line(each) for each in written]

    def watch(self, committed: Callable[[], None]) -> None:
        """Have a function called after every commit."""
        self._watchers.append(committed)

    def verify(self) -> list[Finding]:
        """Recompute every checksum."""
        previous = ""
        for number, written in enumerate(self._journal.lines):
            if not checks(previous, written):
                return [Finding(what="checksum", where=f"line {number + 1}")]
            previous = parse_line(written).sum if number else parse_header(written).sum
        return []

    def rebuild(self) -> None:
        """Read the journal from its beginning."""
        with self._lock:
            header = parse_header(self._journal.lines[0])
            self._project = header.project
            self._begin()
            self._sum, self._seq, self._at = header.sum, 0, 0
            self._size = len(self._journal.lines[0])
            for written in self._journal.lines[1:]:
                line = parse_line(written)
                self._apply(self._decode(line.facts), line.at, line.sum, len(written))
            self._synced = self._size

    def close(self) -> None:
        """Nothing to let go of."""

    def _lasts(self, facts: Sequence[Any]) -> bool:  # most have nothing that does
        """Whether what happened is synced though nobody asked for that."""
        return False

    @abstractmethod
    def _begin(self) -> None:
        """Let nothing have happened yet."""

    @abstractmethod
    def _decode(self, facts: bytes) -> Sequence[Any]:
        """A line's facts."""

    @abstractmethod
    def _happened(self, fact: Any, at: int) -> None:
        """Let one fact have happened."""

    @abstractmethod
    def _view(self, as_of: int) -> V:
        """Everything, as of a moment."""

    def _append(self, facts: list[Any], at: int) -> None:
        written, checksum = print_line(
            self._sum, at=at, facts=encode_facts(facts), mark=self._synced, seq=self._seq + 1
        )
        self._journal.lines.append(written)
        self._apply(facts, at, checksum, len(written))

    def _apply(self, facts: Sequence[Any], at: int, checksum: str, size: int) -> None:
        for fact in facts:
            self._happened(fact, at)
        self._sum, self._at = checksum, at
        self._seq += 1
        self._size += size


class MemoryStore(MemoryLog[View]):
    """One project's store in memory."""

    def commit(self, decide: Decide[T]) -> T:
        """Change the store."""
        return self._commit(decide)

    def _begin(self) -> None:
        self._state = State()

    def _decode(self, facts: bytes) -> Sequence[Fact]:
        return decode_facts(facts)

    def _happened(self, fact: Fact, at: int) -> None:
        self._state.apply(fact, at)

    def _view(self, as_of: int) -> View:
        return MemoryView(self._state, as_of, self._seq, self._size)
