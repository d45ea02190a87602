"""The memory controller: JSONL stores read the same way every time, within a budget."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.knowledge.memory.blocks import Block, Texts, read_block, read_texts
    from engrambus.knowledge.memory.controller import Reading, check_input, read_memory
    from engrambus.knowledge.memory.facts import MemoryRead, MemoryReadData
    from engrambus.knowledge.memory.ports import Stores
    from engrambus.knowledge.memory.ranking import merge_runs
    from engrambus.knowledge.memory.records import Record, normalise, print_moment, read_moment, read_record
    from engrambus.knowledge.memory.rows import Store
    from engrambus.knowledge.memory.scoring import Question, rank_block
    from engrambus.knowledge.memory.trust import MAX_SNAPSHOT
    from engrambus.knowledge.memory.values import (
        Budget,
        ContextPackage,
        Dropped,
        MemoryInput,
        Scoring,
        Selected,
        TrustFilter,
    )

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
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
    })

__all__ = [
    "MAX_SNAPSHOT", "Block", "Budget", "ContextPackage", "Dropped", "MemoryInput", "MemoryRead", "MemoryReadData",
    "Question", "Reading", "Record", "Scoring", "Selected", "Store", "Stores", "Texts", "TrustFilter", "check_input",
    "merge_runs", "normalise", "print_moment", "rank_block", "read_block", "read_memory", "read_moment", "read_record",
    "read_texts",
]
