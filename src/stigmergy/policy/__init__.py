"""Who may do what: identity, tokens, scopes and the project's policy."""

from stigmergy.policy.facts import AgentAdded, PolicyApplied, RunEnded, RunOpened
from stigmergy.policy.identity import (
    ADMIN,
    ROLES,
    Agent,
    Caller,
    IdentityReads,
    Role,
    Run,
    check_below,
    check_descends,
    check_name,
)
from stigmergy.policy.project import POLICY_FILE, Project, create_project, find_project
from stigmergy.policy.rules import DEFAULT_POLICY, Policy, UrlPolicy, read_policy
from stigmergy.policy.scopes import PROJECT_SPACE, Scope, check_may_write, space_of, visible_spaces
from stigmergy.policy.tokens import Claims, TokenKey

__all__ = [
    "ADMIN",
    "DEFAULT_POLICY",
    "POLICY_FILE",
    "PROJECT_SPACE",
    "ROLES",
    "Agent",
    "AgentAdded",
    "Caller",
    "Claims",
    "IdentityReads",
    "Policy",
    "PolicyApplied",
    "Project",
    "Role",
    "Run",
    "RunEnded",
    "RunOpened",
    "Scope",
    "TokenKey",
    "UrlPolicy",
    "check_below",
    "check_descends",
    "check_may_write",
    "check_name",
    "create_project",
    "find_project",
    "read_policy",
    "space_of",
    "visible_spaces",
]
