"""The memory controller: reads JSONL memory stores, the same way every time, within a token budget."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.knowledge.memory.controller import Stores, check_input, count_dropped, read_memory
    from engrambus.knowledge.memory.receipt import record_read
    from engrambus.knowledge.memory.records import (
        Record,
        Segment,
        StoreLine,
        normalise,
        parse_moment,
        print_moment,
        read_lines,
        read_record,
    )
    from engrambus.knowledge.memory.scoring import MAX_SNAPSHOT_BYTES, SNAPSHOT_FIELD
    from engrambus.knowledge.memory.values import (
        Budget,
        ContextPackage,
        Dropped,
        MemoryInput,
        MemoryRead,
        MemoryReadData,
        Scoring,
        Selected,
        TrustFilter,
    )

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "controller": "Stores check_input count_dropped read_memory",
        "receipt": "record_read",
        "records": "Record Segment StoreLine normalise parse_moment print_moment read_lines read_record",
        "scoring": "MAX_SNAPSHOT_BYTES SNAPSHOT_FIELD",
        "values": "Budget ContextPackage Dropped MemoryInput MemoryRead MemoryReadData Scoring Selected TrustFilter",
    })

__all__ = [
    "MAX_SNAPSHOT_BYTES", "SNAPSHOT_FIELD", "Budget", "ContextPackage", "Dropped", "MemoryInput", "MemoryRead",
    "MemoryReadData", "Record", "Scoring", "Segment", "Selected", "StoreLine", "Stores", "TrustFilter", "check_input",
    "count_dropped", "normalise", "parse_moment", "print_moment", "read_lines", "read_memory", "read_record",
    "record_read",
]
