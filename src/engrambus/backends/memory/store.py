"""A store that lives as long as its process, with the same journal, byte for byte, as one on disk."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

from engrambus.backends.facts import decode_facts
from engrambus.backends.memory.state import KnowledgeState
from engrambus.core import Clock, ProjectClock, ProjectTime, Stamp
from engrambus.core.journal import JournalKey, Line, encode_facts, encode_header, encode_line
from engrambus.core.journal.format import is_valid_line, parse_header, parse_line
from engrambus.core.project_clock import ClockChange, ClockMark, ClockState, follow
from engrambus.gateway.ports import Finding, View

T = TypeVar("T")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)


class MemoryJournal:
    """The lines of a journal in a list. Pass it to another store to open the same project again."""

    def __init__(self, key: JournalKey, *, project: str, now_us: int, kind: str = "memory") -> None:
        self.line_key = key.line_key(kind=kind, project=project)
        self.lines = [encode_header(self.line_key, kind=kind, project=project, now_us=now_us)[0]]

    def text(self) -> bytes:
        """Return the journal as it would be on disk."""
        return b"".join(self.lines)


class MemoryState(Protocol[V_co]):
    """The state that the facts of a journal add up to."""

    def apply(self, fact: Any, at_us: int) -> None:
        """Apply one fact of a commit made at `at_us`."""
        ...

    def view(self, time: ProjectTime, *, commits: int, journal_bytes: int) -> V_co:
        """Return a view of the state as of a moment."""
        ...


def _never(facts: Sequence[Any]) -> bool:
    return False


class JournalledStore(Generic[V]):
    """A store that has a journal in memory and the state it adds up to; `V` is the view callers get.

    `must_sync` says of facts that they are synced even when the caller passed `synced=False`: nothing is synced here,
    but the mark of the next line says what would have been.
    """

    def __init__(
        self,
        journal: MemoryJournal,
        clock: Clock,
        *,
        new_state: Callable[[], MemoryState[V]],
        decode: Callable[[bytes], Sequence[Any]],
        must_sync: Callable[[Sequence[Any]], bool] = _never,
    ) -> None:
        self._journal = journal
        self._clock = ProjectClock(clock)
        self._new_state = new_state
        self._decode = decode
        self._must_sync = must_sync
        self._lock = threading.RLock()
        self._watchers: list[Callable[[], None]] = []
        self.rebuild()

    @property
    def project(self) -> str:
        """The project's id."""
        return self._project

    @contextmanager
    def read(self) -> Iterator[V]:
        """Open a view of the store as of now."""
        with self._lock:
            yield self._view(self._clock.read_time(self._at_us, self._clock_mark))

    def commit(self, decide: Callable[[V], tuple[Sequence[Any], T]], *, synced: bool = True) -> T:
        """Change the store and return the change's answer."""
        with self._lock:
            time = self._clock.commit_time(self._at_us, self._clock_mark)
            facts, answer = decide(self._view(time))
            if facts:
                self._append([*facts], time.stamp)
                if synced or self._must_sync(facts):
                    self._synced_bytes = self._size_bytes
        for on_commit in self._watchers:  # outside the lock: a watcher may read the store
            on_commit()
        return answer

    def last_line(self) -> int:
        """Return the number of the last line."""
        with self._lock:
            return self._seq

    def lines_after(self, seq: int, limit: int) -> list[Line]:
        """Return the lines after line number `seq`."""
        with self._lock:
            lines = self._journal.lines[seq + 1 : seq + 1 + limit]
        return [parse_line(line) for line in lines]

    def watch(self, on_commit: Callable[[], None]) -> None:
        """Have a function called after every commit."""
        self._watchers.append(on_commit)

    def verify(self) -> list[Finding]:
        """Recompute every checksum."""
        previous = ""
        for number, text in enumerate(self._journal.lines):
            if not is_valid_line(previous, text):
                return [Finding(what="checksum", where=f"line {number + 1}")]
            previous = parse_line(text).checksum if number else parse_header(text).checksum
        return []

    def rebuild(self) -> None:
        """Read the journal from its beginning."""
        with self._lock:
            header = parse_header(self._journal.lines[0])
            self._project = header.project
            self._state = self._new_state()
            self._checksum, self._seq, self._at_us = header.checksum, 0, 0
            self._clock_mark: ClockMark | None = None
            self._size_bytes = len(self._journal.lines[0])
            for text in self._journal.lines[1:]:
                line = parse_line(text)
                self._apply(self._decode(line.facts), line.stamp, line.checksum, len(text))
            self._synced_bytes = self._size_bytes

    def record_time(self, moment_us: int) -> None:
        """Commit the time if it has come to a moment that the last line is before."""
        with self._lock:
            time = self._clock.read_time(self._at_us, self._clock_mark)
            if self._at_us < moment_us <= time.expiry_us:
                self._append([], time.stamp)
                self._synced_bytes = self._size_bytes

    def clock_state(self) -> ClockState:
        """Return how the machine's clock and the journal's last time stand to each other."""
        with self._lock:
            return self._clock.state(self._at_us, self._clock_mark)

    def set_time(self, change: ClockChange) -> None:
        """Take the machine's time, even if the journal is ahead of it."""
        with self._lock:
            self._append([change], self._clock.machine_stamp())
            self._synced_bytes = self._size_bytes

    def close(self) -> None:
        """Do nothing: no file is open."""

    def _view(self, time: ProjectTime) -> V:
        return self._state.view(time, commits=self._seq, journal_bytes=self._size_bytes)

    def _append(self, facts: list[Any], stamp: Stamp) -> None:
        text = encode_facts(facts)
        line, checksum = encode_line(
            self._journal.line_key,
            self._checksum,
            stamp=stamp,
            facts=text,
            mark=self._synced_bytes,
            seq=self._seq + 1,
        )
        self._journal.lines.append(line)
        self._apply(facts, stamp, checksum, len(line))

    def _apply(self, facts: Sequence[Any], stamp: Stamp, checksum: str, size_bytes: int) -> None:
        for fact in facts:
            self._state.apply(fact, stamp.at_us)
        self._checksum, self._at_us = checksum, stamp.at_us
        self._clock_mark = follow(self._clock_mark, stamp)
        self._seq += 1
        self._size_bytes += size_bytes


class MemoryStore(JournalledStore[View]):
    """The knowledge store of one project in memory."""

    def __init__(self, journal: MemoryJournal, clock: Clock) -> None:
        super().__init__(journal, clock, new_state=KnowledgeState, decode=decode_facts)
