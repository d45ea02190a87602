"""Why a task is where it is: the failed step with the end of its output, what a task waits for, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from engrambus.core import MICROS_PER_DOLLAR, check_fits, estimate_tokens, fits
from engrambus.errors import EngramBusError
from engrambus.evidence.pointers import BodyAddress, Pointer, print_address
from engrambus.evidence.receipts import EMPTY_DIGEST, Receipt
from engrambus.gateway.context import Context
from engrambus.gateway.declare import Command, Route, operation
from engrambus.gateway.ports import View
from engrambus.knowledge.messages import read_payers
from engrambus.policy import draw_content
from engrambus.space.tuples import (
    RunningWorker,
    TupleRecord,
    WorkView,
    explain_tuple,
    last_receipt,
    visible_tuple_or_receipt,
)

MAX_LINES = 30
"""Lines of each stream that are shown at most."""
MAX_LINE_CHARS = 400
MAX_BYTES = 64 * 1024
"""Bytes at the end of a stream that are looked at."""


class Why(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=80, description="The id of a tuple or receipt, or its first digits")]
    max_tokens: Annotated[
        int, Meta(ge=1, le=20_000, description="Maximum size of the answer in tokens; the output's end is kept")
    ] = 1500


class OutputEnd(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The end of what a step printed."""

    pointer: str
    """All of it: `less.deref_pointer` reads it."""
    lines: list[str] = []
    cut: bool = False
    """True if there is more before these lines."""
    gone: str | None = None
    """Why it cannot be read, if so."""


