"""Receipts: what was done, and the bodies it left."""

from stigmergy.evidence.receipts.cas import BodyStore

__all__ = ["BodyStore"]
