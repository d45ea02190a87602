"""The project's policy: what an admin allows, read from `.catalog/policy.yaml` and in force once applied."""

from __future__ import annotations

from typing import Any

import msgspec

from engrambus.core import parse_duration
from engrambus.errors import EngramBusError, PolicyInvalid
from engrambus.policy.guardrails import Guardrails, check_guardrails
from engrambus.policy.identity import ROLES
from engrambus.policy.inline import InlineBudget
from engrambus.policy.turns import DerefBudget

SCOPES = ("run", "project", "org", "global")
_FLOORS = {"run": 0.0, "project": 0.5, "org": 0.7, "global": 0.8}


class UrlPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Whether pointers may lead out to the web, and where to."""

    enabled: bool = False
    hosts: tuple[str, ...] = ()


class CortexPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which parts of the shared cortex are on, and how it works."""

    inherit: bool = True
    """Whether agents may take over what the team remembers."""
    ingest: bool = True
    """Whether contributions may become memory; submitted and kept they are all the same."""
    dedupe_window: str = "P1D"
    """How long the same words from the same session count as said before."""


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What may be done in the project."""

    scopes: tuple[str, ...] = ("run", "project")
    """The scopes that exist here; org and global only when named."""
    write_scopes: dict[str, tuple[str, ...]] = {}
    """Which scopes a role may write; where a role is not named, run and project."""
    max_ttl: str = "P365D"
    """The longest an engram may ask to live."""
    token_ttl: str = "P30D"  # noqa: S105  # a duration
    """How long an agent's token lasts unless asked otherwise."""
    promotion_floor: dict[str, float] = {}
    """The confidence an engram needs for a scope; where a scope is not named, 0.5, 0.7 and 0.8 on the way up."""
    urls: UrlPolicy = UrlPolicy()
    inline: InlineBudget = InlineBudget()
    """What a message may hold."""
    engrams_per_minute: int = 60
    """How many engrams an agent may put in one minute."""
    deref: DerefBudget = DerefBudget()
    """What an agent may dereference in one turn."""
    cortex: CortexPolicy = CortexPolicy()
    memory_folders: tuple[str, ...] = ()
    """Folders beside the project that memory stores may be read from, as absolute paths."""
    guardrails: Guardrails = Guardrails()
    """The most a step may take of the machine, and how long what it left is kept."""

    def floor(self, scope: str) -> float:
        """The confidence an engram needs to be promoted into a scope."""
        return self.promotion_floor.get(scope, _FLOORS[scope])

    def may_write(self, role: str, scope: str) -> bool:
        """Whether a role may put engrams into a scope."""
        return scope in self.scopes and scope in self.write_scopes.get(role, ("run", "project"))


DEFAULT_POLICY = Policy()


def read_policy(value: Any) -> Policy:
    """A policy from what its file says, or a refusal that names the line of thought that failed."""
    try:
        policy = msgspec.convert(value if value is not None else {}, Policy)
    except msgspec.ValidationError as problem:
        raise PolicyInvalid(f"The policy is not valid: {problem}.", field="policy.yaml") from None
    for field, names, known in (
        ("scopes", policy.scopes, SCOPES),
        ("write_scopes", tuple(policy.write_scopes), ROLES),
        ("promotion_floor", tuple(policy.promotion_floor), SCOPES),
        *((f"write_scopes.{role}", scopes, SCOPES) for role, scopes in policy.write_scopes.items()),
    ):
        for name in names:
            if name not in known:
                raise PolicyInvalid(f"'{name}' is not one of {', '.join(known)}.", field=field)
    for scope, floor in policy.promotion_floor.items():
        if not 0.0 <= floor <= 1.0:
            raise PolicyInvalid("A promotion floor is a confidence, from 0 to 1.", field=f"promotion_floor.{scope}")
    if policy.engrams_per_minute < 1:
        raise PolicyInvalid("An agent may put at least one a minute.", field="engrams_per_minute", limit=1)
    for name in ("deref", "inline"):
        budget = getattr(policy, name)
        for field in budget.__struct_fields__:
            if getattr(budget, field) < 0:
                raise PolicyInvalid("A budget is not negative.", field=f"{name}.{field}", limit=0)
    for folder in policy.memory_folders:
        if not folder.startswith("/"):
            raise PolicyInvalid("A folder of memory stores is an absolute path.", field="memory_folders", used=folder)
    check_guardrails(policy.guardrails)
    for field, duration in (
        ("max_ttl", policy.max_ttl),
        ("token_ttl", policy.token_ttl),
        ("cortex.dedupe_window", policy.cortex.dedupe_window),
    ):
        try:
            parse_duration(duration, field)
        except EngramBusError as problem:
            raise PolicyInvalid(problem.detail, field=field) from None
    return policy
