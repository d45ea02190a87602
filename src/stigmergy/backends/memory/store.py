"""A store that lives as long as its process, with the same journal, byte for byte, as one on disk."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from stigmergy.backends.facts import Fact, decode_facts
from stigmergy.backends.memory.state import MemoryView, State
from stigmergy.core import Clock
from stigmergy.core.journal import Line, encode_facts, print_header, print_line
from stigmergy.core.journal.format import checks, parse_header, parse_line
from stigmergy.operations.ports import Decide, Finding, View

T = TypeVar("T")


class MemoryJournal:
    """Lines of a journal, kept in a list; hand it to another store to open the same project again."""

    def __init__(self, *, project: str, at: int) -> None:
        self.lines = [print_header(kind="memory", project=project, at=at)[0]]

    def text(self) -> bytes:
        """The whole journal, as it would stand on disk."""
        return b"".join(self.lines)


class MemoryStore:
    """One project's store in memory."""

    def __init__(self, journal: MemoryJournal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._lock = threading.RLock()
        self._watchers: list[Callable[[], None]] = []
        self.rebuild()

    @property
    def project(self) -> str:
        """The project's id."""
        return self._project

    @contextmanager
    def read(self) -> Iterator[View]:
        """The store as of now."""
        with self._lock:
            yield self._view(max(self._clock.now(), self._at))

    def commit(self, decide: Decide[T]) -> T:
        """Change the store."""
        with self._lock:
            at = max(self._clock.now(), self._at)
            facts, answer = decide(self._view(at))
            if facts:
                self._append([*facts], at)
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
            self._state = State()
            self._sum, self._seq, self._at = header.sum, 0, 0
            self._size = len(self._journal.lines[0])
            for written in self._journal.lines[1:]:
                line = parse_line(written)
                self._apply(decode_facts(line.facts), line.at, line.sum, len(written))

    def close(self) -> None:
        """Nothing to let go of."""

    def _append(self, facts: list[Fact], at: int) -> None:
        written, checksum = print_line(self._sum, at=at, facts=encode_facts(facts), mark=self._size, seq=self._seq + 1)
        self._journal.lines.append(written)
        self._apply(facts, at, checksum, len(written))

    def _apply(self, facts: list[Fact], at: int, checksum: str, size: int) -> None:
        for fact in facts:
            self._state.apply(fact, at)
        self._sum, self._at = checksum, at
        self._seq += 1
        self._size += size

    def _view(self, as_of: int) -> MemoryView:
        return MemoryView(self._state, as_of, self._seq, self._size)
