"""Messages between parents and children, held to their inline budget."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from engrambus.core import new_ulid, parse_duration, print_time, take_within
from engrambus.errors import BudgetExceeded, EngramBusError, FieldValue, SecretFound
from engrambus.evidence.pointers import Pointer, check_pointer
from engrambus.gateway.budgets import MAX_TEXT, inline_budget
from engrambus.gateway.context import Context
from engrambus.gateway.declare import PARENTS, Command, Route, Tool, operation
from engrambus.gateway.ports import View
from engrambus.knowledge.engrams import PreparedEngram, prefix_field, put_all
from engrambus.knowledge.messages import (
    BroadcastSent,
    ChildMessage,
    Message,
    MessageAccepted,
    MessageKind,
    MessageRejected,
    ParentMessage,
    Reading,
    Usage,
    measure,
    message_object,
    print_message,
    read_message,
    resend_template,
)
from engrambus.operations.engrams import prepare_engram
from engrambus.operations.grants import DEFAULT_CAP, parent_of, requested
from engrambus.operations.pastes import Pastes
from engrambus.policy import ADMIN, InlineBudget, TurnClosed, present_turn
from engrambus.policy.grants import VerifiedGrant, check_spend, debits, grant_use, verify
from engrambus.policy.secrets import check_no_secrets

MAX_MAIL = 100


Text = Annotated[str, Meta(max_length=MAX_TEXT, description="The message, as YAML or JSON")]


class SendMessage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a child reports."""

    text: Annotated[str, Meta(max_length=MAX_TEXT, description="YAML: ROLE, TASK_STATUS, ENGRAMS, OUTPUT")]
    budget_token: (
        Annotated[str, Meta(max_length=8192, description="Token of a grant that allows inline code")] | None
    ) = None


class MessageAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    message_id: str
    to: str
    engrams: list[str]
    """The engrams it put or confirmed, in order."""
    requests: list[str]
    """The requests it made, in order."""
    turn: int
    """The turn that is open now."""
    resends: str | None = None
    """The rejection it answers."""


@operation(
    "less.message",
    writes=True,
    route=Route("POST", "/message"),
    command=Command(
        "message",
        section="team",
        example="engrambus message report.yaml",
        renderer="team:message",
        rank=30,
        arguments=("text",),
        override="team:message_file",
    ),
    tool=Tool(hidden=("budget_token",), explained=("text",)),
    text_field="text",
)
def send_message(context: Context, request: SendMessage) -> MessageAnswer:
    """Report to your parent: engrams, pointers and a short answer."""
    reading, pastes = read_text(context, request.text, "child"), Pastes(context.project_files)
    budget, grant = _budget(context, request.budget_token)
    usage, problems = pastes.judge(reading, budget)
    if problems:
        raise sent_back(context, reading, pastes, budget, usage, problems[0])
    message = reading.message
    if not isinstance(message, ChildMessage):
        raise FieldValue("That is not a child's message.", field="text")
    context.evidence.prefetch(
        pair for checked in message.engrams for pair in zip(checked.pointers, checked.addresses, strict=True)
    )
    prepared = []
    for position, checked in enumerate(message.engrams):
        with prefix_field(f"ENGRAMS[{position}]"):
            prepared.append(prepare_engram(context, checked))
    weight = _weight(context, message.pointer_pack, {pointer.ref for each in prepared for pointer in each.pointers})

    def decide(view: View) -> tuple[list[Any], MessageAnswer]:
        return _accept(context, view, message, prepared, usage, grant, weight)

    answer = context.commit(decide, MessageAnswer)
    context.deliver(*(each.checked.scope for each in prepared))
    return answer


