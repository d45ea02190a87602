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
from stigmergy.policy.scopes import (
    OUTBOX,
    PROJECT_SPACE,
    SHARED_SCOPES,
    Scope,
    check_may_promote,
    check_may_write,
    shared_scopes,
    space_of,
    visible_spaces,
    wider_space,
)
from stigmergy.policy.tokens import Claims, TokenKey

__all__ = [
    "ADMIN",
    "DEFAULT_POLICY",
    "OUTBOX",
    "POLICY_FILE",
    "PROJECT_SPACE",
    "ROLES",
    "SHARED_SCOPES",
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
    "check_may_promote",
    "check_may_write",
    "check_name",
    "create_project",
    "find_project",
    "read_policy",
    "shared_scopes",
    "space_of",
    "visible_spaces",
    "wider_space",
]
