"""Messages between parents and children: reports, broadcasts, final answers and the inbox."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct, structs

from engrambus.core import estimate_tokens, new_ulid, parse_duration
from engrambus.errors import BudgetExceeded, EngramBusError, FieldValue, GrantRefusal, MessageEmpty, SecretFound
from engrambus.gateway.context import Context
from engrambus.gateway.declare import PARENTS, Command, Route, Tool, operation
from engrambus.gateway.limit_warnings import warning_problem
from engrambus.gateway.ports import View

# decision 39: these packages load a module with its first use, so a hook that submits prose does not load the parser
from engrambus.knowledge import engrams, messages
from engrambus.knowledge.messages import (
    MAX_MESSAGE_CHARS,
    MessageKind,
    MessageRejected,
    MessageUsage,
    inline_budget,
)
from engrambus.operations.artifacts import charge_bodies, store_bodies
from engrambus.operations.engram_uses import UsedIds, resolve_used
from engrambus.policy import ADMIN, InlineBudget, end_turn, grants
from engrambus.policy.secrets import check_no_secrets

BUDGET_TOKEN = "BUDGET_TOKEN"  # noqa: S105  # a section of a message

Text = Annotated[str, Meta(max_length=MAX_MESSAGE_CHARS, description="The message, as YAML or JSON")]


class SendMessage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A report to the parent, or a message to the agent in `to`."""

    text: Annotated[str, Meta(max_length=MAX_MESSAGE_CHARS, description="YAML: ROLE, TASK_STATUS, ENGRAMS, OUTPUT")]
    to: Annotated[str, Meta(max_length=96, description="Write to this agent instead, plain words too")] | None = None
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
        example="engrambus message report.yaml",
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
    descendant or, as a person, to any agent; plain words are enough then.
    """
    is_note = request.to is not None and not messages.looks_like_report(request.text)
    return _send(context, request, _prepare_note(context, request) if is_note else _prepare_report(context, request))


def _send(context: Context, request: SendMessage, report: messages.PreparedReport) -> MessageAnswer:
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
        return facts, MessageAnswer(
            message_id=sent.message_id,
            to=sent.to if sent.to_run is None else f"{sent.to_run}/{sent.to}",
            engrams=list(sent.engrams),
            requests=list(sent.requests),
            turn=accepted.next_turn,
            resends=sent.resends,
        )

    # A person writes into the run of the receiver; that one must not have ended.
    answer = context.commit(decide, MessageAnswer, in_run=context.caller.role != ADMIN or request.to is None)
    context.deliver(*(engram.checked.scope for engram in report.engrams))
    return answer


def _prepare_report(context: Context, request: SendMessage) -> messages.PreparedReport:
    """Check a message in the published form and resolve what it points at."""
    checked = _check_text(context, request.text, "child", request.budget_token)
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
        pointed_tokens=messages.pointed_tokens(
            context.evidence,
            message.pointer_pack,
            exclude={pointer.ref for engram in prepared for pointer in engram.pointers},
        ),
    )


def _prepare_note(context: Context, request: SendMessage) -> messages.PreparedReport:
    """Check plain words against the limits of a message."""
    words = messages.note_text(request.text)
    check_no_secrets({"text": words})
    with context.store.read() as view:
        budget = inline_budget(view, context.policy, context.caller)
    counter = messages.CodeCounter(context.project_files)
    usage, refusal = messages.check_prose_budget(words, budget, context.limits, counter.count)
    if refusal is not None:
        raise _reject(context, _parse(context, request.text, "child"), budget, usage, refusal, counter)
    used = resolve_used(context, request.used)
    return messages.PreparedReport(message=words, engrams=(), usage=usage, grant=None, pointed_tokens=0, used=used)


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
        override="team:message_file",
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
    checked = _check_text(context, request.text, "parent")
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
            count_tokens=lambda pointers: messages.pointed_tokens(context.evidence, pointers),
            grant_key=context.grant_key,
            randomness=context.randomness,
            used=used,
            policy=context.policy if request.with_limits else None,
        )
        return facts, BroadcastAnswer(broadcast_id=sent.broadcast_id, to=list(sent.to), resends=sent.resends)

    return context.commit(decide, BroadcastAnswer)


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
    command=Command(
        "check",
        section="team",
        example="engrambus check report.yaml",
        renderer="team:message_check",
        rank=34,
        arguments=("text",),
        override="team:message_check",
    ),
    tool=Tool(part_of="less_inbox", action="validate", hidden=("kind",)),
    text_field="text",
)
def validate_message(context: Context, request: ValidateMessage) -> ValidateAnswer:
    """Check a message without sending it.

    The exit status is 1 if it would be refused.
    """
    budget = inline_budget(context.view, context.policy, context.caller)
    problems: tuple[EngramBusError, ...]
    limits = context.policy.checks(context.caller.role)  # not the call's: a check exceeds nothing
    try:
        parsed = _parse(context, request.text, request.kind)
        counter = messages.CodeCounter(context.project_files, parsed.message)
        granted = _granted_code(context, _open_grant(context, context.view, parsed, None), counter)
        usage, problems = messages.check_budget(parsed, budget, limits, counter.count, granted)
        if parsed.message is not None:
            problems += tuple(messages.evidence_problems(parsed.message, context.evidence))
        problems += _resend_problems(context, parsed)
        _name_code(problems[0] if problems else None, parsed.message, counter)
    except (SecretFound, GrantRefusal) as problem:
        usage, problems = messages.measure(request.text), (problem,)
    return ValidateAnswer(
        ok=not problems,
        usage=usage,
        budget=budget,
        problems=[problem.problem() for problem in problems],
        warnings=[warning_problem(warning) for warning in limits.warnings],
    )


def _resend_problems(context: Context, parsed: messages.ParsedMessage) -> tuple[EngramBusError, ...]:
    try:
        named = parsed.message.resends if parsed.message is not None else None
        messages.find_resent(context.view, context.caller, parsed.kind, named, ())
    except FieldValue as problem:
        return (problem,)
    return ()


class TakeAnswer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An agent's final answer."""

    text: Annotated[
        str, Meta(max_length=MAX_MESSAGE_CHARS, description="The answer: a message (YAML or JSON), or plain prose")
    ]
    handed_over: Annotated[
        bool,
        Meta(
            description="The parent gets the whole text from its client: it must fit the budget, and is not announced"
        ),
    ] = False
    sent_back: Annotated[bool, Meta(description="It was sent back once: prose is kept, whatever its size")] = False
    budget_token: (
        Annotated[str, Meta(max_length=8192, description="Budget token of a grant that allows inline code")] | None
    ) = None


