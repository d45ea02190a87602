"""Scopes: who can see an engram, and the spaces of the index that keep the scopes apart.

A *space* is the part of the index that one read covers: `p` for the project, `r7` for the project's seventh run.
Engrams of the scopes org and global are kept in the project's *outbox*, which no query reads, until they are delivered
to the shared stores. What the team remembers has a space that every agent of the project reads, so that one query finds
engrams and memories. Knowledge from elsewhere has a space of its own until a person confirms it: queries read it and
mark what they find there, and nothing else reads it. So have claims that were taken from an agent's prose: `cp` holds
those that will be the project's once they are confirmed, `cr7` those of the seventh run.
"""

from __future__ import annotations

from typing import Literal, get_args

from engrambus.errors import ScopeForbidden
from engrambus.policy.identity import Caller, Run, with_article
from engrambus.policy.project_policy import Policy

Scope = Literal["run", "project", "org", "global"]

_SCOPES: tuple[Scope, ...] = get_args(Scope)
PROJECT_SPACE = "p"
OUTBOX = "o"
UNTRUSTED_SPACE = "u"
"""Engrams of the scope project that were adopted from elsewhere and that no person has confirmed (decision 68)."""
MEMORY_SPACE = "m"
"""The team's memories as a query shows them (decision 81). Nothing else reads it: memories have rules of their own."""
SHARED_SCOPES = ("org", "global")
_UNCONFIRMED = "c"


def space_of(scope: str, run: Run) -> str:
    """Return the space of the project's index for an engram of this scope that was put in this run."""
    return f"r{run.number}" if scope == "run" else wider_space(scope)


def wider_space(scope: str) -> str:
    """Return the space of a scope other than `run`."""
    # decision 10: org and global are stores of their own; a project only holds what is on its way there
    return PROJECT_SPACE if scope == "project" else OUTBOX


def visible_spaces(caller: Caller, scope: str | None = None) -> tuple[str, ...]:
    """Return the spaces a caller may read, narrowest first; with `scope`, only the space of that scope."""
    spaces = {"run": space_of("run", caller.run), "project": PROJECT_SPACE}
    if scope is not None:
        return (spaces[scope],) if scope in spaces else ()
    return tuple(spaces.values())


def memory_spaces(scope: str | None = None) -> tuple[str, ...]:
    """Return the spaces of memories that every caller may read; with `scope`, only that scope's."""
    return (MEMORY_SPACE,) if scope in (None, "project") else ()


def untrusted_spaces(scope: str | None = None) -> tuple[str, ...]:
    """Return the spaces of untrusted engrams that every caller may read; with `scope`, only that scope's."""
    return (UNTRUSTED_SPACE,) if scope in (None, "project") else ()


def unconfirmed_space(space: str) -> str:
    """Return the space of the claims from prose that belong in `space` once they are confirmed (decision 82)."""
    return _UNCONFIRMED + space


def confirmed_space(space: str) -> str | None:
    """Return the space that a confirmation moves an unconfirmed engram to; None if `space` holds no such engrams."""
    return space[1:] if space.startswith(_UNCONFIRMED) else None


def shared_scopes(policy: Policy, scope: str | None = None) -> tuple[str, ...]:
    """Return the enabled scopes beyond the project; with `scope`, only that one if it is enabled."""
    return tuple(shared for shared in SHARED_SCOPES if shared in policy.scopes and scope in (None, shared))


def narrower_scope(policy: Policy, scope: Scope, confidence: float) -> Scope:
    """Return the widest scope, up to the given one, whose promotion floor a confidence reaches; `run` has none."""
    reachable = _SCOPES[: _SCOPES.index(scope) + 1]
    return next((name for name in reversed(reachable) if confidence >= policy.floor(name)), "run")


def check_may_promote(policy: Policy, scope: str, field: str = "scope") -> None:
    """Refuse a scope that is not enabled in this project."""
    # decision 10: org and global cross projects, so they exist only where an admin enabled them
    if scope not in policy.scopes:
        raise ScopeForbidden(
            f"The scope '{scope}' is not enabled in this project.",
            field=field,
            limit=", ".join(policy.scopes),
            hint="An admin enables it in .catalog/policy.yaml and runs `engrambus policy apply`.",
        )


def check_may_write(policy: Policy, caller: Caller, scope: str, field: str = "scope") -> None:
    """Refuse a scope that the policy does not let this caller write."""
    check_may_promote(policy, scope, field)
    if not policy.may_write(caller.role, scope):
        raise ScopeForbidden(
            f"{with_article(caller.role).capitalize()} may not write the scope '{scope}'.", field=field
        )
