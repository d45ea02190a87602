"""What is true: pointers to evidence, and the receipts and bodies that prove it."""

from stigmergy.evidence import pointers, receipts

__all__ = ["pointers", "receipts"]
