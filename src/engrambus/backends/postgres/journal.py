"""A journal in a table: the lines of a journal on disk, byte for byte, one row each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from engrambus.backends.postgres.connections import ProjectSession
from engrambus.core import Stamp
from engrambus.core.journal import JournalKey, JournalPosition, Line, encode_header, encode_next
from engrambus.core.journal.format import Header, is_marked_line, is_valid_line, parse_header, parse_line
from engrambus.core.project_clock import follow
from engrambus.errors import JournalDamaged, JournalForeign

READ_LINES = 1000
"""Lines that are read at once."""
_INSERT = "INSERT INTO journal (kind, seq, line) VALUES ($1, $2, $3)"
_INSERT_HEADER = f"{_INSERT} ON CONFLICT DO NOTHING"
_HEADER = "SELECT line FROM journal WHERE kind = $1 AND seq = 0"
_LOCK = f"{_HEADER} FOR UPDATE"
_LINES = "SELECT seq, line FROM journal WHERE kind = $1 AND seq > $2 ORDER BY seq LIMIT $3"
_CHECKSUM = "SELECT line FROM journal WHERE kind = $1 AND seq = $2"


class PostgresJournal:
    """The journal of one kind of one project. Its lines are read and written inside others' transactions."""

    def __init__(self, key: JournalKey, kind: str, project: str, name: str, *, stored_as: str | None = None) -> None:
        """`name` says in messages where the journal is; `stored_as` is its name in the table, if it is not the kind."""
        self.kind = kind
        self._stored_as = stored_as or kind
        self.where = f"journal '{kind}' in {name}"
        self._project = project
        self._line_key = key.line_key(kind=kind, project=project)

    def create(self, session: ProjectSession, now_us: int) -> None:
        """Write the first line, unless there is one."""
        line, _ = encode_header(self._line_key, kind=self.kind, project=self._project, now_us=now_us)
        session.execute(_INSERT_HEADER, (self._stored_as, 0, line))

    def header(self, session: ProjectSession) -> tuple[Header, bytes] | None:
        """Return the first line, parsed and as it is; None if there is none. Refuse one of another key."""
        row: Any = session.execute(_HEADER, (self._stored_as,)).fetchone()
        if row is None:
            return None
        (line,) = row
        header = parse_header(line)
        if header.project != self._project or not is_marked_line(self._line_key, header.after, line):
            raise JournalForeign(
                f"The {self.where} was not written with the key of this project on this machine. Nothing of it was "
                "used.",
                hint="Bring the keys from a machine that has them: engrambus keys export, engrambus keys import.",
            )
        return header, line

    def start(self, session: ProjectSession) -> JournalPosition:
        """Return the position behind the first line."""
        first = self.header(session)
        if first is None:
            raise JournalDamaged(f"The {self.where} has no first line.")
        header, line = first
        return JournalPosition(offset=len(line), seq=0, checksum=header.checksum, at_us=0)

    def lock(self, session: ProjectSession) -> None:
        """Wait until no other transaction holds this journal, and hold it until the end of this one."""
        session.execute(_LOCK, (self._stored_as,)).fetchone()

    def rename(self, session: ProjectSession, name: str) -> None:
        """Store every line under another name from now on."""
        session.execute("UPDATE journal SET kind = $1 WHERE kind = $2", (name, self._stored_as))
        self._stored_as = name

    def encode(self, end: JournalPosition, *, stamp: Stamp, facts: bytes, mark: int) -> tuple[bytes, JournalPosition]:
        """Return the line of a commit that follows the position `end`, and the position behind it."""
        return encode_next(self._line_key, end, stamp=stamp, facts=facts, mark=mark)

    def append(self, session: ProjectSession, first: int, lines: Sequence[bytes]) -> None:
        """Add lines, of which the first has that number."""
        rows = [(self._stored_as, first + number, line) for number, line in enumerate(lines)]
        session.executemany(_INSERT, rows)

    def read_after(self, session: ProjectSession, seq: int, limit: int) -> list[Line]:
        """Return the lines after line number `seq`, without checking them."""
        rows: Any = session.execute(_LINES, (self._stored_as, seq, limit))
        return [parse_line(line) for _, line in rows]

    def holds(self, session: ProjectSession, position: JournalPosition) -> bool:
        """True if the line before a position is in the journal."""
        row: Any = session.execute(_CHECKSUM, (self._stored_as, position.seq)).fetchone()
        return row is not None and row[0].rstrip().endswith(f'"sum":"{position.checksum}"}}'.encode())

    def read(self, session: ProjectSession, position: JournalPosition) -> Iterator[tuple[Line, JournalPosition]]:
        """Yield the lines after a position, each with the position behind it; refuse one that is not right."""
        while True:
            rows: list[Any] = session.execute(_LINES, (self._stored_as, position.seq, READ_LINES)).fetchall()
            for seq, text in rows:
                line, position = self._check(seq, text, position)
                yield line, position
            if len(rows) < READ_LINES:
                return

    def _check(self, seq: int, text: bytes, before: JournalPosition) -> tuple[Line, JournalPosition]:
        """Parse a line, if it is the one that follows a position and was written with our key."""
        if seq != before.seq + 1 or not is_valid_line(before.checksum, text):
            raise JournalDamaged(
                f"The {self.where} is damaged at line {before.seq + 1}.",
                used=before.seq + 1,
                hint="Restore the database from a copy.",
            )
        if not is_marked_line(self._line_key, before.checksum, text):
            raise JournalForeign(
                f"Line {seq} of the {self.where} was not written with the key of this project. Nothing was used.",
                used=seq,
                hint="Restore the database from a copy; find out who else can write to it.",
            )
        line = parse_line(text)
        return line, JournalPosition(
            offset=before.offset + len(text),
            seq=seq,
            checksum=line.checksum,
            at_us=line.at_us,
            clock=follow(before.clock, line.stamp),
        )
