"""Every operation by the module that declares it. A module is loaded with the first call.

Generated from the `@operation` declarations by tools/generate.py.
"""

from __future__ import annotations

from engrambus.gateway.declare import Operations

# fmt: off
OPERATIONS = Operations(__package__, {
    "admin": "apply_policy show_policy",
    "adoption": "adopt_knowledge",
    "answers": "take_answer",
    "artifacts": "store_artifact",
    "batches": "spawn_batch show_batch list_batches compress_batch prune_batch",
    "brief": "brief list_briefs",
    "catalog": "catalog_lookup catalog_list_by_lane",
    "claim_confirmation": "confirm_several",
    "contradictions": "list_contradictions decide_contradiction",
    "cortex": "keep_episode pin_episode contribute",
    "deref_requests": "request_deref list_requests approve_request deny_request",
    "engram_feed": "feed",
    "engram_queries": "query_engrams query_by_embedding get_engram show_engram",
    "engrams": "put_engram put_found put_engrams forget_engram confirm_engram promote_engram pin_engram unpin_engram",
    "evidence_check": "check_evidence",
    "gate": "check_gate override_gate list_gate_overrides",
    "gc": "collect_garbage",
    "grants": "issue_grant narrow_grant list_grants revoke_grant",
    "inbox": "inbox read_mail",
    "learn": "learn_repository read_learned",
    "limits": "limit_set limit_list limit_remove work_pause work_unpause",
    "long_texts": "put_text",
    "memory_read": "memory_read",
    "messages": "send_message broadcast validate_message",
    "people": "add_person person_token list_people remove_person whoami",
    "pointers": "deref_pointer validate_deref link_pointer anchor_text",
    "promotions": "list_promotions approve_promotion decline_promotion",
    "recall": "recall",
    "receipt_list": "receipt_list",
    "receipts": "receipt_get receipt_verify record_tests",
    "reservations": "reserve list_reservations release_reservations check_reservations",
    "review": "list_contributions show_contribution accept_contribution reject_contribution withdraw_contribution",
    "runs": "open_run end_run list_runs add_agent add_lead remove_agent list_agents",
    "schedules": (
        "add_schedule list_schedules show_schedule pause_schedule resume_schedule remove_schedule "
        "run_schedule "
    ),
    "sharing": "export_engrams import_shared",
    "snapshots": "inherit show_snapshot",
    "stats": "stats",
    "task_changes": "block_task unblock_task give_task release_tasks cancel_task",
    "tasks": "add_task list_tasks ready_tasks claim_task show_task finish_task",
    "tokens": "agent_token list_tokens revoke_tokens",
    "tuples": "tuple_dispatch tuple_out tuple_rd tuple_in tuple_observe list_dead tuple_again cancel_tuple",
    "turns": "close_turn team_budget",
    "verification": "verify",
    "why": "why",
    "work_board": "work_board list_work",
})