class FailedStep(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One execution of a step that failed."""

    position: int
    """Position of the step in its tuple, from 0."""
    yool: str
    attempt: int
    exit: int
    receipt: str
    error: str | None = None
    worker: str | None = None
    usd: float = 0.0
    tokens: int = 0
    wall_ms: int = 0
    stdout: OutputEnd | None = None
    """None if it printed nothing."""
    stderr: OutputEnd | None = None


class WhyAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    """The tuple's id."""
    state: str
    lane: str
    reason: str
    attempts: int
    usd: float
    """Spent by it and its children."""
    tokens: int
    budget_usd: float | None = None
    budget_tokens: int | None = None
    worker: str | None = None
    error: str | None = None
    """The error of its end or of its last failed attempt."""
    failed: FailedStep | None = None
    waits_for: list[str] = []
    """What a waiting task waits for."""
    next: list[str] = []
    """What to do next."""


@operation(
    "tuple.why",
    writes=True,
    route=Route("GET", "/why/{id}"),
    command=Command(
        "why",
        section="work",
        example="engrambus why 61a6ffdddafe",
        renderer="work:explanation",
        rank=25,
        arguments=("id",),
    ),
    absent_from={"mcp": "the list of tools has no room; tuple_observe and receipt_get say the same in two calls"},
)
def why(context: Context, request: Why) -> WhyAnswer:
    """Show why a task failed or waits: the failed step, the end of its output, and what to do next.

    An agent pays for the lines of output as for lines it dereferences.
    """
    space = context.tuple_space.space
    workers = space.running_workers()
    with space.store.read() as view:
        record, receipt = visible_tuple_or_receipt(view, context.caller, request.id)
        answer, failed = _explain(context, view, record, receipt, workers)
    check_fits(answer, request.max_tokens)
    if failed is None or answer.failed is None:
        return answer
    return _with_output(context, answer, failed, request.max_tokens)


def _explain(
    context: Context,
    view: WorkView,
    record: TupleRecord,
    receipt: Receipt | None,
    workers: Sequence[RunningWorker],
) -> tuple[WhyAnswer, Receipt | None]:
    """Return the answer without any output, and the failed execution that it names."""
    space = context.tuple_space.space
    explanation = explain_tuple(view, record, context.project_files.catalog().lookup, space.settings, workers)
    # The receipt that was asked about, if it is of a failed step; otherwise the one that holds the tuple up.
    asked = receipt is not None and receipt.step is not None and receipt.exit != 0
    failed = receipt if asked else explanation.failed
    last = last_receipt(view, record)
    answer = WhyAnswer(
        id=record.id,
        state=record.state,
        lane=record.lane,
        reason=explanation.reason,
        attempts=record.attempts,
        usd=record.spent_micros / MICROS_PER_DOLLAR,
        tokens=record.spent_tokens,
        budget_usd=None if record.budget_micros is None else record.budget_micros / MICROS_PER_DOLLAR,
        budget_tokens=record.budget_tokens,
        worker=record.worker if record.state == "claimed" else None,
        error=last.error if last is not None else None,
        failed=None if failed is None else _failed_step(failed),
        waits_for=list(explanation.waits_for),
        next=list(explanation.next),
    )
    return answer, failed


def _failed_step(receipt: Receipt) -> FailedStep:
    return FailedStep(
        position=receipt.step or 0,
        yool=receipt.yool,
        attempt=receipt.attempt or 1,
        exit=receipt.exit,
        receipt=receipt.id,
        error=receipt.error,
        worker=receipt.worker,
        usd=receipt.cost.usd,
        tokens=receipt.cost.tokens,
        wall_ms=receipt.cost.wall_ms,
    )


def _with_output(context: Context, answer: WhyAnswer, failed: Receipt, max_tokens: int) -> WhyAnswer:
    """Return the answer with as many last lines of output as it and the caller's turn have room for."""
    ends = {
        name: _output_end(context, sha) for name, sha in (("stdout", failed.stdout_sha), ("stderr", failed.stderr_sha))
    }

    def answer_with(ends: dict[str, OutputEnd | None]) -> WhyAnswer:
        return replace(answer, failed=replace(answer.failed, **ends)) if answer.failed is not None else answer

    ends = _cut(ends, lambda ends: fits(answer_with(ends), max_tokens))
    if not _tokens(ends):
        return answer_with(ends)

    def decide(view: View) -> tuple[Sequence[Any], WhyAnswer]:
        payers = read_payers(view, context.policy, context.caller, context.limits)
        if not payers.accounts:  # a person reads without a turn
            return [], answer_with(ends)
        tokens_left = payers.tokens_left()
        affordable = _cut(ends, lambda ends: _tokens(ends) <= tokens_left)
        return (draw_content(payers, cost) if (cost := _tokens(affordable)) else []), answer_with(affordable)

    return context.commit(decide, WhyAnswer, in_run=False, remember=False)


def _tokens(ends: dict[str, OutputEnd | None]) -> int:
    text = "\n".join(line for end in ends.values() if end is not None for line in end.lines)
    return estimate_tokens(text) if text else 0


def _output_end(context: Context, sha: str) -> OutputEnd | None:
    """Return the last lines of a stored stream; None if it is empty."""
    if sha == EMPTY_DIGEST:
        return None
    pointer = print_address(BodyAddress(digest=sha))
    try:
        content = context.evidence.read(Pointer(type="artifact", ref=pointer))
    except EngramBusError as refusal:
        return OutputEnd(pointer=pointer, gone=refusal.detail)
    data = content.data if content.end is None else content.end
    lines = data[-MAX_BYTES:].decode("utf-8", "replace").rstrip().splitlines()
    cut = content.end is not None or len(data) > MAX_BYTES or len(lines) > MAX_LINES
    return OutputEnd(pointer=pointer, lines=[_shorten(line) for line in lines[-MAX_LINES:]], cut=cut)


def _shorten(line: str) -> str:
    return line if len(line) <= MAX_LINE_CHARS else line[: MAX_LINE_CHARS - 1] + "…"


def _cut(
    ends: dict[str, OutputEnd | None], has_room: Callable[[dict[str, OutputEnd | None]], bool]
) -> dict[str, OutputEnd | None]:
    """Return the ends with fewer lines, from the longer one first, until there is room for them."""
    while not has_room(ends):
        name, longest = max(ends.items(), key=lambda item: len(item[1].lines) if item[1] is not None else 0)
        if longest is None or not longest.lines:
            return dict.fromkeys(ends)  # not even their pointers fit
        ends = {**ends, name: replace(longest, lines=longest.lines[1:], cut=True)}
    return ends