class AnswerTaken(Struct, frozen=True, kw_only=True, omit_defaults=True):
    tokens: int
    """Tokens that its reader pays."""
    turn: int
    """Number of the turn that is open now."""
    message_id: str | None = None
    """Id of the message that the parent received; none for an answer without words that its client handed over."""
    to: str | None = None
    """The parent that received it."""
    engrams: list[str] = []
    """Ids of the engrams that it put or confirmed, in order."""
    requests: list[str] = []
    """Ids of the requests that it made, in order."""
    resends: str | None = None
    """Id of the rejection that it answers."""
    pointer: str | None = None
    """Pointer to the whole prose; none if the message says everything."""
    pointers: list[str] = []
    """Pointers in the place of code, in order: to lines of the repository, or to an artifact that was stored."""
    text: str | None = None
    """The prose with these pointers; none if it had no code."""


@operation(
    "less.answer",
    writes=True,
    route=Route("POST", "/answer"),
    command=Command(
        "answer",
        section="team",
        example="engrambus answer answer.txt --as coder-1",
        renderer="team:final_answer",
        rank=36,
        arguments=("text",),
        override="team:answer_file",
    ),
    absent_from={"mcp": "hooks hand answers in; agents report with less.message"},
    text_field="text",
)
def take_answer(context: Context, request: TakeAnswer) -> AnswerTaken:
    """Submit an agent's final answer, a message or plain prose, to its parent.

    Prose is kept whole as an artifact; the parent receives its first sentences and the pointer. Code in it is stored
    apart, and the answer names its pointer.
    """
    if messages.looks_like_report(request.text):
        message = SendMessage(text=request.text, budget_token=request.budget_token)
        report = structs.replace(_prepare_report(context, message), is_known=request.handed_over)
        sent = _send(context, message, report)
        return AnswerTaken(
            tokens=estimate_tokens(request.text),
            turn=sent.turn,
            message_id=sent.message_id,
            to=sent.to,
            engrams=sent.engrams,
            requests=sent.requests,
            resends=sent.resends,
        )
    check_no_secrets({"text": request.text})
    with context.store.read() as view:
        budget = inline_budget(view, context.policy, context.caller)
    counter = messages.CodeCounter(context.project_files)
    prose = messages.Extraction(request.text, ())
    if context.limits.is_enforced("inline_code") and counter.count(request.text) > budget.max_inline_code_chars:
        prose = messages.extract_code(request.text, counter)
    summed_up = messages.report_prose(prose, context.caller.role, budget.max_inline_tokens)
    tokens = summed_up.tokens
    # decision 60: the budget counts what the parent reads: the report, or all of it where its client hands it over
    if request.handed_over:
        usage, refusal = messages.check_prose_budget(prose.text, budget, context.limits, counter.count)
        tokens = usage.inline_tokens
    elif request.text.strip():
        usage, refusal = messages.check_prose_budget(summed_up.text, budget, context.limits, lambda text: 0)
    else:
        raise MessageEmpty(field="text")
    if refusal is not None and not (request.handed_over and request.sent_back):
        raise _reject(context, _parse(context, request.text, "child"), budget, usage, refusal, counter)
    _store_bodies(context, prose, summed_up)
    taken = _deliver_prose(context, request, summed_up, tokens)
    if not prose.placed:
        return taken
    # Added after the commit: an answer that is remembered for its idempotency key must hold no prose.
    return structs.replace(taken, pointers=[code.ref for code in prose.placed], text=prose.text)


