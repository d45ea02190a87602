"""Guardrails: how much of the machine a step may take, and how long what it left is kept."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.policy.guardrails.limits import MB, NO_LIMITS, StepLimits, niceness, step_limits
    from engrambus.policy.guardrails.pressure import DiskBreaker, free_bytes
    from engrambus.policy.guardrails.values import Guardrails, Quotas, Retention, check_guardrails

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "limits": "MB NO_LIMITS StepLimits niceness step_limits",
        "pressure": "DiskBreaker free_bytes",
        "values": "Guardrails Quotas Retention check_guardrails",
    })

__all__ = [
    "MB", "NO_LIMITS", "DiskBreaker", "Guardrails", "Quotas", "Retention", "StepLimits", "check_guardrails",
    "free_bytes", "niceness", "step_limits",
]