def _accept(
    context: Context,
    view: View,
    message: ChildMessage,
    prepared: list[PreparedEngram],
    usage: Usage,
    grant: VerifiedGrant | None,
    weight: int,
) -> tuple[list[Any], MessageAnswer]:
    caller = context.caller
    put, engrams = put_all(
        view, prepared, caller=caller, policy=context.policy, randomness=context.randomness, field="ENGRAMS"
    )
    facts: list[Any] = list(put)
    asked = [
        requested(context, view, wish.pointer.ref, wish.reason, wish.intended_use or "", DEFAULT_CAP)
        for wish in message.deref_requests
    ]
    facts += asked
    if grant is not None and usage.inline_code_chars:
        ids = [block.block_id for block in grant.blocks]
        check_spend(grant, view.spent(ids), 0, view.revoked(ids))
        facts += debits(grant, 0, caller.full_name)
    turn = present_turn(view.turn(caller.run.run_id, caller.name), view.as_of)
    accepted = MessageAccepted(
        message_id=new_ulid(view.as_of, context.randomness),
        run=caller.run.run_id,
        agent=caller.name,
        to=parent_of(context, view),
        text=print_message(message),
        tokens=usage.inline_tokens,
        engrams=tuple(engrams),
        resends=view.open_rejection(caller.run.run_id, caller.name, "child"),
        pointed_tokens=weight,
    )
    facts.append(accepted)
    facts.append(TurnClosed(run=caller.run.run_id, agent=caller.name, turn=turn.number, why="message"))
    answer = MessageAnswer(
        message_id=accepted.message_id,
        to=accepted.to,
        engrams=engrams,
        requests=[fact.request_id for fact in asked],
        turn=turn.number + 1,
        resends=accepted.resends,
    )
    return facts, answer


