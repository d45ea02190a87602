"""Everything one can do. Each operation is declared once; every edge is made from the declarations."""

from stigmergy.operations.anchoring import anchor_text
from stigmergy.operations.answers import take_answer
from stigmergy.operations.asking import get_engram, query_engrams
from stigmergy.operations.board import work_board
from stigmergy.operations.brief import brief, list_briefs
from stigmergy.operations.catalog import catalog_list_by_lane, catalog_lookup
from stigmergy.operations.contributing import contribute
from stigmergy.operations.declare import OPERATIONS, Command, Operation, Route
from stigmergy.operations.decode import to_request
from stigmergy.operations.engrams import put_engram, put_engrams, put_found
from stigmergy.operations.feed import feed
from stigmergy.operations.gateway import LOCAL_ADMIN, Call, Credential, Gateway
from stigmergy.operations.gc import collect_garbage, pointed_at
from stigmergy.operations.grants import (
    approve_request,
    deny_request,
    issue_grant,
    list_requests,
    request_deref,
    revoke_grant,
)
from stigmergy.operations.keeping import confirm_engram, forget_engram, pin_engram, promote_engram, unpin_engram
from stigmergy.operations.memory import memory_read
from stigmergy.operations.messages import broadcast, inbox, send_message, validate_message
from stigmergy.operations.people import add_agent, agent_token, end_run, list_agents, list_runs, open_run
from stigmergy.operations.pointers import deref_pointer, link_pointer, validate_deref
from stigmergy.operations.ports import Store, View
from stigmergy.operations.remembering import inherit, keep_episode, pin_episode
from stigmergy.operations.reports import record_tests
from stigmergy.operations.reviewing import (
    accept_contribution,
    list_contributions,
    reject_contribution,
    show_contribution,
    withdraw_contribution,
)
from stigmergy.operations.sam import SamResolver
from stigmergy.operations.shared import SharedStores
from stigmergy.operations.stats import stats
from stigmergy.operations.turns import close_turn, team_budget
from stigmergy.operations.upkeep import apply_policy, verify
from stigmergy.operations.work import (
    cancel_tuple,
    list_dead,
    list_work,
    receipt_get,
    receipt_verify,
    tuple_again,
    tuple_dispatch,
    tuple_in,
    tuple_observe,
    tuple_out,
    tuple_rd,
)
from stigmergy.operations.workbench import Workbench
from stigmergy.operations.workplace import Place, Workplace, is_ref, split_place

__all__ = [
    "LOCAL_ADMIN",
    "OPERATIONS",
    "Call",
    "Command",
    "Credential",
    "Gateway",
    "Operation",
    "Place",
    "Route",
    "SamResolver",
    "SharedStores",
    "Store",
    "View",
    "Workbench",
    "Workplace",
    "accept_contribution",
    "add_agent",
    "agent_token",
    "anchor_text",
    "apply_policy",
    "approve_request",
    "brief",
    "broadcast",
    "cancel_tuple",
    "catalog_list_by_lane",
    "catalog_lookup",
    "close_turn",
    "collect_garbage",
    "confirm_engram",
    "contribute",
    "deny_request",
    "deref_pointer",
    "end_run",
    "feed",
    "forget_engram",
    "get_engram",
    "inbox",
    "inherit",
    "is_ref",
    "issue_grant",
    "keep_episode",
    "link_pointer",
    "list_agents",
    "list_briefs",
    "list_contributions",
    "list_dead",
    "list_requests",
    "list_runs",
    "list_work",
    "memory_read",
    "open_run",
    "pin_engram",
    "pin_episode",
    "pointed_at",
    "promote_engram",
    "put_engram",
    "put_engrams",
    "put_found",
    "query_engrams",
    "receipt_get",
    "receipt_verify",
    "record_tests",
    "reject_contribution",
    "request_deref",
    "revoke_grant",
    "send_message",
    "show_contribution",
    "split_place",
    "stats",
    "take_answer",
    "team_budget",
    "to_request",
    "tuple_again",
    "tuple_dispatch",
    "tuple_in",
    "tuple_observe",
    "tuple_out",
    "tuple_rd",
    "unpin_engram",
    "validate_deref",
    "validate_message",
    "verify",
    "withdraw_contribution",
    "work_board",
]
