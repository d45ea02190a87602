"""A final answer in plain prose as a message: its first sentences, and a pointer to all of it (decision 60)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import structs

from engrambus.core import Randomness, digest, estimate_tokens, new_ulid
from engrambus.evidence.pointers import Pointer
from engrambus.knowledge.messages.code_blocks import Extraction, artifact_body, artifact_ref
from engrambus.knowledge.messages.extracts import extract_statement
from engrambus.knowledge.messages.facts import MessageAccepted, PointedContent
from engrambus.knowledge.messages.layout import print_message
from engrambus.knowledge.messages.ports import MessageView
from engrambus.knowledge.messages.values import ChildMessage, Output
from engrambus.policy import Caller, TurnClosed, end_turn, parent_of, turn_of

SUMMARY_CHARS = (500, 240, 120)
"""Lengths of the summary that are tried until the report fits its budget."""
MAX_CITED_POINTERS = 8
"""Cited places that a report points at, as far as they fit; the answer to the caller names all of them."""
MAX_CODE_POINTERS = 3
"""Blocks of code that a report points at; the whole answer names all of them."""
ONLY_CODE = "The answer is code, which the pointers lead to."


class ProseReport(NamedTuple):
    """The message that stands for an answer in prose."""

    text: str
    """The message in the published form."""
    tokens: int
    whole: bytes | None
    """The artifact of the whole answer; None if the message says everything."""

    @property
    def pointer(self) -> str | None:
        """The ref of the whole answer."""
        return artifact_ref(self.whole) if self.whole is not None else None


def report_prose(
    prose: Extraction, role: str, max_tokens: int, cited: Sequence[str] = (), *, keeps_whole: bool = False
) -> ProseReport:
    """Return the report of an answer, within `max_tokens` if its shortest form fits.

    `cited` are refs of places that the answer names. With `keeps_whole`, something points at the whole answer.
    """
    refs = list(dict.fromkeys(code.ref for code in prose.placed))
    words = prose.text
    for ref in refs:
        words = words.replace(ref, "")
    on_one_line = " ".join(words.split())
    for max_chars in SUMMARY_CHARS:
        summary = extract_statement(words, max_chars=max_chars)
        says_all = summary == on_one_line and len(refs) <= MAX_CODE_POINTERS
        whole = None if says_all and not keeps_whole else artifact_body(prose.text)
        shown = [*([artifact_ref(whole)] if whole is not None else []), *refs[:MAX_CODE_POINTERS]]
        message = ChildMessage(
            role=role,
            task_status="done",
            pointer_pack=tuple(map(_pointer, shown)),
            output=Output(summary=summary or ONLY_CODE),
        )
        text = print_message(message)
        tokens = estimate_tokens(text)
        if tokens <= max_tokens:
            break
    for ref in [ref for ref in cited if ref not in shown][:MAX_CITED_POINTERS]:
        message = structs.replace(message, pointer_pack=(*message.pointer_pack, _pointer(ref)))
        longer = print_message(message)
        if (needed := estimate_tokens(longer)) > max_tokens:
            break
        text, tokens = longer, needed
    return ProseReport(text, tokens, whole)


def _pointer(ref: str) -> Pointer:
    return Pointer(type=ref.partition(":")[0], ref=ref)


def _pointed(whole: bytes) -> PointedContent:
    whole_digest = digest(whole)
    return PointedContent(digest=whole_digest, tokens=estimate_tokens(whole), file=f"cas:{whole_digest}")


def accept_prose(
    view: MessageView,
    report: ProseReport,
    *,
    caller: Caller,
    tokens: int,
    is_known: bool,
    was_sent_back: bool,
    randomness: Randomness,
) -> tuple[list[MessageAccepted | TurnClosed], MessageAccepted, int]:
    """Deliver the report to the caller's parent; return the facts, the message and the number of the open turn.

    An answer that another caller hands in for the agent is a boundary and closes its turn.
    """
    run_id = caller.run.run_id
    open_rejections = view.open_rejections(run_id, caller.name, "child", limit=1) if was_sent_back else []
    accepted = MessageAccepted(
        message_id=new_ulid(view.as_of, randomness),
        run=run_id,
        agent=caller.name,
        to=parent_of(view, caller),
        text=report.text,
        tokens=tokens,
        resends=open_rejections[0].rejection_id if open_rejections else None,
        is_known=is_known,
        pointed=(_pointed(report.whole),) if report.whole is not None and not is_known else (),
    )
    # decision 45: prose that an agent hands in itself is no boundary, or "ok" would refill its turn
    if caller.spoken_by is None:
        return [accepted], accepted, turn_of(view, run_id, caller.name).number
    closed, turn = end_turn(view, run_id, caller.name, "subagent_stop")
    return [accepted, *closed], accepted, turn
