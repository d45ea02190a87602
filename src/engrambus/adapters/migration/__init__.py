"""Shims for moving an existing orchestrator onto the bus, one reversible step after the other (`docs/migration.md`)."""

from engrambus.adapters.migration.dual_read import Difference, DualRead
from engrambus.adapters.migration.shims import ArtifactShim, TupleLog
from engrambus.adapters.migration.steps import (
    STEPS,
    MigrationEvidence,
    MigrationFlags,
    Standing,
    gather_evidence,
    standing,
)

__all__ = [
    "STEPS",
    "ArtifactShim",
    "Difference",
    "DualRead",
    "MigrationEvidence",
    "MigrationFlags",
    "Standing",
    "TupleLog",
    "gather_evidence",
    "standing",
]
