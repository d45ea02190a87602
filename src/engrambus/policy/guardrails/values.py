"""What a project, a tuple and a yool say about quotas, and what the project says about keeping."""

from __future__ import annotations

import msgspec

from engrambus.errors import PolicyInvalid

_MOST = {"cpu_quota_pct": 100, "hot_days": 36_500, "warm_days": 36_500, "nightly_hour": 23}
_LEAST = {"cpu_quota_pct": 1, "disk_quota_mb": 1, "memory_mb": 1}
_UNBOUNDED = 1_000_000_000


class Quotas(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How much a step may take; what is not said is not limited here."""

    cpu_quota_pct: int | None = None
    """The share of one core, for all its processes together; 100 is one core."""
    memory_mb: int | None = None
    """Megabytes of memory, of all its processes together."""
    disk_quota_mb: int | None = None
    """Megabytes it may write."""
    budget_tokens: int | None = None
    """Tokens it may spend."""
    budget_micros: int | None = None
    """Money it may spend, in micro-dollars."""


class Retention(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How long what steps left is kept. Receipts are kept for ever."""

    hot_days: int = 30
    """So long everything is kept: artifacts, what was printed, receipts."""
    warm_days: int = 365
    """So long, from the start, what was printed is kept; then only receipts are."""
    max_total_mb: int = 5_000
    """Megabytes the catalog may take; above it the oldest bodies go."""
    free_mb_floor: int = 1_000
    """Megabytes that stay free on the disk; below it no work is begun, and the oldest bodies go."""
    nightly_hour: int = 3
    """The hour of the night, by the machine's clock, in which a worker collects by itself."""


class Guardrails(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What `.catalog/policy.yaml` says under `guardrails`: the most a step may take, and how long things are kept."""

    cpu_quota_pct: int | None = None
    memory_mb: int | None = None
    disk_quota_mb: int | None = None
    gc: Retention = Retention()

    @property
    def quotas(self) -> Quotas:
        """The most any step of the project may take."""
        return Quotas(cpu_quota_pct=self.cpu_quota_pct, memory_mb=self.memory_mb, disk_quota_mb=self.disk_quota_mb)


def check_guardrails(said: Guardrails) -> None:
    """Refuse quotas and times that could not be kept."""
    for where, value in (("guardrails", said), ("guardrails.gc", said.gc)):
        for name in value.__struct_fields__:
            number = getattr(value, name)
            least, most = _LEAST.get(name, 0), _MOST.get(name, _UNBOUNDED)
            if isinstance(number, int) and not least <= number <= most:
                raise PolicyInvalid(f"'{name}' is out of range.", field=f"{where}.{name}", limit=f"{least}..{most}")
    if said.gc.warm_days < said.gc.hot_days:
        raise PolicyInvalid(
            "What was printed is kept at least as long as artifacts are.",
            field="guardrails.gc.warm_days",
            limit=said.gc.hot_days,
            used=said.gc.warm_days,
        )
