"""The limits of a project, and how strictly each one is applied: `enforce`, `warn` or `off`, for every role."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from engrambus.errors import EngramBusError, Notice

LimitMode = Literal["enforce", "warn", "off"]
LIMIT_MODES: tuple[str, ...] = get_args(LimitMode)

LimitName = Literal[
    "message_tokens",
    "message_engrams",
    "claim_chars",
    "inline_code",
    "brief_lines",
    "put_tokens",
    "put_rate",
    "added_agents",
    "deref_count",
    "deref_tokens",
    "run_tokens",
    "team_tokens",
    "promotion_floor",
    "reservations",
]

LIMITS: dict[LimitName, tuple[str, str]] = {
    "message_tokens": ("inline.max_inline_tokens", "tokens of one message or final answer"),
    "message_engrams": ("inline.max_engrams", "engrams in one message"),
    "claim_chars": ("inline.max_engram_chars", "characters of one claim in a message"),
    "inline_code": ("inline.max_inline_code_chars", "characters of code in a message, a put or any other text"),
    "brief_lines": ("inline.max_brief_lines", "lines of brief in a broadcast"),
    "put_tokens": ("put_tokens_per_turn", "tokens that an agent puts in one turn"),
    "put_rate": (
        "engrams_per_minute, lineage_engrams_per_minute",
        "engrams that an agent, and a lead with all its descendants, puts in any 60 seconds",
    ),
    "added_agents": (
        "agents_per_minute, agents_per_lead",
        "agents that a lead with all its descendants adds, in any 60 seconds and in all",
    ),
    "deref_count": ("deref.repo, deref.artifact, deref.sam", "dereferences in one turn"),
    "deref_tokens": ("deref.tokens", "tokens dereferenced in one turn"),
    "run_tokens": ("deref.run_turns", "tokens that one agent dereferences in a run, as turns' worth"),
    "team_tokens": ("deref.team_turns", "tokens that all agents of a run dereference, as turns' worth"),
    "promotion_floor": ("promotion_floor", "confidence that an engram needs to be seen beyond its run"),
    "reservations": ("reservations.max_duration", "edits of files that another agent has reserved"),
}
"""Limit → the policy key that sets its amount, and what it counts."""

NOT_FOR_PEOPLE: frozenset[LimitName] = frozenset(
    {"put_tokens", "put_rate", "added_agents", "deref_count", "deref_tokens", "run_tokens", "team_tokens"}
)
"""Limits that do not apply to the admin: a person has no turn and no rate. Code and message size apply to everybody."""

DEFAULT_MODES: dict[LimitName, LimitMode] = {"reservations": "warn"}
"""Modes of limits that are not enforced unless the policy says so."""

LimitModes: TypeAlias = Mapping[str, LimitMode | Mapping[str, LimitMode]]
"""Limit → its mode for every role, or for each role that is named."""


def limit_mode(modes: LimitModes, limit: LimitName, role: str) -> LimitMode:
    """Return how a limit applies to a role; its default unless the policy says otherwise."""
    if role == "admin" and limit in NOT_FOR_PEOPLE:
        return "off"
    default = DEFAULT_MODES.get(limit, "enforce")
    mode = modes.get(limit, default)
    return mode if isinstance(mode, str) else mode.get(role, default)


class LimitChecks:
    """The limits of one call, as they apply to its caller's role.

    A rule that finds a limit exceeded hands its refusal to `exceeded`: it is raised, recorded as a warning or dropped.
    """

    def __init__(self, modes: LimitModes, role: str, warnings: list[EngramBusError] | None = None) -> None:
        self._modes = modes
        self._role = role
        self.warnings: list[EngramBusError] = [] if warnings is None else warnings
        """Refusals that the policy turned into warnings, in order; the caller gets them beside its answer."""

    def for_role(self, role: str) -> LimitChecks:
        """Return the limits as they apply to another role that pays for the same call; warnings are collected here."""
        return LimitChecks(self._modes, role, self.warnings)

    @property
    def enforces_all(self) -> bool:
        """True if the policy relaxes no limit for any role."""
        return not self._modes

    def mode(self, limit: LimitName) -> LimitMode:
        """Return how a limit applies to the caller."""
        return limit_mode(self._modes, limit, self._role)

    def is_enforced(self, limit: LimitName) -> bool:
        """True if exceeding the limit refuses the call."""
        return self.mode(limit) == "enforce"

    def exceeded(self, limit: LimitName, refusal: EngramBusError) -> None:
        """Raise the refusal of an exceeded limit, or record it as a warning, or ignore it."""
        mode = self.mode(limit)
        if mode == "enforce":
            raise refusal
        if mode == "warn":
            self.warnings.append(refusal)

    def applied(self, notice: Notice) -> None:
        """Record what a rule changed about the call instead of refusing it."""
        self.warnings.append(notice)
