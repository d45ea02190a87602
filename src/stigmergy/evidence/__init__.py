"""What is true: pointers to evidence, and the receipts and bodies that prove it."""

from stigmergy.evidence import anchoring, pointers, receipts

__all__ = ["anchoring", "pointers", "receipts"]
