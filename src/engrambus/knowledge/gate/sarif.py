"""Findings of the merge gate as a SARIF 2.1.0 log, which forges show at the changed lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from engrambus.knowledge.gate.findings import GateFinding

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_RULES = {
    "open-risk": (
        "OpenRisk",
        "The branch changes lines about which a risk is recorded.",
        "Settle the risk and forget or replace its engram, or override the gate with a reason.",
    ),
    "stale-decision": (
        "StaleDecision",
        "The branch changes lines on which a decision, a constraint or a policy rests.",
        "Confirm the claim with the new lines, replace it, or override the gate with a reason.",
    ),
}


def sarif_log(findings: Sequence[GateFinding], *, head: str, version: str) -> dict[str, Any]:
    """Return the log of one run of the gate; an overridden finding is a suppressed result."""
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "engrambus gate",
                        "semanticVersion": version,
                        "rules": [_rule(rule_id, *texts) for rule_id, texts in _RULES.items()],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "properties": {"head": head},
                "results": [_result(finding) for finding in findings],
            }
        ],
    }


def _rule(rule_id: str, name: str, description: str, help_text: str) -> dict[str, Any]:
    return {
        "id": rule_id,
        "name": name,
        "shortDescription": {"text": description},
        "help": {"text": help_text},
        "defaultConfiguration": {"level": "error"},
    }


def _result(finding: GateFinding) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": list(_RULES).index(finding.rule),
        "level": "error",
        "message": {"text": f"{finding.kind} by {finding.by.rpartition('/')[2]}: {finding.claim}"},
        "locations": [_location(finding)],
        "partialFingerprints": {"engrambusGate/v1": finding.fingerprint},
        "properties": {"engram": finding.engram, "pointer": finding.ref},
    }
    if finding.override is not None:
        override = finding.override
        result["suppressions"] = [
            {
                "kind": "external",
                "status": "accepted",
                "justification": f"{override.reason} ({override.identity}, {override.at})",
            }
        ]
    return result


def _location(finding: GateFinding) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": quote(finding.path), "uriBaseId": "%SRCROOT%"}}
    if not finding.deleted:
        physical["region"] = {"startLine": finding.first, "endLine": finding.last}
    return {"physicalLocation": physical}
