"""What a sub-agent answered when it stopped, in whatever form: taken, or sent back for its size."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from engrambus.core import estimate_tokens
from engrambus.gateway.budgets import MAX_TEXT, inline_budget
from engrambus.gateway.context import Context
from engrambus.gateway.declare import Command, Route, operation
from engrambus.gateway.ports import View
from engrambus.knowledge.messages import CHILD_SECTIONS, judge_prose
from engrambus.operations.pastes import Pastes
from engrambus.operations.turns import closing
from engrambus.policy import TurnClosed
from engrambus.policy.secrets import check_no_secrets

FEWEST_SECTIONS = 2
"""A text with fewer of a message's sections was not meant as one."""


class TakeAnswer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an agent said last."""

    text: Annotated[str, Meta(max_length=MAX_TEXT, description="The answer: a message (YAML or JSON), or plain prose")]


class AnswerTaken(Struct, frozen=True, kw_only=True, omit_defaults=True):
    tokens: int
    """What it costs its reader."""
    turn: int
    """The turn that is open now."""
    message_id: str | None = None
    """The message it was kept as; none for prose, which is not kept."""
    engrams: list[str] = []
    """The engrams it put or confirmed, in order."""


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
    """Submit an agent's final answer. Messages are stored; plain prose is only checked against the budget."""
    if _meant_as_message(request.text):
        from engrambus.operations.messages import SendMessage, send_message

        kept = send_message(context, SendMessage(text=request.text))
        tokens = estimate_tokens(request.text)
        return AnswerTaken(tokens=tokens, turn=kept.turn, message_id=kept.message_id, engrams=kept.engrams)
    check_no_secrets({"text": request.text})
    pastes = Pastes(context.project_files)
    with context.store.read() as view:
        budget = inline_budget(context, view)
    usage, refusal = judge_prose(request.text, budget, pastes.code_chars)
    if refusal is not None:
        from engrambus.operations.messages import read_text, sent_back

        reading = read_text(context, request.text, "child")
        raise sent_back(context, reading, pastes, budget, usage, refusal)

    def decide(view: View) -> tuple[list[TurnClosed], AnswerTaken]:
        facts, turn = closing(view, context.caller.run.run_id, context.caller.name, "subagent_stop")
        return facts, AnswerTaken(tokens=usage.inline_tokens, turn=turn)

    return context.commit(decide, AnswerTaken)


def _meant_as_message(text: str) -> bool:
    heads = {line.partition(":")[0].strip('{ "').upper() for line in text.replace(",", "\n").splitlines()}
    return len(heads.intersection(CHILD_SECTIONS)) >= FEWEST_SECTIONS
