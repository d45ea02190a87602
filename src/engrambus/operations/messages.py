"""Messages between agents: reports, notes and broadcasts, and a check of one before it is sent."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from engrambus.errors import EngramBusError, FieldValue, GrantRefusal, SecretFound
from engrambus.gateway.context import Context
from engrambus.gateway.declare import PARENTS, Command, Route, Tool, operation
from engrambus.gateway.limit_warnings import warning_problem
from engrambus.gateway.ports import View
from engrambus.gateway.refusal_texts import hide_secrets_in

# decision 39: these packages load a module with its first use, so a hook that submits prose does not load the parser
from engrambus.knowledge import engrams, messages
from engrambus.knowledge.messages import (
    MAX_MESSAGE_CHARS,
    MessageKind,
    MessageUsage,
    inline_budget,
)
from engrambus.operations.engram_uses import UsedIds, resolve_used
from engrambus.operations.message_texts import (
    check_stored_text,
    check_text,
    granted_code,
    name_code,
    open_grant,
    parse_text,
    reject_text,
)
from engrambus.operations.near_claims import find_near, with_contradictions
from engrambus.policy import ADMIN, InlineBudget

Text = Annotated[str, Meta(max_length=MAX_MESSAGE_CHARS, description="The message, as YAML or JSON")]


class SendMessage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A report to the parent, or a message to the agent in `to`."""

    text: Annotated[str, Meta(max_length=MAX_MESSAGE_CHARS, description="YAML: ROLE, TASK_STATUS, ENGRAMS, OUTPUT")]
    to: Annotated[str, Meta(max_length=96, description="This agent instead, plain words too")] | None = None
    budget_token: (
        Annotated[str, Meta(max_length=8192, description="Budget token of a grant that allows inline code")] | None
    ) = None
    used: UsedIds = []


class MessageAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    message_id: str
    to: str
    engrams: list[str]
    """Ids of the engrams that the message put or confirmed, in order."""
    requests: list[str]
    """Ids of the requests that the message made, in order."""
    turn: int
    """Number of the turn that is open now."""
    resends: str | None = None
    """Id of the rejection that the message answers."""


@operation(
    "less.message",
    writes=True,
    route=Route("POST", "/message"),
    command=Command(
        "message",
        section="team",
        example="engrambus message report.yaml --dry-run",
        renderer="team:message",
        rank=30,
        arguments=("text",),
        override="team:message",
    ),
    tool=Tool(hidden=("budget_token", "used"), explained=("text", "to")),
    text_field="text",
)
def send_message(context: Context, request: SendMessage) -> MessageAnswer:
    """Report to your parent: engrams, pointers and a short answer.

    The file has the sections ROLE, TASK_STATUS, ENGRAMS, POINTER_PACK, DEREF_REQUESTS and OUTPUT. A message with more
    text than the budget allows is refused, with a shorter one to send instead. With --to, write to another lead, to a
    descendant or, as a person, to any agent; plain words are enough then. With --dry-run, the message is only checked;
    the exit status is 1 if it would be refused.
    """
    is_note = request.to is not None and not messages.looks_like_report(request.text)
    report = _prepare_note(context, request) if is_note else prepare_report(context, request)
    return deliver_report(context, request, report)


def deliver_report(context: Context, request: SendMessage, report: messages.PreparedReport) -> MessageAnswer:
    """Deliver a checked message to its receiver."""
    near = find_near(context, report.engrams)

    def decide(view: View) -> tuple[list[Any], MessageAnswer]:
        facts, accepted = messages.accept_report(
            view,
            report,
            caller=context.caller,
            to=request.to,
            policy=context.policy,
            limits=context.limits,
            randomness=context.randomness,
        )
        sent = accepted.message
        return with_contradictions(context, view, facts, near), MessageAnswer(
            message_id=sent.message_id,
            to=sent.to if sent.to_run is None else f"{sent.to_run}/{sent.to}",
            engrams=list(sent.engrams),
            requests=list(sent.requests),
            turn=accepted.next_turn,
            resends=sent.resends,
        )

    # A person writes into the run of the receiver; that one must not have ended.
    answer = context.commit(decide, MessageAnswer, in_run=context.caller.role != ADMIN or request.to is None)
    from engrambus.operations.evidence_renewal import follow_repeated_ids  # decision 39: prose needs none of it

    follow_repeated_ids(context, report.engrams, answer.engrams)
    context.deliver(*(engram.checked.scope for engram in report.engrams))
    return answer


def prepare_report(context: Context, request: SendMessage) -> messages.PreparedReport:
    """Check a message in the published form and resolve what it points at."""
    checked = check_text(context, request.text, "child", request.budget_token)
    message = checked.message
    if not isinstance(message, messages.ChildMessage):
        raise FieldValue("This is not a child's message.", field="text")
    prepared = _prepare_engrams(context, message)
    messages.check_evidence_to_read(message, context.evidence)
    return messages.PreparedReport(
        message=message,
        engrams=prepared,
        used=_resolve_used(context, message, request.used),
        usage=checked.usage,
        grant=checked.grant,
        pointed=messages.find_pointed(
            context.evidence,
            [*message.pointer_pack, *(pointer for engram in prepared for pointer in engram.pointers)],
        ),
    )


def _prepare_note(context: Context, request: SendMessage) -> messages.PreparedReport:
    """Check plain words against the limits of a message."""
    words = messages.note_text(request.text)
    check_stored_text(context, {"text": words})
    with context.store.read() as view:
        budget = inline_budget(view, context.policy, context.caller)
    counter = messages.CodeCounter(context.project_files)
    usage, refusal = messages.check_prose_budget(words, budget, context.limits, counter.count)
    if refusal is not None:
        raise reject_text(context, parse_text(context, request.text, "child"), budget, usage, refusal, counter)
    used = resolve_used(context, request.used)
    return messages.PreparedReport(message=words, engrams=(), usage=usage, grant=None, used=used)


