"""Guardrails: how much of the machine a step may take, and how long what it left is kept."""

from typing import TYPE_CHECKING

from engrambus.doors import opened_late

if TYPE_CHECKING:
    from engrambus.policy.guardrails.limits import MB, NO_LIMITS, StepLimits, niceness, step_limits
    from engrambus.policy.guardrails.pressure import DiskBreaker, free_bytes
    from engrambus.policy.guardrails.values import Guardrails, Quotas, Retention, check_guardrails
else:
    __getattr__ = opened_late(
        __name__,
        {
            "limits": "MB NO_LIMITS StepLimits niceness step_limits",
            "pressure": "DiskBreaker free_bytes",
            "values": "Guardrails Quotas Retention check_guardrails",
        },
    )

__all__ = [
    "MB",
    "NO_LIMITS",
    "DiskBreaker",
    "Guardrails",
    "Quotas",
    "Retention",
    "StepLimits",
    "check_guardrails",
    "free_bytes",
    "niceness",
    "step_limits",
]
