"""What the terms of a tuple and of a yool say about one step."""

from __future__ import annotations

import msgspec

from engrambus.policy.guardrails import Quotas
from engrambus.space.catalog import Terms


def quotas_of(own: Terms, default: Terms) -> tuple[Quotas, Quotas]:
    """What a tuple's terms and its yool's say about one step; where the tuple names a budget, the yool's is none."""
    tokens = own.budget_tokens if own.budget_tokens is not None else default.budget_tokens
    micros = own.budget_micros if own.budget_micros is not None else default.budget_micros
    said = [
        Quotas(cpu_quota_pct=each.cpu_quota_pct, memory_mb=each.memory_mb, disk_quota_mb=each.disk_quota_mb)
        for each in (own, default)
    ]
    return msgspec.structs.replace(said[0], budget_tokens=tokens, budget_micros=micros), said[1]