class Broadcast(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A parent's message to its children."""

    text: Text
    to: Annotated[
        list[str], Meta(max_length=64, description="Send it to this child or role only, such as role:programmer")
    ] = []
    used: UsedIds = []
    with_limits: Annotated[
        bool, Meta(description="Show the children the limits in force that BUDGETS does not name")
    ] = False


class BroadcastAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    broadcast_id: str
    to: list[str]
    resends: str | None = None
    """Id of the rejection that the broadcast answers."""


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
        override="team:broadcast_file",
    ),
    tool=Tool(part_of="less_inbox", action="broadcast", hidden=("used", "with_limits")),
    text_field="text",
    agent_fields=("to",),
    role_fields=("to",),
)
def broadcast(context: Context, request: Broadcast) -> BroadcastAnswer:
    """Send your child agents what matters, what they may spend and what to do.

    The file has the sections ROLE, SHARED_BRIEF_MICRO, BUDGETS, GRANTS, TARGET_POINTER_PACK and INSTRUCTIONS. Your
    children are the agents you added. Budgets can only be lowered.
    """
    checked = check_text(context, request.text, "parent")
    message = checked.message
    if not isinstance(message, messages.ParentMessage):
        raise FieldValue("This is not a parent's message.", field="text")
    messages.check_evidence_to_read(message, context.evidence)
    used = _resolve_used(context, message, request.used)

    def decide(view: View) -> tuple[list[Any], BroadcastAnswer]:
        facts, sent = messages.send_broadcast(
            view,
            message,
            caller=context.caller,
            to=request.to,
            usage=checked.usage,
            find_pointed=lambda pointers: messages.find_pointed(context.evidence, pointers),
            grant_key=context.grant_key,
            randomness=context.randomness,
            used=used,
            policy=context.policy if request.with_limits else None,
        )
        return facts, BroadcastAnswer(broadcast_id=sent.broadcast_id, to=list(sent.to), resends=sent.resends)

    answer = context.commit(decide, BroadcastAnswer)
    if context.ahead is not None:
        context.ahead.add([*(note.pointer for note in message.grants), *message.target_pointer_pack])
    return answer


class ValidateMessage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message to check without sending it."""

    text: Text
    kind: Annotated[MessageKind, Meta(description="Check it as a child's report, or as a parent's broadcast")] = "child"


class ValidateAnswer(Struct, frozen=True, kw_only=True):
    ok: bool
    usage: MessageUsage
    budget: InlineBudget
    problems: list[dict[str, Any]]
    """All problems; the first is the one that sending the message would be refused with."""
    warnings: list[dict[str, Any]] = []
    """Exceeded limits that the policy does not enforce for the caller's role."""


@operation(
    "less.validate_message",
    route=Route("POST", "/message/validate"),
    absent_from={"cli": "`engrambus message FILE --dry-run` and `broadcast FILE --dry-run` do it"},
    tool=Tool(part_of="less_inbox", action="validate", hidden=("kind",)),
    text_field="text",
)
def validate_message(context: Context, request: ValidateMessage) -> ValidateAnswer:
    """Check a message without sending it."""
    budget = inline_budget(context.view, context.policy, context.caller)
    problems: tuple[EngramBusError, ...]
    limits = context.policy.checks(context.caller.role)  # not the call's: a check exceeds nothing
    try:
        parsed = parse_text(context, request.text, request.kind)
        counter = messages.CodeCounter(context.project_files, parsed.message)
        granted = granted_code(context, open_grant(context, context.view, parsed, None), counter)
        usage, problems = messages.check_budget(parsed, budget, limits, counter.count, granted)
        if parsed.message is not None:
            problems += tuple(messages.evidence_problems(parsed.message, context.evidence))
        problems += _resend_problems(context, parsed)
        name_code(problems[0] if problems else None, parsed.message, counter)
    except (SecretFound, GrantRefusal) as problem:
        usage, problems = messages.measure(request.text), (problem,)
    return ValidateAnswer(
        ok=not problems,
        usage=usage,
        budget=budget,
        problems=[hide_secrets_in(problem).problem() for problem in problems],
        warnings=[warning_problem(hide_secrets_in(warning)) for warning in limits.warnings],
    )


def _resend_problems(context: Context, parsed: messages.ParsedMessage) -> tuple[EngramBusError, ...]:
    try:
        named = parsed.message.resends if parsed.message is not None else None
        messages.find_resent(context.view, context.caller, parsed.kind, named, ())
    except FieldValue as problem:
        return (problem,)
    return ()


def _resolve_used(context: Context, message: messages.Message, ids: list[str]) -> tuple[str, ...]:
    """Return the engrams that a message used, as its section USED and the field of the request name them."""
    named = (*resolve_used(context, message.used, "USED"), *resolve_used(context, ids))
    return engrams.read_used(list(dict.fromkeys(named)))


def _prepare_engrams(context: Context, message: messages.ChildMessage) -> list[engrams.PreparedEngram]:
    # decision 14: git is asked once for all files that the message points at
    context.evidence.prefetch(
        pair for checked in message.engrams for pair in zip(checked.pointers, checked.addresses, strict=True)
    )
    prepared = []
    for position, checked in enumerate(message.engrams):
        with engrams.prefix_field(f"ENGRAMS[{position}]", context.limits):
            prepared.append(
                engrams.prepare(
                    checked,
                    caller=context.caller,
                    policy=context.policy,
                    limits=context.limits,
                    evidence=context.evidence,
                    repositories=context.project_files.repositories,
                    used=resolve_used(context, checked.used),
                )
            )
    return prepared
