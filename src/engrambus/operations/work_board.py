"""Operations that summarize work: the work board, and the runs that have tuples."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from engrambus.core import MICROS_PER_DOLLAR, print_time
from engrambus.errors import CatalogRefusal
from engrambus.gateway.context import Context
from engrambus.gateway.declare import PEOPLE, Command, Route, operation
from engrambus.operations.batches import BatchRow, batch_row
from engrambus.operations.limits import LimitRow, limit_rows
from engrambus.operations.task_rows import TaskRow, ended_row
from engrambus.operations.tasks import ListTasks, list_tasks
from engrambus.operations.tuples import LOCAL_ONLY
from engrambus.space.tasks import TASK_RUN
from engrambus.space.tuples import (
    INTERNAL_RUN,
    LIVE_STATES,
    OPEN,
    TASK_LANE,
    RunTotals,
    StepState,
    TupleRecord,
    WorkView,
    describe_block,
    folded_agents,
    last_receipt,
    step_states,
)

MAX_LISTED = 200
MAX_ENDED_TASKS = 10


class ReadBoard(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=MAX_LISTED, description="Maximum number of tuples of each kind")] = 50


class LaneRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    lane: str
    waiting: int
    claimed: int
    blocked: int = 0
    """Tuples that wait for other tuples, or were blocked."""
    delayed: int = 0
    """How many of the waiting ones cannot be claimed yet."""
    not_before: str | None = None
    """When the first of those can be claimed."""


class UnclaimedRow(Struct, frozen=True, kw_only=True):
    """Tuples of a lane that wait for a yool which no running worker can run."""

    lane: str
    yool: str
    tuples: int
    since: str
    """When the oldest of them began to wait."""
    workers: int
    """Running workers of the lane, which all lack its code."""
    summary: str
    next_step: str


class TupleRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    lane: str
    state: str
    attempts: int
    steps: list[StepState]
    usd: float
    """Spent by it and its children."""
    tokens: int
    budget_usd: float | None = None
    budget_tokens: int | None = None
    worker: str | None = None
    ended_at: str | None = None
    receipt: str | None = None
    """The final receipt."""
    error: str | None = None
    put_again_as: str | None = msgspec.field(default=None, name="again")
    """The tuple that replaced it, if it was put again."""


class BoardTotals(Struct, frozen=True, kw_only=True):
    states: dict[str, int]
    given_up: int
    """Dead letters that were not put again."""
    executed: int
    hits: int
    """Steps answered from the cache, which cost nothing."""
    usd: float
    tokens: int


class BlockedRow(Struct, frozen=True, kw_only=True):
    """A tuple that is not claimed until something else has happened; tasks are listed apart."""

    id: str
    lane: str
    blocked: list[str]
    """What blocks it, in words."""


class BoardAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    as_of: str
    run_id: str | None = None
    """The run shown, if one was chosen; otherwise all runs are shown."""
    totals: BoardTotals
    lanes: list[LaneRow]
    """Lanes with waiting or claimed tuples, always of all runs, because runs share lanes."""
    unclaimed: list[UnclaimedRow]
    """Waiting tuples, of the runs shown, that no running worker can run."""
    held: list[LimitRow]
    """Pauses, and limits that tuples wait for, of all runs."""
    batches: list[BatchRow]
    """Batches that go on, newest first, with their agents that are not materialised."""
    running: list[TupleRow]
    ended: list[TupleRow]
    """Newest first, without dead letters."""
    dead: list[TupleRow]
    """Dead letters that were not put again, newest first."""
    tasks: list[TaskRow] = []
    """Tasks of agents and people: those that have not ended, then the last that have; always of the whole project."""
    blocked: list[BlockedRow] = []
    """Blocked tuples of the runs shown, oldest first."""


@operation(
    "work.board",
    roles=PEOPLE,
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
    unclaimed = _unclaimed(context)
    limits = [row for row in limit_rows(context) if row.waiting or row.paused is not None]
    with context.tuple_space.space.store.read() as view:
        return BoardAnswer(
            as_of=print_time(view.as_of),
            run_id=run,
            totals=_totals([totals for totals in view.run_totals() if run in (None, totals.run)]),
            lanes=_lanes(view),
            unclaimed=unclaimed,
            held=limits,
            batches=[
                batch_row(view, batch) for batch in view.list_batches(run, limit=request.limit) if batch.state == OPEN
            ],
            running=[
                _row(view, record)
                for record in view.list_claimed(run, limit=request.limit)
                if record.run != INTERNAL_RUN and record.lane != TASK_LANE
            ],
            ended=[
                _row(view, record) for record in view.list_ended(run, limit=request.limit) if record.lane != TASK_LANE
            ],
            tasks=[
                *list_tasks(context, ListTasks(limit=request.limit)).tasks,
                *(ended_row(context, view, record) for record in view.list_ended(TASK_RUN, limit=MAX_ENDED_TASKS)),
            ],
            blocked=[
                BlockedRow(
                    id=record.id,
                    lane=record.lane,
                    blocked=[describe_block(view, item)[0] for item in view.blocks(record.id)],
                )
                for record in view.list_blocked(run, limit=request.limit)
                if record.lane != TASK_LANE
            ],
            dead=[_row(view, record) for record in view.list_dead(run, limit=request.limit)],
        )


def _lanes(view: WorkView) -> list[LaneRow]:
    delayed = {counts.lane: counts for counts in view.delayed_counts()}
    return [
        LaneRow(
            lane=counts.lane,
            waiting=counts.waiting,
            claimed=counts.claimed,
            blocked=counts.blocked,
            delayed=delayed[counts.lane].tuples if counts.lane in delayed else 0,
            not_before=print_time(delayed[counts.lane].first_us) if counts.lane in delayed else None,
        )
        for counts in view.lane_counts()
        if counts.lane != TASK_LANE
    ]


def _unclaimed(context: Context) -> list[UnclaimedRow]:
    try:
        catalog = context.project_files.catalog()
    except CatalogRefusal:  # the board shows the rest; `doctor` reports a catalog that cannot be read
        return []
    unclaimed = context.tuple_space.space.unclaimed_work(catalog, run=context.run_seen)
    return [
        UnclaimedRow(
            lane=work.lane,
            yool=work.yool,
            tuples=work.tuples,
            since=print_time(work.since_us),
            workers=work.workers,
            summary=work.summary,
            next_step=work.next_step,
        )
        for work in unclaimed
    ]


def _totals(every_run: list[RunTotals]) -> BoardTotals:
    states: dict[str, int] = {}
    # decision 106: what the product does by itself is counted only where it was given up.
    runs = [totals for totals in every_run if totals.run not in (INTERNAL_RUN, TASK_RUN)]
    given_up = sum(totals.states.get("dead", 0) - totals.put_again for totals in every_run)
    for totals in runs:
        for state, count in totals.states.items():
            states[state] = states.get(state, 0) + count
    return BoardTotals(
        states=dict(sorted(states.items())),
        given_up=given_up,
        executed=sum(totals.executed for totals in runs),
        hits=sum(totals.hits for totals in runs),
        usd=sum(totals.micros for totals in runs) / MICROS_PER_DOLLAR,
        tokens=sum(totals.tokens for totals in runs),
    )


def _row(view: WorkView, record: TupleRecord) -> TupleRow:
    final = last_receipt(view, record) if record.final_receipt_number is not None else None
    return TupleRow(
        id=record.id,
        lane=record.lane,
        state=record.state,
        attempts=record.attempts,
        steps=step_states(view, record),
        usd=record.spent_micros / MICROS_PER_DOLLAR,
        tokens=record.spent_tokens,
        budget_usd=None if record.budget_micros is None else record.budget_micros / MICROS_PER_DOLLAR,
        budget_tokens=record.budget_tokens,
        worker=record.worker if record.state == "claimed" else None,
        ended_at=final.ended_at if final is not None else None,
        receipt=final.id if final is not None else None,
        error=final.error if final is not None else None,
        put_again_as=record.put_again_as,
    )


class ListWork(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class WorkRunRow(Struct, frozen=True, kw_only=True):
    run_id: str
    states: dict[str, int]
    executed: int
    hits: int
    usd: float
    tokens: int
    unfinished: int
    """Tuples that have not ended; `engrambus resume` runs them."""
    folded: int
    """Agents of batches that are not materialised."""


class WorkRunsAnswer(Struct, frozen=True, kw_only=True):
    runs: list[WorkRunRow]
    """Newest first."""
    unclaimed: list[UnclaimedRow]
    """Waiting tuples, of the runs shown, that no running worker can run."""


@operation(
    "runs.list",
    command=Command(
        "runs list",
        section="work",
        example="engrambus runs list",
        renderer="work:work_runs",
        rank=34,
    ),
    absent_from=LOCAL_ONLY,
)
def list_work(context: Context, request: ListWork) -> WorkRunsAnswer:
    """List runs that have tasks: how many are done, cached, given up or unfinished, and their cost."""
    with context.tuple_space.space.store.read() as view:
        runs = view.run_totals()
        folded: dict[str, int] = {}
        for batch in view.folded_batches(None):
            folded[batch.run] = folded.get(batch.run, 0) + folded_agents(view, batch)
    rows = [
        WorkRunRow(
            run_id=totals.run,
            states=totals.states,
            executed=totals.executed,
            hits=totals.hits,
            usd=totals.micros / MICROS_PER_DOLLAR,
            tokens=totals.tokens,
            unfinished=sum(totals.states.get(state, 0) for state in (*LIVE_STATES, OPEN)),
            folded=folded.get(totals.run, 0),
        )
        for totals in reversed(runs)
        if context.run_seen in (None, totals.run) and totals.run not in (INTERNAL_RUN, TASK_RUN)
    ]
    return WorkRunsAnswer(runs=rows, unclaimed=_unclaimed(context))
