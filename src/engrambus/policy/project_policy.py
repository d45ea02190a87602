"""The project's policy: what an admin allows. Written in `.catalog/policy.yaml`, in force once it is applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import Meta

from engrambus.core import parse_duration
from engrambus.errors import EngramBusError, PolicyInvalid
from engrambus.policy.budgets import DerefBudget, InlineBudget, TurnBudget, turn_budget_of
from engrambus.policy.facts import PolicyApplied
from engrambus.policy.guardrails import Guardrails, check_guardrails
from engrambus.policy.identity import ROLES, Caller, ParentRole
from engrambus.policy.lifetimes import TokenLifetime, duration_us
from engrambus.policy.limits import LIMITS, LimitChecks, LimitMode
from engrambus.policy.secrets import DEFAULT_RULES, SecretRules, check_rules
from engrambus.policy.visibility import RoleVisibility, check_visibility

SCOPES = ("run", "project", "org", "global")
_DEFAULT_SCOPES = ("run", "project")
LINEAGE_RATE_FACTOR = 4
"""Agents' worth of engrams a minute that a lineage has by default."""
_DEFAULT_FLOORS = {"run": 0.0, "project": 0.5, "org": 0.7, "global": 0.8}


class UrlPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Permission for pointers to web pages, and the hosts they may name."""

    enabled: Annotated[bool, Meta(description="Pointers to web pages are allowed")] = False
    hosts: Annotated[tuple[str, ...], Meta(description="Hosts that such pointers may name")] = ()


class CortexPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Settings of the shared cortex."""

    inherit: Annotated[bool, Meta(description="Agents may inherit the team's memory")] = True
    ingest: Annotated[
        bool, Meta(description="Accepted contributions become memory; contributions are stored in either case")
    ] = True
    dedupe_window: Annotated[
        str, Meta(description="Time in which the same words from the same session count as a repetition")
    ] = "P1D"


class ReservationPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Ceilings of reservations."""

    default_duration: Annotated[str, Meta(description="How long a reservation lasts if nothing else is asked for")] = (
        "PT30M"
    )
    max_duration: Annotated[str, Meta(description="How long a reservation may last; it can be renewed")] = "PT8H"
    max_per_agent: Annotated[int, Meta(description="Reservations that one agent may hold at once")] = 20
    max_paths: Annotated[int, Meta(description="Paths and patterns of one reservation")] = 20


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The permissions and limits of a project."""

    scopes: Annotated[tuple[str, ...], Meta(description="Enabled scopes; org and global only if they are listed")] = (
        _DEFAULT_SCOPES
    )
    write_scopes: Annotated[
        dict[str, tuple[str, ...]],
        Meta(description="Role → scopes it may write; a role that is not listed may write run and project"),
    ] = {}
    max_ttl: Annotated[str, Meta(description="Longest lifetime of an engram")] = "P365D"
    token_ttl: Annotated[str, Meta(description="Default lifetime of an agent's token")] = "P30D"  # noqa: S105
    max_token_ttl: Annotated[str, Meta(description="Longest lifetime of a token, with its agent's own renewals")] = (
        "P90D"  # noqa: S105
    )
    max_grant_ttl: Annotated[str, Meta(description="Longest lifetime of a grant")] = "P7D"
    lead_role: Annotated[
        ParentRole, Meta(description="Highest role, and the default one, of the lead of a coding agent's session")
    ] = "architect"
    promotion_floor: Annotated[
        dict[str, float], Meta(description="Scope → confidence that an engram needs to be seen in it")
    ] = {}
    urls: UrlPolicy = UrlPolicy()
    inline: InlineBudget = InlineBudget()
    engrams_per_minute: Annotated[int, Meta(description="Engrams that one agent may put in any 60 seconds")] = 60
    lineage_engrams_per_minute: Annotated[
        int | None,
        Meta(description="The same for an agent and all its descendants; 4 times engrams_per_minute by default"),
    ] = None
    agents_per_minute: Annotated[
        int, Meta(description="Agents that a lead and all its descendants may add in any 60 seconds")
    ] = 30
    agents_per_lead: Annotated[int, Meta(description="Agents that a lead and all its descendants may add in a run")] = (
        500
    )
    put_tokens_per_turn: Annotated[int, Meta(description="Tokens of the engrams that an agent may put in a turn")] = (
        2400
    )
    capture: Annotated[
        bool, Meta(description="Sentences of an answer in prose that cite lines, or are marked, await confirmation")
    ] = True
    recall: Annotated[
        bool, Meta(description="Hooks show agents what fits their prompt, their task and the files they edit, unasked")
    ] = True
    deref: DerefBudget = DerefBudget()
    cortex: CortexPolicy = CortexPolicy()
    reservations: ReservationPolicy = ReservationPolicy()
    secrets: SecretRules = DEFAULT_RULES
    memory_folders: Annotated[
        tuple[str, ...],
        Meta(description="Absolute paths of folders outside the project from which memory stores may be read"),
    ] = ()
    guardrails: Guardrails = Guardrails()
    visibility: Annotated[
        dict[str, RoleVisibility],
        Meta(description="Role → kinds, scopes and paths that it sees; everything if it is not listed"),
    ] = {}
    limits: Annotated[
        dict[str, LimitMode | dict[str, LimitMode]],
        Meta(
            description="Limit → enforce, warn or off, for all roles or by role; enforce by default, reservations warn"
        ),
    ] = {}

    def checks(self, role: str) -> LimitChecks:
        """Return the limits as they apply to one call of a role."""
        return LimitChecks(self.limits, role)

    def turn_budget(self, session_turns: int = 1) -> TurnBudget:
        """Return the limits of an agent whose turns are worth this number of turns."""
        return turn_budget_of(self.deref, self.put_tokens_per_turn, session_turns)

    @property
    def lineage_rate(self) -> int:
        """Engrams that a lineage may put in any 60 seconds."""
        if self.lineage_engrams_per_minute is None:
            return LINEAGE_RATE_FACTOR * self.engrams_per_minute
        return self.lineage_engrams_per_minute

    @property
    def token_lifetime(self) -> TokenLifetime:
        """How long tokens live."""
        return TokenLifetime(default_us=duration_us(self.token_ttl), ceiling_us=duration_us(self.max_token_ttl))

    def visible_to(self, role: str) -> RoleVisibility | None:
        """Return the rule of what a role sees; None if it sees everything."""
        return self.visibility.get(role)

    def floor(self, scope: str) -> float:
        """Return the confidence that an engram needs to be promoted into a scope."""
        return self.promotion_floor.get(scope, _DEFAULT_FLOORS[scope])

    def may_write(self, role: str, scope: str) -> bool:
        """True if a role may put engrams into a scope."""
        return scope in self.scopes and scope in self.write_scopes.get(role, _DEFAULT_SCOPES)


DEFAULT_POLICY = Policy()


class AppliedPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A policy with when and by whom it was put into force."""

    policy: Policy
    at_us: int
    by: str
    """Full name of the admin."""


def apply_policy(value: Any, *, caller: Caller) -> PolicyApplied:
    """Put the policy that a file contains into force; the fact lists only settings that differ from the defaults."""
    policy = read_policy(value)
    # Not part of reading: an earlier version may have applied a longer lifetime, which the ceiling now cuts.
    if policy.token_lifetime.default_us > policy.token_lifetime.ceiling_us:
        raise PolicyInvalid(
            "The default lifetime of tokens is above their ceiling.",
            field="token_ttl",
            limit=policy.max_token_ttl,
            used=policy.token_ttl,
            hint="Raise `max_token_ttl`, or lower `token_ttl`.",
        )
    return PolicyApplied(policy=msgspec.to_builtins(policy), by=caller.full_name)


def read_policy(value: Any) -> Policy:
    """Return the policy that a file contains, or refuse it with the field that is wrong."""
    value = {} if value is None else value
    try:
        policy = msgspec.convert(value, Policy)
    except msgspec.ValidationError as problem:
        _check_keys(value)
        raise PolicyInvalid(f"The policy is not valid: {problem}.", field="policy.yaml") from None
    _check_names("scopes", policy.scopes, SCOPES)
    _check_names("write_scopes", tuple(policy.write_scopes), ROLES)
    _check_names("promotion_floor", tuple(policy.promotion_floor), SCOPES)
    for role, scopes in policy.write_scopes.items():
        _check_names(f"write_scopes.{role}", scopes, SCOPES)
    check_visibility(policy.visibility, ROLES, SCOPES)
    _check_modes(policy)
    _check_amounts(policy)
    for folder in policy.memory_folders:
        if not folder.startswith("/"):
            raise PolicyInvalid("A memory folder must be an absolute path.", field="memory_folders", used=folder)
    check_guardrails(policy.guardrails)
    check_rules(policy.secrets)
    for field, duration in (
        ("max_ttl", policy.max_ttl),
        ("token_ttl", policy.token_ttl),
        ("max_token_ttl", policy.max_token_ttl),
        ("max_grant_ttl", policy.max_grant_ttl),
        ("cortex.dedupe_window", policy.cortex.dedupe_window),
        ("reservations.default_duration", policy.reservations.default_duration),
        ("reservations.max_duration", policy.reservations.max_duration),
    ):
        try:
            parse_duration(duration, field)
        except EngramBusError as problem:
            raise PolicyInvalid(problem.detail, field=field) from None
    return policy


def _check_keys(value: Any, policy_type: type[msgspec.Struct] = Policy, prefix: str = "") -> None:
    """Refuse the first key that the policy does not have, with the keys it has and the one that was probably meant."""
    if not isinstance(value, Mapping):
        return
    types = get_type_hints(policy_type)
    for name, inner in value.items():
        if name not in types:
            from engrambus.policy.policy_keys import refuse_key

            raise refuse_key(f"{prefix}{name}", [prefix + known for known in types])
        if isinstance(types[name], type) and issubclass(types[name], msgspec.Struct):
            _check_keys(inner, types[name], f"{prefix}{name}.")


def _check_names(field: str, names: Sequence[str], allowed: Sequence[str]) -> None:
    for name in names:
        if name not in allowed:
            raise PolicyInvalid(f"'{name}' is not one of {', '.join(allowed)}.", field=field)


def _check_modes(policy: Policy) -> None:
    _check_names("limits", tuple(policy.limits), tuple(LIMITS))
    for limit, modes in policy.limits.items():
        if not isinstance(modes, str):
            _check_names(f"limits.{limit}", tuple(modes), ROLES)


def _check_amounts(policy: Policy) -> None:
    for scope, floor in policy.promotion_floor.items():
        if not 0.0 <= floor <= 1.0:
            raise PolicyInvalid("A promotion floor is a confidence, from 0 to 1.", field=f"promotion_floor.{scope}")
    for name, rate in (
        ("engrams_per_minute", policy.engrams_per_minute),
        ("lineage_engrams_per_minute", policy.lineage_rate),
    ):
        if rate < 1:
            raise PolicyInvalid(f"{name} must be at least 1.", field=name, limit=1)
    if policy.put_tokens_per_turn < 0:
        raise PolicyInvalid("A budget cannot be negative.", field="put_tokens_per_turn", limit=0)
    for field in ("max_per_agent", "max_paths"):
        if getattr(policy.reservations, field) < 0:
            raise PolicyInvalid("A ceiling cannot be negative.", field=f"reservations.{field}", limit=0)
    for name in ("deref", "inline"):
        budget = getattr(policy, name)
        for field in budget.__struct_fields__:
            if getattr(budget, field) < 0:
                raise PolicyInvalid("A budget cannot be negative.", field=f"{name}.{field}", limit=0)
