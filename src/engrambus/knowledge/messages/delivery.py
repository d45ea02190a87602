"""The rules of delivering a message: accepting a report, sending a broadcast, recording a rejection.

Each rule takes a view of the store under the write lock and returns facts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from engrambus.core import Randomness, new_ulid
from engrambus.errors import BudgetExceeded, FieldValue
from engrambus.evidence.pointers import Evidence, Pointer, check_pointer
from engrambus.knowledge.engrams import PreparedEngram, put_all
from engrambus.knowledge.messages.budget import MessageUsage
from engrambus.knowledge.messages.facts import BroadcastSent, MessageAccepted, MessageRejected
from engrambus.knowledge.messages.layout import print_message
from engrambus.knowledge.messages.ports import MessageView
from engrambus.knowledge.messages.values import ChildMessage, Message, MessageKind, ParentMessage
from engrambus.policy import ADMIN, Caller, LimitChecks, Policy, TurnClosed, parent_of, turn_of
from engrambus.policy.grants import VerifiedGrant, check_balance, debits, request_deref

REQUESTED_TOKENS = 400
"""Tokens that a request in a message asks for."""


class PreparedReport(msgspec.Struct, frozen=True, kw_only=True):
    """A child's message that was checked and needs only the store to be accepted."""

    message: ChildMessage
    engrams: Sequence[PreparedEngram]
    usage: MessageUsage
    grant: VerifiedGrant | None
    """The grant that allows its inline code."""
    pointed_tokens: int


class AcceptedReport(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of accepting a report."""

    message: MessageAccepted
    request_ids: list[str]
    next_turn: int


def accept_report(
    view: MessageView,
    report: PreparedReport,
    *,
    caller: Caller,
    policy: Policy,
    limits: LimitChecks,
    randomness: Randomness,
) -> tuple[list[Any], AcceptedReport]:
    """Put a report's engrams, record its requests, deliver it to the caller's parent and close the caller's turn."""
    put_facts, engram_ids = put_all(
        view,
        report.engrams,
        caller=caller,
        policy=policy,
        limits=limits,
        randomness=randomness,
        field="ENGRAMS",
        in_message=True,
    )
    requests = [
        request_deref(
            view,
            caller=caller,
            ref=request.pointer.ref,
            reason=request.reason,
            intended_use=request.intended_use or "",
            max_tokens=REQUESTED_TOKENS,
            randomness=randomness,
        )
        for request in report.message.deref_requests
    ]
    facts: list[Any] = [*put_facts, *requests]
    if report.grant is not None and report.usage.inline_code_chars:
        # A grant pays for inline code with one of its uses, not with tokens: those are for reading.
        check_balance(view, report.grant, 0)
        facts += debits(report.grant, 0, caller.full_name)
    run_id = caller.run.run_id
    turn = turn_of(view, run_id, caller.name)
    accepted = MessageAccepted(
        message_id=new_ulid(view.as_of, randomness),
        run=run_id,
        agent=caller.name,
        to=parent_of(view, caller),
        text=print_message(report.message),
        tokens=report.usage.inline_tokens,
        engrams=tuple(engram_ids),
        resends=view.open_rejection(run_id, caller.name, "child"),
        pointed_tokens=report.pointed_tokens,
    )
    facts += (accepted, TurnClosed(run=run_id, agent=caller.name, turn=turn.number, why="message"))
    return facts, AcceptedReport(
        message=accepted, request_ids=[fact.request_id for fact in requests], next_turn=turn.number + 1
    )


def send_broadcast(
    view: MessageView,
    message: ParentMessage,
    *,
    caller: Caller,
    to: Sequence[str],
    usage: MessageUsage,
    pointed_tokens: int,
    randomness: Randomness,
) -> BroadcastSent:
    """Send a message to the caller's children: to those named in `to`, or to all of them if it is empty."""
    run_id = caller.run.run_id
    children = [
        agent.name
        for agent in view.agents(run_id)
        if (agent.parent or ADMIN) == caller.name and (not to or agent.name in to)
    ]
    for name in to:
        if name not in children:
            raise FieldValue(f"'{name[:64]}' is not a child of '{caller.name}'.", field="to")
    return BroadcastSent(
        broadcast_id=new_ulid(view.as_of, randomness),
        run=run_id,
        agent=caller.name,
        to=tuple(children),
        text=print_message(without_budget_tokens(message)),
        tokens=usage.inline_tokens,
        budgets=message.budgets,
        resends=view.open_rejection(run_id, caller.name, "parent"),
        pointed_tokens=pointed_tokens * len(children),
    )


def reject_message(
    view: MessageView,
    refusal: BudgetExceeded,
    *,
    caller: Caller,
    kind: MessageKind,
    usage: MessageUsage,
    randomness: Randomness,
) -> MessageRejected:
    """Record that a message was over its budget, so that the next accepted one counts as its resend."""
    return MessageRejected(
        rejection_id=new_ulid(view.as_of, randomness),
        run=caller.run.run_id,
        agent=caller.name,
        tokens=usage.inline_tokens,
        # Only names and numbers: the text may contain what must not be stored.
        exceeded=tuple(str(excess["what"]) for excess in refusal.exceeded),
        kind=kind,
    )


def without_budget_tokens(message: Message) -> Message:
    """Return the message as it may be stored: budget tokens are for the children and never reach the journal."""
    return msgspec.structs.replace(message, grants=()) if isinstance(message, ParentMessage) else message


def pointed_tokens(evidence: Evidence, pointers: Sequence[Pointer], exclude: Collection[str] = ()) -> int:
    """Return the tokens of content behind some pointers, each counted once, without the refs in `exclude`."""
    checked = (check_pointer(pointer) for pointer in pointers)
    distinct = {pointer.ref: (pointer, address) for pointer, address in checked if pointer.ref not in exclude}
    return sum(evidence.count_tokens(pointer, address) for pointer, address in distinct.values())
