"""The work board: lanes, what is worked on, what has ended, what was given up, and what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from stigmergy.core import MICROS, print_time
from stigmergy.operations.declare import ADMINS, Command, Route, operation
from stigmergy.operations.gateway import Context
from stigmergy.operations.steps import StepState, steps_of

if TYPE_CHECKING:
    from stigmergy.space.tuples import Kept, WorkView

MAX_LISTED = 200


class ReadBoard(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=MAX_LISTED, description="How many of each at the most")] = 50


class LaneRow(Struct, frozen=True, kw_only=True):
    lane: str
    waiting: int
    claimed: int


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


class RunTotals(Struct, frozen=True, kw_only=True):
    states: dict[str, int]
    given_up: int
    """Of the dead, those that were not put again."""
    executed: int
    hits: int
    """Steps that had been executed before, and cost nothing."""
    usd: float
    tokens: int


class BoardAnswer(Struct, frozen=True, kw_only=True):
    as_of: str
    totals: RunTotals
    """Of the run."""
    lanes: list[LaneRow]
    """Where something waits or is worked on, whatever the run."""
    running: list[TupleRow]
    ended: list[TupleRow]
    """Of the run, the last first; without those that are given up."""
    dead: list[TupleRow]
    """Of the run, given up and not put again, the last first."""


@operation(
    "work.board",
    roles=ADMINS,
    route=Route("GET", "/work"),
    command=Command("board"),
    kept_off={"mcp": "a board is for people; agents observe the tuples they dispatched"},
)
def work_board(context: Context, request: ReadBoard) -> BoardAnswer:
    """The work board: lanes, what is worked on, what has ended, what was given up, and what it cost."""
    run = context.caller.run.run_id
    with context.workbench.space.store.read() as view:
        totals = next((each for each in view.runs() if each.run == run), None)
        return BoardAnswer(
            as_of=print_time(view.as_of),
            totals=RunTotals(
                states=totals.states if totals else {},
                given_up=totals.states.get("dead", 0) - totals.again if totals else 0,
                executed=totals.executed if totals else 0,
                hits=totals.hits if totals else 0,
                usd=totals.micros / MICROS if totals else 0.0,
                tokens=totals.tokens if totals else 0,
            ),
            lanes=[LaneRow(lane=each.lane, waiting=each.waiting, claimed=each.claimed) for each in view.lanes()],
            running=[_row(view, one) for one in view.under_way(limit=request.limit)],
            ended=[_row(view, one) for one in view.ended(run, limit=request.limit)],
            dead=[_row(view, one) for one in view.given_up(run, limit=request.limit)],
        )


def _row(view: WorkView, one: Kept) -> TupleRow:
    receipts = view.receipts_of(one.id) if one.ended is not None else []
    last = view.receipt(receipts[-1]) if receipts else None
    return TupleRow(
        id=one.id,
        lane=one.lane,
        state=one.state,
        attempts=one.attempts,
        steps=steps_of(view, one),
        usd=one.micros / MICROS,
        tokens=one.tokens,
        budget_usd=None if one.budget_micros is None else one.budget_micros / MICROS,
        budget_tokens=one.budget_tokens,
        worker=one.worker if one.state == "claimed" else None,
        ended_at=last.ended_at if last is not None else None,
        receipt=last.id if last is not None else None,
        error=last.error if last is not None else None,
        again=one.again,
    )
