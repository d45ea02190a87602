"""Final answers: an agent hands in a message or plain prose, and its parent receives it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct, structs

from engrambus.core import estimate_tokens
from engrambus.errors import MessageEmpty
from engrambus.gateway.context import Context
from engrambus.gateway.declare import Command, Route, operation
from engrambus.gateway.ports import View

# decision 39: these packages load a module with its first use, so a hook that submits prose does not load the parser
from engrambus.knowledge import messages
from engrambus.knowledge.messages import (
    MAX_MESSAGE_CHARS,
    inline_budget,
)
from engrambus.operations import captures
from engrambus.operations.artifacts import charge_bodies, store_bodies
from engrambus.operations.message_texts import check_stored_text, parse_text, reject_text
from engrambus.operations.messages import SendMessage, deliver_report, prepare_report
from engrambus.policy import end_turn

if TYPE_CHECKING:
    from engrambus.knowledge.engrams import PreparedCapture


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
    cited: list[str] = []
    """Pointers to what the prose cites and quotes, in order."""
    unresolved_citations: int = 0
    """Citations of lines that lead nowhere; they are no pointers."""
    unconfirmed: list[str] = []
    """Ids of the engrams that were made from its sentences and await confirmation, the marked ones first."""
    known_claims: int = 0
    """Sentences that say what an engram says already."""
    claims_left_out: int = 0
    """Sentences beyond the number that one answer leaves, the agent's rate or the tokens of its turn."""


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

    Prose is kept whole as an artifact; the parent receives its first sentences and the pointer, with pointers to what
    it cites. Code in it is stored apart, and the answer names its pointer. Sentences that cite lines, or that begin
    with a mark such as `Risk:`, become engrams that await confirmation.
    """
    if messages.looks_like_report(request.text):
        message = SendMessage(text=request.text, budget_token=request.budget_token)
        report = structs.replace(prepare_report(context, message), is_known=request.handed_over)
        sent = deliver_report(context, message, report)
        return AnswerTaken(
            tokens=estimate_tokens(request.text),
            turn=sent.turn,
            message_id=sent.message_id,
            to=sent.to,
            engrams=sent.engrams,
            requests=sent.requests,
            resends=sent.resends,
        )
    check_stored_text(context, {"text": request.text})
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
        raise reject_text(context, parse_text(context, request.text, "child"), budget, usage, refusal, counter)
    findings = captures.read_prose(context, request.text, counter)
    summed_up = messages.report_prose(
        prose, context.caller.role, budget.max_inline_tokens, findings.refs, keeps_whole=findings.needs_answer
    )
    tokens = tokens if request.handed_over else summed_up.tokens
    _store_bodies(context, prose, summed_up)
    claims = captures.prepare_claims(context, request.text, findings, prose.text, summed_up.whole)
    taken = structs.replace(
        _deliver_prose(context, request, summed_up, tokens, claims),
        cited=list(findings.refs),
        unresolved_citations=findings.unresolved,
    )
    if not prose.placed:
        return taken
    # Added after the commit: an answer that is remembered for its idempotency key must hold no prose.
    return structs.replace(taken, pointers=[code.ref for code in prose.placed], text=prose.text)


def _deliver_prose(
    context: Context,
    request: TakeAnswer,
    report: messages.ProseReport,
    tokens: int,
    claims: Sequence[PreparedCapture],
) -> AnswerTaken:
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
        # Before the other facts: these end the turn that pays for the claims.
        captured, outcome = captures.keep_claims(context, view, claims)
        return [*captured, *all_facts], AnswerTaken(
            tokens=tokens,
            turn=turn,
            message_id=accepted.message_id,
            to=accepted.to,
            resends=accepted.resends,
            pointer=report.pointer,
            unconfirmed=outcome.ids,
            known_claims=outcome.known,
            claims_left_out=outcome.left_out,
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
