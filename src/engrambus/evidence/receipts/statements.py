"""A receipt as an in-toto Statement: what was produced, and by what. Unsigned, so a record and no attestation."""

from __future__ import annotations

from typing import Any

import msgspec

from engrambus.evidence.receipts.values import Receipt

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:engrambus:receipt:v1"


def statement(receipt: Receipt) -> dict[str, Any]:
    """The statement whose subjects are the bodies a receipt names."""
    subjects = [("stdout", receipt.stdout_sha), ("stderr", receipt.stderr_sha)]
    subjects += [(artifact.path, artifact.sha) for artifact in receipt.artifacts]
    return {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": sha.removeprefix("sha256:")}} for name, sha in subjects],
        "predicateType": PREDICATE,
        "predicate": msgspec.to_builtins(receipt),
    }
