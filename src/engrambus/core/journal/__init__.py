"""The journal: an append-only file of commits that is the whole truth; everything else is rebuilt from it."""

from engrambus.core.journal.damage import Damage, find_damage, set_damage_aside
from engrambus.core.journal.disk import sync_folder
from engrambus.core.journal.file import Journal, Place, create_journal, read_header
from engrambus.core.journal.format import FORMAT, Header, Line, encode_facts, print_header, print_line
from engrambus.core.journal.group import GroupCommit, Ticket
from engrambus.core.journal.rotate import begin_segment
from engrambus.core.journal.seek import place_after

__all__ = [
    "FORMAT",
    "Damage",
    "GroupCommit",
    "Header",
    "Journal",
    "Line",
    "Place",
    "Ticket",
    "begin_segment",
    "create_journal",
    "encode_facts",
    "find_damage",
    "place_after",
    "print_header",
    "print_line",
    "read_header",
    "set_damage_aside",
    "sync_folder",
]
