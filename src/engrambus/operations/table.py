"""Everything one can do, and where it is declared: the module is loaded with the first call."""

from __future__ import annotations

from engrambus.gateway.declare import Operations

OPERATIONS = Operations(
    __package__,
    {
        "anchoring": "anchor_text",
        "engrams": "put_engram put_found put_engrams",
        "pointers": "deref_pointer validate_deref link_pointer",
        "grants": ("issue_grant revoke_grant request_deref list_requests approve_request deny_request"),
        "messages": "send_message broadcast validate_message inbox",
        "turns": "close_turn team_budget",
        "answers": "take_answer",
        "asking": "query_engrams get_engram",
        "board": "work_board",
        "brief": "brief list_briefs",
        "catalog": "catalog_lookup catalog_list_by_lane",
        "remembering": "keep_episode pin_episode inherit",
        "contributing": "contribute",
        "feed": "feed",
        "gc": "collect_garbage",
        "keeping": "forget_engram confirm_engram promote_engram pin_engram unpin_engram",
        "memory": "memory_read",
        "people": "open_run end_run list_runs add_agent agent_token list_agents",
        "work": (
            "tuple_dispatch tuple_out tuple_rd tuple_in tuple_observe list_work list_dead tuple_again cancel_tuple"
        ),
        "receipts": "receipt_get receipt_verify",
        "reports": "record_tests",
        "reviewing": (
            "list_contributions show_contribution accept_contribution reject_contribution withdraw_contribution"
        ),
        "stats": "stats",
        "upkeep": "apply_policy verify",
    },
)
"""By name, in the order every edge shows them."""
