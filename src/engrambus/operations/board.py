"""The work board: lanes, what is worked on, what has ended, what was given up, and what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from engrambus.core import MICROS, print_time
from engrambus.gateway.context import Context
from engrambus.gateway.declare import ADMINS, Command, Route, operation

if TYPE_CHECKING:
    from engrambus.evidence.receipts import Receipt
    from engrambus.space.tuples import RunTotals, TupleRecord, WorkView

MAX_LISTED = 200


class ReadBoard(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=MAX_LISTED, description="How many of each at the most")] = 50


class LaneRow(Struct, frozen=True, kw_only=True):
    lane: str
    waiting: int
    claimed: int


class StepState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    yool: str
    receipt: str | None = None
    """The receipt that finished the step, otherwise the one of its last execution, which failed."""
    hit: bool = False
    """True if the step was answered from the cache, by an execution for another tuple."""
    exit: int | None = None
    """0 if the step is done."""


class TupleRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    lane: str
    state: str
    attempts: int
    steps: list[StepState]
    usd: float
    """What it and its children have spent."""
    tokens: int
    budget_usd: float | None = None
    budget_tokens: int | None = None
    worker: str | None = None
    ended_at: str | None = None
    receipt: str | None = None
    """The last receipt, of the whole tuple."""
    error: str | None = None
    again: str | None = None
    """The tuple it was put again as."""


class BoardTotals(Struct, frozen=True, kw_only=True):
    states: dict[str, int]
    given_up: int
    """Of the dead, those that were not put again."""
    executed: int
    hits: int
    """Steps that had been executed before, and cost nothing."""
    usd: float
    tokens: int


class BoardAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    as_of: str
    run_id: str | None = None
    """The run it tells of, when one was chosen; otherwise it tells of all."""
    totals: BoardTotals
    lanes: list[LaneRow]
    """Where something waits or is worked on; always of all runs, which share them."""
    running: list[TupleRow]
    ended: list[TupleRow]
    """The last first; without those that are given up."""
    dead: list[TupleRow]
    """Given up and not put again, the last first."""


@operation(
    "work.board",
    roles=ADMINS,
    route=Route("GET", "/work"),
    command=Command(
        "board",
        section="work",
        example="engrambus board",
        renderer="work:board",
        rank=32,
    ),
    absent_from={"mcp": "a board is for people; agents observe the tuples they dispatched"},
)
def work_board(context: Context, request: ReadBoard) -> BoardAnswer:
    """Show the work board: lanes, running, finished and given-up tasks, and their cost."""
    run = context.run_seen
    with context.tuple_space.space.store.read() as view:
        return BoardAnswer(
            as_of=print_time(view.as_of),
            run_id=run,
            totals=_totals([each for each in view.run_totals() if run in (None, each.run)]),
            lanes=[LaneRow(lane=each.lane, waiting=each.waiting, claimed=each.claimed) for each in view.lane_counts()],
            running=[_row(view, one) for one in view.list_claimed(run, limit=request.limit)],
            ended=[_row(view, one) for one in view.list_ended(run, limit=request.limit)],
            dead=[_row(view, one) for one in view.list_dead(run, limit=request.limit)],
        )


def _totals(runs: list[RunTotals]) -> BoardTotals:
    """What became of the tuples of some runs, together."""
    states: dict[str, int] = {}
    for each in runs:
        for state, count in each.states.items():
            states[state] = states.get(state, 0) + count
    return BoardTotals(
        states=dict(sorted(states.items())),
        given_up=states.get("dead", 0) - sum(each.put_again for each in runs),
        executed=sum(each.executed for each in runs),
        hits=sum(each.hits for each in runs),
        usd=sum(each.micros for each in runs) / MICROS,
        tokens=sum(each.tokens for each in runs),
    )


def _row(view: WorkView, one: TupleRecord) -> TupleRow:
    receipts = view.receipt_ids(one.id) if one.final_receipt_number is not None else []
    last = view.receipt(receipts[-1]) if receipts else None
    return TupleRow(
        id=one.id,
        lane=one.lane,
        state=one.state,
        attempts=one.attempts,
        steps=step_states(view, one),
        usd=one.spent_micros / MICROS,
        tokens=one.spent_tokens,
        budget_usd=None if one.budget_micros is None else one.budget_micros / MICROS,
        budget_tokens=one.budget_tokens,
        worker=one.worker if one.state == "claimed" else None,
        ended_at=last.ended_at if last is not None else None,
        receipt=last.id if last is not None else None,
        error=last.error if last is not None else None,
        again=one.put_again_as,
    )


def step_states(view: WorkView, record: TupleRecord) -> list[StepState]:
    """Return the state of each step of a tuple."""
    steps, finished = record.tuple.payload, view.finished_steps(record.id)
    last: dict[int, Receipt] = {}
    if len(finished) < len(steps):
        for receipt_id in view.receipt_ids(record.id):
            receipt = view.receipt(receipt_id)
            if receipt is not None and receipt.step is not None and receipt.tuple_id == record.id:
                last[receipt.step] = receipt
    receipts = [view.receipt(finished[index]) if index in finished else last.get(index) for index in range(len(steps))]
    return [_step_state(step.yool, receipt, record.id) for step, receipt in zip(steps, receipts, strict=True)]


def _step_state(yool: str, receipt: Receipt | None, tuple_id: str) -> StepState:
    if receipt is None:
        return StepState(yool=yool)
    return StepState(yool=yool, receipt=receipt.id, hit=receipt.tuple_id != tuple_id, exit=receipt.exit)
