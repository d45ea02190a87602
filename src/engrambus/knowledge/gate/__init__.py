"""The merge gate: open risks and stale decisions on the lines that a branch changes."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.knowledge.gate.findings import GateFinding
    from engrambus.knowledge.gate.rules import (
        GATED_KINDS,
        find_finding,
        find_findings,
        override_finding,
        with_overrides,
    )
    from engrambus.knowledge.gate.sarif import sarif_log
    from engrambus.knowledge.gate.values import GateOverridden, GateOverride, GateReads, shown_override

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "findings": "GateFinding",
        "rules": "GATED_KINDS find_finding find_findings override_finding with_overrides",
        "sarif": "sarif_log",
        "values": "GateOverridden GateOverride GateReads shown_override",
    })

__all__ = [
    "GATED_KINDS", "GateFinding", "GateOverridden", "GateOverride", "GateReads", "find_finding", "find_findings",
    "override_finding", "sarif_log", "shown_override", "with_overrides",
]
