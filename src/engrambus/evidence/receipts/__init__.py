"""Receipts: what was done, the bodies it left, and what a result is found again by."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.evidence.receipts.artifact_kinds import artifact_kind
    from engrambus.evidence.receipts.bodies import BodyFile, BodyStore, OpenBody, check_digest
    from engrambus.evidence.receipts.cas import BodyFolder
    from engrambus.evidence.receipts.folder import (
        RECEIPTS,
        RECEIPTS_POSITION,
        ReceiptFolder,
        ReceiptLookup,
        RestoredFile,
        is_written_by,
    )
    from engrambus.evidence.receipts.junit import MAX_REPORT_BYTES, JunitCase, JunitReport, read_junit
    from engrambus.evidence.receipts.purge_plan import (
        DAY_US,
        KeepReason,
        Purge,
        PurgePlanner,
        PurgeReason,
        with_step_receipts,
    )
    from engrambus.evidence.receipts.values import (
        ARTIFACT_KINDS,
        EMPTY_DIGEST,
        JUNIT_KIND,
        Artifact,
        Cost,
        EvidenceRef,
        Receipt,
        bodies_of,
        in_toto_statement,
        new_receipt,
        receipt_id,
        result_sha,
    )

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "artifact_kinds": "artifact_kind",
        "bodies": "BodyFile BodyStore OpenBody check_digest",
        "cas": "BodyFolder",
        "folder": "RECEIPTS RECEIPTS_POSITION ReceiptFolder ReceiptLookup RestoredFile is_written_by",
        "junit": "MAX_REPORT_BYTES JunitCase JunitReport read_junit",
        "purge_plan": "DAY_US KeepReason Purge PurgePlanner PurgeReason with_step_receipts",
        "values": (
            "ARTIFACT_KINDS EMPTY_DIGEST JUNIT_KIND Artifact Cost EvidenceRef Receipt bodies_of in_toto_statement "
            "new_receipt receipt_id result_sha "
        ),
    })

__all__ = [
    "ARTIFACT_KINDS", "DAY_US", "EMPTY_DIGEST", "JUNIT_KIND", "MAX_REPORT_BYTES", "RECEIPTS", "RECEIPTS_POSITION",
    "Artifact", "BodyFile", "BodyFolder", "BodyStore", "Cost", "EvidenceRef", "JunitCase", "JunitReport", "KeepReason",
    "OpenBody", "Purge", "PurgePlanner", "PurgeReason", "Receipt", "ReceiptFolder", "ReceiptLookup", "RestoredFile",
    "artifact_kind", "bodies_of", "check_digest", "in_toto_statement", "is_written_by", "new_receipt", "read_junit",
    "receipt_id", "result_sha", "with_step_receipts",
]
