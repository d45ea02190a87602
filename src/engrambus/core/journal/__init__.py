"""The journal: an append-only file of commits. It is the only truth; every index is rebuilt from it (decision 1)."""

from engrambus.core.journal.damage import Damage, find_damage, set_damage_aside
from engrambus.core.journal.derived import derived_folder
from engrambus.core.journal.file import (
    Journal,
    JournalPosition,
    create_journal,
    encode_next,
    is_own_journal,
    read_header,
)
from engrambus.core.journal.foreign import foreign_journal
from engrambus.core.journal.format import FORMAT, UNMARKED_FORMAT, Line, encode_facts, encode_header, encode_line
from engrambus.core.journal.group import GroupCommit, Ticket
from engrambus.core.journal.key import JournalKey
from engrambus.core.journal.line_reader import LineReader, position_after
from engrambus.core.journal.moved import MovedNote, check_not_moved, note_moved
from engrambus.core.journal.salvage import JournalGap
from engrambus.core.journal.sync_failure import SyncFailure, read_note
from engrambus.core.journal.unkeyed import UnkeyedJournal
from engrambus.core.journal.vouch import ForeignJournal, vouch_for

__all__ = [
    "FORMAT",
    "UNMARKED_FORMAT",
    "Damage",
    "ForeignJournal",
    "GroupCommit",
    "Journal",
    "JournalGap",
    "JournalKey",
    "JournalPosition",
    "Line",
    "LineReader",
    "MovedNote",
    "SyncFailure",
    "Ticket",
    "UnkeyedJournal",
    "check_not_moved",
    "create_journal",
    "derived_folder",
    "encode_facts",
    "encode_header",
    "encode_line",
    "encode_next",
    "find_damage",
    "foreign_journal",
    "is_own_journal",
    "note_moved",
    "position_after",
    "read_header",
    "read_note",
    "set_damage_aside",
    "vouch_for",
]
