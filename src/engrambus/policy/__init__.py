"""Permissions: runs and agents, tokens, scopes, budgets, turns and the project's policy."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.policy.accounts import (
        Account,
        Payers,
        charge_put,
        charge_text,
        check_may_read,
        draw_content,
        payers_of,
    )
    from engrambus.policy.budgets import InlineBudget, TurnBudget
    from engrambus.policy.facts import (
        AgentAdded,
        AgentDismissed,
        CallDenied,
        ContentDrawn,
        DerefAnswered,
        DerefProved,
        DerefRequested,
        PolicyApplied,
        RunClosed,
        RunOpened,
        TokenIssued,
        TokenWithdrawn,
        TurnCharged,
        TurnClosed,
    )
    from engrambus.policy.identity import (
        ADMIN,
        LEARN,
        PEOPLE,
        ROLE_PREFIX,
        ROLES,
        Agent,
        AgentsBelow,
        Caller,
        IdentityReads,
        LeadRole,
        Role,
        Run,
        check_descends,
        descends,
        find_agent,
        is_person,
        is_role,
        lineage_of,
        lineage_of_agent,
        parent_of,
        root_of,
        with_article,
    )
    from engrambus.policy.journal_key import create_journal_key, load_journal_key
    from engrambus.policy.key_archive import export_keys, import_keys
    from engrambus.policy.lifetimes import TokenSpan, end_of, lifetime_within
    from engrambus.policy.limits import LimitChecks, LimitName
    from engrambus.policy.listener_proof import NONCE_CHARS, Challenge, is_loopback, print_listener, proof_of
    from engrambus.policy.marks import Mark, MarkKey
    from engrambus.policy.membership import MAX_SESSION_TURNS, add_agent, add_lead, end_run, open_run, remove_agent
    from engrambus.policy.peers import Receiver, find_receiver
    from engrambus.policy.people import add_person, issue_person_token, people_of, remove_person
    from engrambus.policy.policy_keys import LimitSetting, as_yaml, explain_limits, explain_settings
    from engrambus.policy.project import (
        CATALOG,
        COMMITTED_FILES,
        JOURNAL,
        POLICY_FILE,
        Project,
        check_folders,
        create_project,
        exclude_from_git,
        find_catalog,
        find_project,
    )
    from engrambus.policy.project_keys import add_known_key, known_keys, project_file_state
    from engrambus.policy.project_policy import DEFAULT_POLICY, AppliedPolicy, Policy, apply_policy, read_policy
    from engrambus.policy.scopes import (
        MEMORY_SPACE,
        OUTBOX,
        PROJECT_SPACE,
        SHARED_SCOPES,
        UNTRUSTED_SPACE,
        Scope,
        check_may_promote,
        check_may_write,
        confirmed_space,
        memory_spaces,
        narrower_scope,
        shared_scopes,
        space_of,
        unconfirmed_space,
        untrusted_spaces,
        visible_spaces,
        wider_space,
    )
    from engrambus.policy.signing_keys import SignatureChecker, SigningKey, create_signing_key, load_signing_key
    from engrambus.policy.token_rules import (
        TokenReads,
        check_alive,
        check_token,
        claims_of,
        first_token,
        issue_token,
        revoke_all_tokens,
        revoke_token,
        revoke_tokens_of,
        span_of,
        token_of_known_agent,
        visible_tokens,
    )
    from engrambus.policy.tokens import MAX_TOKEN_CHARS, TokenClaims, TokenKey, is_persons_token, split_token
    from engrambus.policy.turns import (
        RecordedRead,
        Turn,
        TurnReads,
        after_charge,
        after_close,
        after_deref,
        after_draw,
        after_put,
        close_turn,
        end_turn,
        present_turn,
        spans_of,
        turn_of,
    )
    from engrambus.policy.visibility import RoleVisibility

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "accounts": "Account Payers charge_put charge_text check_may_read draw_content payers_of",
        "budgets": "InlineBudget TurnBudget",
        "facts": (
            "AgentAdded AgentDismissed CallDenied ContentDrawn DerefAnswered DerefProved DerefRequested "
            "PolicyApplied RunClosed RunOpened TokenIssued TokenWithdrawn TurnCharged TurnClosed "
        ),
        "identity": (
            "ADMIN LEARN PEOPLE ROLES ROLE_PREFIX Agent AgentsBelow Caller IdentityReads LeadRole Role Run "
            "check_descends descends find_agent is_person is_role lineage_of lineage_of_agent parent_of root_of "
            "with_article "
        ),
        "journal_key": "create_journal_key load_journal_key",
        "key_archive": "export_keys import_keys",
        "lifetimes": "TokenSpan end_of lifetime_within",
        "limits": "LimitChecks LimitName",
        "listener_proof": "NONCE_CHARS Challenge is_loopback print_listener proof_of",
        "marks": "Mark MarkKey",
        "membership": "MAX_SESSION_TURNS add_agent add_lead end_run open_run remove_agent",
        "peers": "Receiver find_receiver",
        "people": "add_person issue_person_token people_of remove_person",
        "policy_keys": "LimitSetting as_yaml explain_limits explain_settings",
        "project": (
            "CATALOG COMMITTED_FILES JOURNAL POLICY_FILE Project check_folders create_project exclude_from_git "
            "find_catalog find_project "
        ),
        "project_keys": "add_known_key known_keys project_file_state",
        "project_policy": "DEFAULT_POLICY AppliedPolicy Policy apply_policy read_policy",
        "scopes": (
            "MEMORY_SPACE OUTBOX PROJECT_SPACE SHARED_SCOPES UNTRUSTED_SPACE Scope check_may_promote "
            "check_may_write confirmed_space memory_spaces narrower_scope shared_scopes space_of "
            "unconfirmed_space untrusted_spaces visible_spaces wider_space "
        ),
        "signing_keys": "SignatureChecker SigningKey create_signing_key load_signing_key",
        "token_rules": (
            "TokenReads check_alive check_token claims_of first_token issue_token revoke_all_tokens revoke_token "
            "revoke_tokens_of span_of token_of_known_agent visible_tokens "
        ),
        "tokens": "MAX_TOKEN_CHARS TokenClaims TokenKey is_persons_token split_token",
        "turns": (
            "RecordedRead Turn TurnReads after_charge after_close after_deref after_draw after_put close_turn "
            "end_turn present_turn spans_of turn_of "
        ),
        "visibility": "RoleVisibility",
    })

__all__ = [
    "ADMIN", "CATALOG", "COMMITTED_FILES", "DEFAULT_POLICY", "JOURNAL", "LEARN", "MAX_SESSION_TURNS", "MAX_TOKEN_CHARS",
    "MEMORY_SPACE", "NONCE_CHARS", "OUTBOX", "PEOPLE", "POLICY_FILE", "PROJECT_SPACE", "ROLES", "ROLE_PREFIX",
    "SHARED_SCOPES", "UNTRUSTED_SPACE", "Account", "Agent", "AgentAdded", "AgentDismissed", "AgentsBelow",
    "AppliedPolicy", "CallDenied", "Caller", "Challenge", "ContentDrawn", "DerefAnswered", "DerefProved",
    "DerefRequested", "IdentityReads", "InlineBudget", "LeadRole", "LimitChecks", "LimitName", "LimitSetting", "Mark",
    "MarkKey", "Payers", "Policy", "PolicyApplied", "Project", "Receiver", "RecordedRead", "Role", "RoleVisibility",
    "Run", "RunClosed", "RunOpened", "Scope", "SignatureChecker", "SigningKey", "TokenClaims", "TokenIssued",
    "TokenKey", "TokenReads", "TokenSpan", "TokenWithdrawn", "Turn", "TurnBudget", "TurnCharged", "TurnClosed",
    "TurnReads", "add_agent", "add_known_key", "add_lead", "add_person", "after_charge", "after_close", "after_deref",
    "after_draw", "after_put", "apply_policy", "as_yaml", "charge_put", "charge_text", "check_alive", "check_descends",
    "check_folders", "check_may_promote", "check_may_read", "check_may_write", "check_token", "claims_of", "close_turn",
    "confirmed_space", "create_journal_key", "create_project", "create_signing_key", "descends", "draw_content",
    "end_of", "end_run", "end_turn", "exclude_from_git", "explain_limits", "explain_settings", "export_keys",
    "find_agent", "find_catalog", "find_project", "find_receiver", "first_token", "import_keys", "is_loopback",
    "is_person", "is_persons_token", "is_role", "issue_person_token", "issue_token", "known_keys", "lifetime_within",
    "lineage_of", "lineage_of_agent", "load_journal_key", "load_signing_key", "memory_spaces", "narrower_scope",
    "open_run", "parent_of", "payers_of", "people_of", "present_turn", "print_listener", "project_file_state",
    "proof_of", "read_policy", "remove_agent", "remove_person", "revoke_all_tokens", "revoke_token", "revoke_tokens_of",
    "root_of", "shared_scopes", "space_of", "span_of", "spans_of", "split_token", "token_of_known_agent", "turn_of",
    "unconfirmed_space", "untrusted_spaces", "visible_spaces", "visible_tokens", "wider_space", "with_article",
]
