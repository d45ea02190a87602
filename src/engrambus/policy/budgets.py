"""Budgets: how much a message may contain, and how much an agent may read and put in a turn and in a run."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

_NAMES_IN_MESSAGES = {
    "repo": "max_repo_spans",
    "artifact": "max_artifact_sections",
    "sam": "max_sam_items",
    "tokens": "max_deref_tokens",
}
"""Field of `TurnBudget` → name of the same limit in the BUDGETS section of a parent's message."""


class InlineBudget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits for the text of one message: every reader pays for all of its tokens."""

    max_inline_tokens: Annotated[int, Meta(description="Tokens of a message or a final answer")] = 800
    max_engrams: Annotated[int, Meta(description="Engrams in a message")] = 12
    max_engram_chars: Annotated[int, Meta(description="Characters of a single claim")] = 500
    max_inline_code_chars: Annotated[int, Meta(description="Characters of code in a text")] = 0
    max_brief_lines: Annotated[int, Meta(description="Lines of brief in a broadcast")] = 30

    def lowered_by(self, limits: object) -> InlineBudget:
        """Return this budget lowered to the attributes of `limits` with the same names; nothing is ever raised."""
        lower = {
            name: min(getattr(self, name), limit)
            for name in self.__struct_fields__
            if (limit := getattr(limits, name, None)) is not None
        }
        return msgspec.structs.replace(self, **lower)


class DerefBudget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Limits for one turn of an agent, and for its run as a number of turns."""

    repo: Annotated[int, Meta(description="Dereferences of repo and diff pointers in a turn")] = 3
    artifact: Annotated[int, Meta(description="Dereferences of artifact pointers in a turn")] = 2
    sam: Annotated[int, Meta(description="Dereferences of sam pointers in a turn")] = 2
    tokens: Annotated[int, Meta(description="Tokens that an agent may read in a turn")] = 1200
    run_turns: Annotated[int, Meta(description="Turns whose tokens one agent may read in a run")] = 20
    team_turns: Annotated[int, Meta(description="Turns whose tokens all agents of a run may read together")] = 200


class TurnBudget(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one agent: for a turn, and the ceilings of its run."""

    repo: int
    artifact: int
    sam: int
    tokens: int
    """Tokens that it may read in a turn."""
    put_tokens: int
    """Tokens of engrams that it may put in a turn."""
    run_tokens: int
    """Tokens that it may read in the run."""
    team_tokens: int
    """Tokens that all agents of the run may read together."""

    def lowered_by(self, limits: object) -> TurnBudget:
        """Return this budget lowered by the limits of a parent's message; the ceilings of the run stay."""
        lower = {
            name: min(getattr(self, name), limit)
            for name, name_in_message in _NAMES_IN_MESSAGES.items()
            if (limit := getattr(limits, name_in_message, None)) is not None
        }
        return msgspec.structs.replace(self, **lower)


def turn_budget_of(deref: DerefBudget, put_tokens: int, session_turns: int = 1) -> TurnBudget:
    """Return the limits of an agent whose turns are worth `session_turns` of the project's."""
    # decision 45: the ceilings count turns of the project, so a larger turn reaches them sooner
    return TurnBudget(
        repo=deref.repo * session_turns,
        artifact=deref.artifact * session_turns,
        sam=deref.sam * session_turns,
        tokens=deref.tokens * session_turns,
        put_tokens=put_tokens * session_turns,
        run_tokens=deref.tokens * deref.run_turns,
        team_tokens=deref.tokens * deref.team_turns,
    )
