"""The memory controller: reads JSONL memory stores, the same way every time, within a token budget."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.knowledge.memory.controller import RecordStore, Stores, count_dropped, read_memory
    from engrambus.knowledge.memory.ranking import RankedRecords
    from engrambus.knowledge.memory.receipt import record_read
    from engrambus.knowledge.memory.records import Segment, StoreLine, normalise, read_lines
    from engrambus.knowledge.memory.scoring import MAX_SNAPSHOT_BYTES, SNAPSHOT_FIELD
    from engrambus.knowledge.memory.values import (
        Budget,
        ContextPackage,
        MemoryInput,
        MemoryRead,
        MemoryReadData,
        Scoring,
        TrustFilter,
    )

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "controller": "RecordStore Stores count_dropped read_memory",
        "ranking": "RankedRecords",
        "receipt": "record_read",
        "records": "Segment StoreLine normalise read_lines",
        "scoring": "MAX_SNAPSHOT_BYTES SNAPSHOT_FIELD",
        "values": "Budget ContextPackage MemoryInput MemoryRead MemoryReadData Scoring TrustFilter",
    })

__all__ = [
    "MAX_SNAPSHOT_BYTES", "SNAPSHOT_FIELD", "Budget", "ContextPackage", "MemoryInput", "MemoryRead", "MemoryReadData",
    "RankedRecords", "RecordStore", "Scoring", "Segment", "StoreLine", "Stores", "TrustFilter", "count_dropped",
    "normalise", "read_lines", "read_memory", "record_read",
]