class Broadcast(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a parent tells its children."""

    text: Text
    to: Annotated[list[str], Meta(max_length=64, description="Send it to this child only; by default to all")] = []


class BroadcastAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    broadcast_id: str
    to: list[str]
    resends: str | None = None
    """The rejection it answers."""


@operation(
    "less.broadcast",
    roles=PARENTS,
    writes=True,
    route=Route("POST", "/broadcast"),
    command=Command(
        "broadcast",
        section="team",
        example="engrambus broadcast brief.yaml",
        renderer="team:broadcast",
        rank=32,
        arguments=("text",),
        override="team:message_file",
    ),
    absent_from={"mcp": "an orchestrator broadcasts; agents report"},
    text_field="text",
)
def broadcast(context: Context, request: Broadcast) -> BroadcastAnswer:
    """Send your child agents what matters, what they may spend and what to do."""
    caller = context.caller
    reading, pastes = read_text(context, request.text, "parent"), Pastes(context.project_files)
    budget, _ = _budget(context, None)
    usage, problems = pastes.judge(reading, budget)
    if problems:
        raise sent_back(context, reading, pastes, budget, usage, problems[0])
    message = reading.message
    if not isinstance(message, ParentMessage):
        raise FieldValue("That is not a parent's message.", field="text")
    weight = _weight(context, message.target_pointer_pack)

    def decide(view: View) -> tuple[list[BroadcastSent], BroadcastAnswer]:
        children = [
            agent.name
            for agent in view.agents(caller.run.run_id)
            if (agent.parent or ADMIN) == caller.name and (not request.to or agent.name in request.to)
        ]
        for name in request.to:
            if name not in children:
                raise FieldValue(f"'{name[:64]}' is not a child of yours.", field="to")
        fact = BroadcastSent(
            broadcast_id=new_ulid(view.as_of, context.randomness),
            run=caller.run.run_id,
            agent=caller.name,
            to=tuple(children),
            text=print_message(_kept(message)),
            tokens=usage.inline_tokens,
            budgets=message.budgets,
            resends=view.open_rejection(caller.run.run_id, caller.name, "parent"),
            pointed_tokens=weight * len(children),
        )
        return [fact], BroadcastAnswer(broadcast_id=fact.broadcast_id, to=children, resends=fact.resends)

    return context.commit(decide, BroadcastAnswer)


class ValidateMessage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message to be judged and not sent."""

    text: Text
    kind: Annotated[MessageKind, Meta(description="Check it as a child's report, or as a parent's broadcast")] = "child"


class ValidateAnswer(Struct, frozen=True, kw_only=True):
    ok: bool
    usage: Usage
    budget: InlineBudget
    problems: list[dict[str, Any]]
    """Everything wrong with it; the first is what sending it would be refused with."""


@operation(
    "less.validate_message",
    route=Route("POST", "/message/validate"),
    command=Command(
        "check",
        section="team",
        example="engrambus check report.yaml",
        renderer="team:message_check",
        rank=34,
        arguments=("text",),
        override="team:message_check",
    ),
    absent_from={"mcp": "sending tells the same"},
    text_field="text",
)
def validate_message(context: Context, request: ValidateMessage) -> ValidateAnswer:
    """Check a message without sending it."""
    budget = inline_budget(context, context.view)
    try:
        usage, problems = Pastes(context.project_files).judge(read_text(context, request.text, request.kind), budget)
    except SecretFound as found:
        usage, problems = measure(request.text), (found,)
    shown = [problem.problem() for problem in problems]
    return ValidateAnswer(ok=not problems, usage=usage, budget=budget, problems=shown)


class ReadInbox(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What lies in the caller's inbox."""

    cursor: Annotated[int, Meta(ge=0, description="Continue where the previous answer ended")] = 0
    k: Annotated[int, Meta(ge=1, le=MAX_MAIL, description="Maximum number of results")] = 20
    max_tokens: Annotated[int, Meta(ge=1, description="Maximum size of the answer, in tokens")] | None = None


class MailRow(Struct, frozen=True, kw_only=True):
    kind: str
    item: str
    sender: str
    at: str
    text: str


class InboxAnswer(Struct, frozen=True, kw_only=True):
    mail: list[MailRow]
    cursor: int
    """Ask again with it for what came later."""


@operation(
    "less.inbox",
    route=Route("GET", "/inbox"),
    command=Command(
        "inbox",
        section="team",
        example="engrambus inbox",
        renderer="team:inbox",
        rank=38,
    ),
    absent_from={"mcp": "hooks deliver it"},
)
def inbox(context: Context, request: ReadInbox) -> InboxAnswer:
    """List what others sent you: reports, broadcasts, requests and grants."""
    caller = context.caller
    found = context.view.mail(caller.run.run_id, caller.name, after=request.cursor, limit=request.k)
    rows = [
        MailRow(kind=mail.kind, item=mail.item, sender=mail.sender, at=print_time(mail.at), text=mail.text)
        for mail in found
    ]
    if request.max_tokens is not None:
        longest = InboxAnswer(mail=[], cursor=1 << 40)
        rows = take_within(longest, rows, request.max_tokens, at_least=min(1, len(rows)))  # no page is empty
    return InboxAnswer(mail=rows, cursor=found[len(rows) - 1].position if rows else request.cursor)


def read_text(context: Context, text: str, kind: MessageKind) -> Reading:
    """What could be read of a text that holds no secret."""
    role = context.caller.role if context.caller.role != ADMIN else None
    reading = read_message(text, kind, max_ttl=parse_duration(context.policy.max_ttl), role=role)
    sections = message_object(_kept(reading.message)) if reading.message is not None else {}
    check_no_secrets({**sections, "text": text})  # by its sections first, escapes undone
    return reading


def _kept(message: Message) -> Message:
    """What is kept of a message: a parent's budget tokens are for the children, not for the journal."""
    return msgspec.structs.replace(message, grants=()) if isinstance(message, ParentMessage) else message


def _weight(context: Context, pack: Sequence[Pointer], besides: Collection[str] = ()) -> int:
    """What stands behind a pack of pointers, in tokens, each of them once."""
    checked = (check_pointer(pointer) for pointer in pack)
    fresh = {pointer.ref: (pointer, address) for pointer, address in checked if pointer.ref not in besides}
    return sum(context.evidence.count_tokens(*each) for each in fresh.values())


def _budget(context: Context, token: str | None) -> tuple[InlineBudget, VerifiedGrant | None]:
    """What the caller's message may hold: the project's budget, lowered by its parents, and code by a grant."""
    with context.store.read() as view:
        budget = inline_budget(context, view)
        if token is None:
            return budget, None
        grant = verify(context.grant_key, token, **grant_use(view, context.caller, None))
    code = max(budget.max_inline_code_chars, grant.inline_code_chars)
    return msgspec.structs.replace(budget, max_inline_code_chars=code), grant


def sent_back(
    context: Context,
    reading: Reading,
    pastes: Pastes,
    budget: InlineBudget,
    usage: Usage,
    problem: EngramBusError,
) -> EngramBusError:
    """The refusal; one for its size is counted, and carries a message to send instead."""
    if not isinstance(problem, BudgetExceeded):
        return problem
    caller = context.caller
    pasted = pastes.recognise(reading.text)
    problem.resend = resend_template(reading, budget, pasted, code_chars=pastes.code_chars)
    check_no_secrets(problem.resend)
    exceeded = tuple(str(each["what"]) for each in problem.exceeded)

    def decide(view: View) -> tuple[list[MessageRejected], MessageRejected]:
        fact = MessageRejected(
            rejection_id=new_ulid(view.as_of, context.randomness),
            run=caller.run.run_id,
            agent=caller.name,
            tokens=usage.inline_tokens,
            exceeded=exceeded,
            kind=reading.kind,
        )
        return [fact], fact

    context.commit(decide, MessageRejected)
    return problem