def _deliver_prose(context: Context, request: TakeAnswer, report: messages.ProseReport, tokens: int) -> AnswerTaken:
    def decide(view: View) -> tuple[list[Any], AnswerTaken]:
        caller = context.caller
        if not request.text.strip():
            facts, turn = end_turn(view, caller.run.run_id, caller.name, "subagent_stop")
            return facts, AnswerTaken(tokens=0, turn=turn)
        all_facts, accepted, turn = messages.accept_prose(
            view,
            report,
            caller=caller,
            tokens=tokens,
            is_known=request.handed_over,
            was_sent_back=request.sent_back,
            randomness=context.randomness,
        )
        return all_facts, AnswerTaken(
            tokens=tokens,
            turn=turn,
            message_id=accepted.message_id,
            to=accepted.to,
            resends=accepted.resends,
            pointer=report.pointer,
        )

    return context.commit(decide, AnswerTaken)


def _store_bodies(context: Context, prose: messages.Extraction, report: messages.ProseReport) -> None:
    """Store what the report points at: the whole answer, and blocks of code with no line in the repository."""
    code = dict.fromkeys(block.body for block in prose.placed if block.body is not None)
    bodies = [*([report.whole] if report.whole is not None else []), *code]
    if not bodies:
        return
    if context.caller.spoken_by is None:  # a hook's answer ends the turn; another could be repeated
        charge_bodies(context, bodies)
    store_bodies(context, bodies, "answer.txt")


class _CheckedText(NamedTuple):
    """A text that was parsed and is within its budget."""

    message: messages.Message | None
    usage: MessageUsage
    grant: grants.VerifiedGrant | None


