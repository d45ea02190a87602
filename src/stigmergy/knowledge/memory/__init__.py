"""The memory controller: JSONL stores read the same way every time, within a budget."""

from typing import TYPE_CHECKING

from stigmergy.doors import opened_late

if TYPE_CHECKING:
    from stigmergy.knowledge.memory.blocks import Block, Texts, read_block, read_texts
    from stigmergy.knowledge.memory.controller import Reading, check_input, read_memory
    from stigmergy.knowledge.memory.facts import MemoryRead, MemoryReadData
    from stigmergy.knowledge.memory.ports import Stores
    from stigmergy.knowledge.memory.ranking import merge_runs
    from stigmergy.knowledge.memory.records import Record, normalise, print_moment, read_moment, read_record
    from stigmergy.knowledge.memory.rows import Store
    from stigmergy.knowledge.memory.scoring import Question, rank_block
    from stigmergy.knowledge.memory.trust import MAX_SNAPSHOT
    from stigmergy.knowledge.memory.values import (
        Budget,
        ContextPackage,
        Dropped,
        MemoryInput,
        Scoring,
        Selected,
        TrustFilter,
    )
else:
    __getattr__ = opened_late(
        __name__,
        {
            "blocks": "Block Texts read_block read_texts",
            "controller": "Reading check_input read_memory",
            "facts": "MemoryRead MemoryReadData",
            "ports": "Stores",
            "ranking": "merge_runs",
            "records": "Record normalise print_moment read_moment read_record",
            "rows": "Store",
            "scoring": "Question rank_block",
            "trust": "MAX_SNAPSHOT",
            "values": "Budget ContextPackage Dropped MemoryInput Scoring Selected TrustFilter",
        },
    )

__all__ = [
    "MAX_SNAPSHOT",
    "Block",
    "Budget",
    "ContextPackage",
    "Dropped",
    "MemoryInput",
    "MemoryRead",
    "MemoryReadData",
    "Question",
    "Reading",
    "Record",
    "Scoring",
    "Selected",
    "Store",
    "Stores",
    "Texts",
    "TrustFilter",
    "check_input",
    "merge_runs",
    "normalise",
    "print_moment",
    "rank_block",
    "read_block",
    "read_memory",
    "read_moment",
    "read_record",
    "read_texts",
]
