"""Receipts: what was done, the bodies it left, and what a result is found again by."""

from stigmergy.evidence.receipts.cas import BodyStore
from stigmergy.evidence.receipts.folder import ReceiptFolder
from stigmergy.evidence.receipts.inputs import cache_key, input_hash
from stigmergy.evidence.receipts.statement import statement
from stigmergy.evidence.receipts.values import (
    EMPTY,
    MICROS,
    Artifact,
    Cost,
    Receipt,
    bodies_of,
    receipt_id,
    result_sha,
    seal,
)

__all__ = [
    "EMPTY",
    "MICROS",
    "Artifact",
    "BodyStore",
    "Cost",
    "Receipt",
    "ReceiptFolder",
    "bodies_of",
    "cache_key",
    "input_hash",
    "receipt_id",
    "result_sha",
    "seal",
    "statement",
]