def _check_text(context: Context, text: str, kind: MessageKind, budget_token: str | None = None) -> _CheckedText:
    """Parse a text and check it against the caller's budget; refuse it with the first problem."""
    parsed = _parse(context, text, kind)
    with context.store.read() as view:
        budget = inline_budget(view, context.policy, context.caller)
        grant = _open_grant(context, view, parsed, budget_token)
    counter = messages.CodeCounter(context.project_files, parsed.message)
    granted = _granted_code(context, grant, counter)
    usage, problems = messages.check_budget(parsed, budget, context.limits, counter.count, granted)
    if problems:
        raise _reject(context, parsed, budget, usage, problems[0], counter)
    return _CheckedText(parsed.message, usage, grant)


def _parse(context: Context, text: str, kind: MessageKind) -> messages.ParsedMessage:
    """Parse a text, and refuse it if it has a secret."""
    role = context.caller.role if context.caller.role != ADMIN else None
    max_ttl_us = parse_duration(context.policy.max_ttl)
    parsed = messages.parse_message(text, kind, max_ttl_us=max_ttl_us, role=role, completer=context.completer)
    sections: dict[str, Any] = {}
    if parsed.message is not None:
        sections = messages.message_sections(messages.as_stored(parsed.message))
    # The sections come first: their escapes are undone, and a secret in them is reported with its field.
    check_no_secrets({**sections, "text": text})
    return parsed


def _open_grant(
    context: Context, view: View, parsed: messages.ParsedMessage, budget_token: str | None
) -> grants.VerifiedGrant | None:
    """Return the grant that may allow code in a message, by the token in the request or in the message."""
    in_message = parsed.parts.get("budget_token")
    token = budget_token or in_message
    if token is None:
        return None
    if in_message is not None and token != in_message:
        raise FieldValue("The message and the request name different grants.", field=BUDGET_TOKEN)
    try:
        return grants.open_budget_token(view, context.caller, context.grant_key, token)
    except GrantRefusal as refusal:
        refusal.field = BUDGET_TOKEN if budget_token is None else refusal.field
        raise


def _granted_code(
    context: Context, grant: grants.VerifiedGrant | None, counter: messages.CodeCounter
) -> messages.GrantedCode | None:
    if grant is None or not grant.inline_code_chars:
        return None
    return messages.GrantedCode(grant, counter, context.evidence, context.project_files)


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


def _name_code(problem: EngramBusError | None, message: messages.Message | None, counter: messages.CodeCounter) -> None:
    """Add the pointers of the code in a message to the refusal that is about code."""
    if not isinstance(problem, BudgetExceeded) or message is None:
        return
    if any(excess["what"] == "inline_code_chars" for excess in problem.exceeded):
        messages.add_pointers(problem, messages.free_texts(message), counter)


def _reject(
    context: Context,
    parsed: messages.ParsedMessage,
    budget: InlineBudget,
    usage: MessageUsage,
    problem: EngramBusError,
    counter: messages.CodeCounter,
) -> EngramBusError:
    """Return the error to raise; one for the budget is recorded, and carries a message to send instead."""
    if not isinstance(problem, BudgetExceeded):
        return problem
    _name_code(problem, parsed.message, counter)
    rejection_id = new_ulid(context.as_of, context.randomness)
    pastes = counter.find_pastes(parsed.text)
    problem.resend = messages.resend_template(
        parsed, budget, pastes, rejection_id=rejection_id, count_code=counter.count
    )
    check_no_secrets(problem.resend)

    def decide(view: View) -> tuple[list[MessageRejected], MessageRejected]:
        rejected = messages.reject_message(
            view,
            problem,
            rejection_id=rejection_id,
            caller=context.caller,
            kind=parsed.kind,
            usage=usage,
            resends=parsed.parts.get("resends"),
            work=messages.work_of_parts(parsed.parts, [paste.pointer for paste in pastes]),
        )
        return [rejected], rejected

    context.commit(decide, MessageRejected)
    problem.is_recorded = True
    return problem
