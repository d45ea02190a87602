"""Moving a project from files into a database: line by line, resumable, compared in the end (decision 125).

Lines are copied under another name, where nobody looks for a journal, a page in a transaction. When all are there and
nobody writes to the files any more, one transaction gives them their name and makes the tables.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Protocol

from engrambus.backends.postgres.connections import Database, ProjectSession
from engrambus.backends.postgres.journal import PostgresJournal
from engrambus.core.journal import JournalKey, JournalPosition, Line
from engrambus.errors import JournalDamaged, MoveInterrupted, ProjectElsewhere

PAGE_LINES = 1000
_ARRIVING = "{0} arriving"
"""Name of a journal that is not whole yet."""
OnLines = Callable[[int], None]


class LineSource(Protocol):
    """A journal whose lines are read."""

    def lines_after(self, seq: int, limit: int) -> list[Line]:
        """Return the committed lines after line number `seq`."""
        ...


class ArrivingJournal:
    """One journal of a project on its way into a database."""

    def __init__(self, database: Database, number: int, key: JournalKey, *, kind: str, project: str) -> None:
        self._database, self._number = database, number
        self.kind = kind
        self._journal = PostgresJournal(key, kind, project, database.name, stored_as=_ARRIVING.format(kind))
        self._arrived = PostgresJournal(key, kind, project, database.name)

    def begin(self, now_us: int) -> bool:
        """Write the first line, unless an earlier attempt has; return False if the journal is there already."""
        with self._database.writing(self._number, {}) as session:
            if self._arrived.header(session) is not None:
                return False
            self._journal.create(session, now_us)
        return True

    def copy(self, source: LineSource, on_lines: OnLines) -> int:
        """Copy the lines that are missing; return the number of the last. What is there is compared first."""
        with self._database.reading(self._number, {}) as session:
            end = self._compare(session, source, on_lines)
        while page := source.lines_after(end.seq, PAGE_LINES):
            with self._database.writing(self._number, {}) as session:
                self._journal.lock(session)
                end = self._append(session, end, page)
            on_lines(end.seq)
        return end.seq

    def arrive(self, session: ProjectSession) -> None:
        """Give the journal its name."""
        self._journal.rename(session, self.kind)

    def check_arrived(self, source: LineSource) -> int:
        """Compare the journal under its name with the source, line for line; return the number of lines."""
        with self._database.reading(self._number, {}) as session:
            ours = _digest(line for line, _ in self._arrived.read(session, self._arrived.start(session)))
        theirs = _digest(_lines(source))
        if ours != theirs:
            raise ProjectElsewhere(
                f"{self._database.name} has another history of '{self.kind}': {ours[0]} lines there, {theirs[0]} here.",
                field="to",
                hint="It was moved or created there before. Set ENGRAMBUS_STORE to use it, or move to another one.",
            )
        return ours[0]

    def _compare(self, session: ProjectSession, source: LineSource, on_lines: OnLines) -> JournalPosition:
        """Check the lines that an earlier attempt has copied; return the position behind them."""
        end, expected = self._journal.start(session), _lines(source)
        for line, behind in self._journal.read(session, end):
            other = next(expected, None)
            if other is None or _content(other) != _content(line):
                raise MoveInterrupted(
                    f"Line {line.seq} of '{self.kind}' that an earlier move has copied is not that of the files.",
                    field="to",
                    used=line.seq,
                    hint="Take back what it has copied and begin again: engrambus move --to URL --restart.",
                )
            end = behind
            if end.seq % PAGE_LINES == 0:
                on_lines(end.seq)
        return end

    def _append(self, session: ProjectSession, end: JournalPosition, page: list[Line]) -> JournalPosition:
        first, texts = end.seq + 1, []
        for line in page:
            if line.seq != end.seq + 1:
                raise JournalDamaged(f"Line {end.seq + 1} of '{self.kind}' is missing.", used=end.seq + 1)
            text, end = self._journal.encode(end, stamp=line.stamp, facts=line.facts, mark=end.offset)
            texts.append(text)
        self._journal.append(session, first, texts)
        return end


def forget_arriving(database: Database, number: int) -> None:
    """Take back what moves that did not end have copied."""
    with database.writing(number, {}) as session:
        session.execute("DELETE FROM journal WHERE kind LIKE $1", (_ARRIVING.format("%"),))


def _lines(source: LineSource) -> Iterator[Line]:
    seq = 0
    while page := source.lines_after(seq, PAGE_LINES):
        yield from page
        seq = page[-1].seq


def _content(line: Line) -> tuple[object, ...]:
    return line.seq, line.at_us, tuple(line.stamp), line.facts


def _digest(lines: Iterator[Line]) -> tuple[int, str]:
    """Return the number of lines and a digest of what they say."""
    running, count = hashlib.sha256(), 0
    for line in lines:
        running.update(repr(_content(line)).encode())
        count = line.seq
    return count, running.hexdigest()
