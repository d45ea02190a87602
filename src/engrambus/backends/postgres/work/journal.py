"""The lines of a project's work journal in the table `journal`, byte for byte as they are in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from engrambus.backends.postgres.connections import Database, Session
from engrambus.backends.postgres.work.database import PostgresWorkDatabase, work_queries
from engrambus.backends.postgres.work.state import save_state
from engrambus.backends.sql.work.projection import WorkProjection
from engrambus.backends.sql.work.state import WorkIndexState
from engrambus.core.journal import JournalKey, JournalPosition, Line, encode_header, encode_line
from engrambus.core.journal.format import is_marked_line, is_valid_line, parse_header, parse_line
from engrambus.core.project_clock import Stamp, follow
from engrambus.errors import JournalDamaged, JournalMissing

KIND = "tuples"
LINES_PER_READ = 500


class WorkJournal:
    """The lines of one project."""

    def __init__(self, key: JournalKey, project_id: str) -> None:
        self._key = key.line_key(kind=KIND, project=project_id)
        self._project_id = project_id

    def create(self, database: Database, project: int, now_us: int) -> None:
        """Write the header of a new journal; leave an existing one alone."""
        header, _ = encode_header(self._key, kind=KIND, project=self._project_id, now_us=now_us)
        with database.writing(project, work_queries()) as session:
            session.execute(work_queries()["insert_header"], (header,))

    def lock(self, session: Session) -> None:
        """Wait for whoever else makes the tables."""
        session.execute(work_queries()["lock_journal"])

    def line(self, session: Session, seq: int) -> bytes | None:
        """Return the text of a line; None if there is none of that number."""
        row = session.execute(work_queries()["journal_line"], (seq,)).fetchone()
        return None if row is None else bytes(row[0])

    def last_line(self, session: Session) -> int:
        """Return the number of the last line; the header is 0."""
        (seq,) = session.execute(work_queries()["last_journal_line"]).fetchone()
        return int(seq or 0)

    def lines_after(self, session: Session, seq: int, limit: int) -> list[Line]:
        """Return the lines after line number `seq`."""
        rows = session.execute(work_queries()["journal_lines"], (seq, limit)).fetchall()
        return [parse_line(text) for _, text in rows]

    def append(self, session: Session, seq: int, lines: Sequence[bytes]) -> None:
        """Write lines, numbered from `seq` on."""
        numbers = [*range(seq, seq + len(lines))]
        session.execute(work_queries()["insert_lines"], (numbers, [*lines]))

    def encode(
        self, position: JournalPosition, *, stamp: Stamp, facts: bytes, mark: int
    ) -> tuple[bytes, JournalPosition]:
        """Return the line behind a position, and the position behind that line."""
        seq = position.seq + 1
        line, checksum = encode_line(self._key, position.checksum, stamp=stamp, facts=facts, mark=mark, seq=seq)
        behind = JournalPosition(
            offset=position.offset + len(line),
            seq=seq,
            checksum=checksum,
            at_us=stamp.at_us,
            clock=follow(position.clock, stamp),
        )
        return line, behind

    def start(self, session: Session) -> JournalPosition:
        """Return the position behind the header."""
        text = self.line(session, 0)
        if text is None:
            raise JournalMissing(f"The database has no work journal of project {self._project_id}.")
        header = parse_header(text)
        return JournalPosition(offset=len(text), seq=0, checksum=header.checksum, at_us=0)

    def read(self, session: Session, position: JournalPosition) -> Iterator[tuple[Line, bytes, JournalPosition]]:
        """Yield the lines behind a position, each with the position behind it; refuse one that was changed."""
        while True:
            rows = session.execute(work_queries()["journal_lines"], (position.seq, LINES_PER_READ)).fetchall()
            for seq, text in rows:
                position = self._check(seq, text, position)
                yield parse_line(text), text, position
            if len(rows) < LINES_PER_READ:
                return

    def replay(
        self, session: Session, state: WorkIndexState, decode: Callable[[bytes], Sequence[Any]]
    ) -> WorkIndexState:
        """Apply the lines that the tables lack."""
        for line, _, behind in self.read(session, state.position):
            # A projection for each line: what it has gathered is written before the next is read.
            projection = WorkProjection(PostgresWorkDatabase(session), state)
            for fact in decode(line.facts):
                projection.apply(fact, line.at_us)
            projection.end_batch()
            state.position = behind
            state.synced_bytes = behind.offset
        WorkProjection(PostgresWorkDatabase(session), state).finish()
        save_state(session, state)
        return state

    def _check(self, seq: int, text: bytes, before: JournalPosition) -> JournalPosition:
        if seq != before.seq + 1 or not is_valid_line(before.checksum, text):
            raise JournalDamaged(f"Line {before.seq + 1} of the work journal is missing or was changed.")
        if not is_marked_line(self._key, before.checksum, text):
            raise JournalDamaged(f"Line {seq} of the work journal was not written with this project's key.")
        line = parse_line(text)
        return JournalPosition(
            offset=before.offset + len(text),
            seq=seq,
            checksum=line.checksum,
            at_us=line.at_us,
            clock=follow(before.clock, line.stamp),
        )
