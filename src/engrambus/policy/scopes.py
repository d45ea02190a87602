"""Scopes: how far an engram is seen, and the spaces an index keeps apart so that nobody reads past their own.

A *space* is what one read of the index covers: `p` for the project, `r7` for the project's seventh run. Engrams for org
and global leave the project through its *outbox*, which nobody reads, for stores of their own.
"""

from __future__ import annotations

from typing import Literal

from engrambus.errors import ScopeForbidden
from engrambus.policy.identity import Caller, Run
from engrambus.policy.rules import Policy

Scope = Literal["run", "project", "org", "global"]

PROJECT_SPACE = "p"
OUTBOX = "o"
SHARED_SCOPES = ("org", "global")


def space_of(scope: str, run: Run) -> str:
    """The space that a project keeps an engram of this scope in, put in this run."""
    return f"r{run.number}" if scope == "run" else wider_space(scope)


def wider_space(scope: str) -> str:
    """The space of a scope that reaches beyond a run."""
    return PROJECT_SPACE if scope == "project" else OUTBOX


def visible_spaces(caller: Caller, scope: str | None = None) -> tuple[str, ...]:
    """The spaces a caller may read, narrowest first; only one scope's when it is named."""
    spaces = {"run": space_of("run", caller.run), "project": PROJECT_SPACE}
    if scope is not None:
        return (spaces[scope],) if scope in spaces else ()
    return tuple(spaces.values())


def shared_scopes(policy: Policy, scope: str | None = None) -> tuple[str, ...]:
    """The scopes beyond the project that an admin has switched on; only one when it is named."""
    return tuple(each for each in SHARED_SCOPES if each in policy.scopes and scope in (None, each))


def check_may_promote(policy: Policy, scope: str, field: str = "scope") -> None:
    """Refuse a scope that is switched off."""
    if scope not in policy.scopes:
        raise ScopeForbidden(
            f"The scope '{scope}' is switched off in this project.",
            field=field,
            limit=", ".join(policy.scopes),
            hint="An admin enables it in .catalog/policy.yaml and runs `engrambus policy apply`.",
        )


def check_may_write(policy: Policy, caller: Caller, scope: str, field: str = "scope") -> None:
    """Refuse a scope that the policy does not let this caller write."""
    check_may_promote(policy, scope, field)
    if not policy.may_write(caller.role, scope):
        raise ScopeForbidden(f"A {caller.role} may not write the scope '{scope}'.", field=field)
