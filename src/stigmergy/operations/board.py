"""The work board: lanes, what is worked on, what has ended, what was given up, and what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from stigmergy.core import print_time
from stigmergy.operations.declare import ADMINS, Command, Route, operation
from stigmergy.operations.gateway import Context

if TYPE_CHECKING:
    from stigmergy.evidence.receipts import Receipt
    from stigmergy.space.tuples import Kept, WorkView

MAX_LISTED = 200
LOOKED_THROUGH = 10
"""How many receipts are looked through for each tuple that is to be listed: each step has one."""


class ReadBoard(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=MAX_LISTED, description="How many of each at the most")] = 50


class LaneRow(Struct, frozen=True, kw_only=True):
    lane: str
    waiting: int
    claimed: int


class StepRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    yool: str
    receipt: str | None = None
    """The receipt that finished it."""
    hit: bool = False
    """Whether it had been executed before, for another tuple."""
    exit: int | None = None


class TupleRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    lane: str
    state: str
    attempts: int
    steps: list[StepRow]
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
    """Of the run, the last first."""
    dead: list[TupleRow]
    """Given up, and not put again."""


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
                executed=totals.executed if totals else 0,
                hits=totals.hits if totals else 0,
                usd=totals.micros / 1_000_000 if totals else 0.0,
                tokens=totals.tokens if totals else 0,
            ),
            lanes=[LaneRow(lane=each.lane, waiting=each.waiting, claimed=each.claimed) for each in view.lanes()],
            running=[_row(view, one) for one in view.under_way(limit=request.limit)],
            ended=_ended(view, run, request.limit),
            dead=_dead(view, run, request.limit),
        )


def _ended(view: WorkView, run: str, limit: int) -> list[TupleRow]:
    from stigmergy.space.tuples import WHOLE

    receipts = view.last_receipts(run, limit=limit * LOOKED_THROUGH)
    last = [each for each in receipts if each.yool == WHOLE][:limit]
    return [_row(view, one, each) for each in last if (one := view.find(each.tuple_id)) is not None]


def _dead(view: WorkView, run: str, limit: int) -> list[TupleRow]:
    from stigmergy.space.tuples import read_pattern

    rows = []
    for one in view.matching(read_pattern({"state": "dead", "run": run}), limit=limit):
        if one.again is None:
            ids = view.receipts_of(one.id)
            rows.append(_row(view, one, view.receipt(ids[-1]) if ids else None))
    return rows


def _row(view: WorkView, one: Kept, last: Receipt | None = None) -> TupleRow:
    finished = view.finished(one.id)
    failed: dict[int, Receipt] = {}
    for each in last.receipts if last is not None else ():
        receipt = view.receipt(each)
        if receipt is not None and receipt.step is not None and receipt.tuple_id == one.id:
            failed[receipt.step] = receipt
    steps = []
    for at, step in enumerate(one.tuple.payload):
        kept = view.receipt(finished[at]) if at in finished else failed.get(at)
        steps.append(
            StepRow(
                yool=step.yool,
                receipt=kept.id if kept is not None else None,
                hit=kept is not None and kept.tuple_id != one.id,
                exit=kept.exit if kept is not None else None,
            )
        )
    return TupleRow(
        id=one.id,
        lane=one.lane,
        state=one.state,
        attempts=one.attempts,
        steps=steps,
        usd=one.micros / 1_000_000,
        tokens=one.tokens,
        budget_usd=None if one.budget_micros is None else one.budget_micros / 1_000_000,
        budget_tokens=one.budget_tokens,
        worker=one.worker if one.state == "claimed" else None,
        ended_at=last.ended_at if last is not None else None,
        receipt=last.id if last is not None else None,
        error=last.error if last is not None else None,
        again=one.again,
    )
