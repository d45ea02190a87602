"""The journal: an append-only file of commits that is the whole truth; everything else is rebuilt from it."""

from stigmergy.core.journal.damage import Damage, find_damage, set_damage_aside
from stigmergy.core.journal.disk import sync_folder
from stigmergy.core.journal.file import Journal, Place, create_journal, read_header
from stigmergy.core.journal.format import FORMAT, Header, Line, encode_facts, print_header, print_line
from stigmergy.core.journal.group import GroupCommit, Ticket
from stigmergy.core.journal.rotate import begin_segment
from stigmergy.core.journal.seek import place_after

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
