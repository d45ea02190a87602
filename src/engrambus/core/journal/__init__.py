"""The journal: an append-only file of commits. It is the only truth; every index is rebuilt from it (decision 1)."""

from engrambus.core.journal.damage import Damage, find_damage, set_damage_aside
from engrambus.core.journal.file import Journal, JournalPosition, create_journal, read_header
from engrambus.core.journal.format import FORMAT, Line, encode_facts, encode_header, encode_line
from engrambus.core.journal.group import GroupCommit, Ticket
from engrambus.core.journal.line_reader import LineReader, position_after

__all__ = [
    "FORMAT",
    "Damage",
    "GroupCommit",
    "Journal",
    "JournalPosition",
    "Line",
    "LineReader",
    "Ticket",
    "create_journal",
    "encode_facts",
    "encode_header",
    "encode_line",
    "find_damage",
    "position_after",
    "read_header",
    "set_damage_aside",
]
