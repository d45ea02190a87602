"""Receipts: what was done, the bodies it left, and what a result is found again by."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.evidence.receipts.cas import BodyStore
    from engrambus.evidence.receipts.folder import ReceiptFolder
    from engrambus.evidence.receipts.gc import DAY, Body, Purge, Survey, Why, led_to
    from engrambus.evidence.receipts.inputs import cache_key, input_hash
    from engrambus.evidence.receipts.junit import MAX_REPORT, Case, Report, read_report
    from engrambus.evidence.receipts.statements import statement
    from engrambus.evidence.receipts.values import (
        EMPTY,
        JUNIT,
        Artifact,
        Cost,
        Receipt,
        bodies_of,
        receipt_id,
        result_sha,
        seal,
    )

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "cas": "BodyStore",
        "folder": "ReceiptFolder",
        "gc": "DAY Body Purge Survey Why led_to",
        "inputs": "cache_key input_hash",
        "junit": "MAX_REPORT Case Report read_report",
        "statements": "statement",
        "values": "EMPTY JUNIT Artifact Cost Receipt bodies_of receipt_id result_sha seal",
    })

__all__ = [
    "DAY", "EMPTY", "JUNIT", "MAX_REPORT", "Artifact", "Body", "BodyStore", "Case", "Cost", "Purge", "Receipt",
    "ReceiptFolder", "Report", "Survey", "Why", "bodies_of", "cache_key", "input_hash", "led_to", "read_report",
    "receipt_id", "result_sha", "seal", "statement",
]
