"""Listing receipts: what the steps of a run did, what they cost, and which were answered from the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from engrambus.core import is_ulid, parse_time, print_time, take_within
from engrambus.errors import FieldValue
from engrambus.gateway.context import Context
from engrambus.gateway.declare import Command, Route, operation
from engrambus.operations.engram_filters import SinceField
from engrambus.space.tuples import ListedReceipt, ReceiptPosition, WorkView, visible_run, visible_tuple

MAX_LISTED = 200
MAX_EXAMINED = 10_000
"""Receipts read for one answer; a filter that few match is continued with the answer's cursor."""
PAGE = 200
MAX_CURSOR_DIGITS = 15


class ReceiptList(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    run: (
        Annotated[str, Meta(max_length=26, description="Only receipts of this run; an agent sees those of its own")]
        | None
    ) = None
    yool: (
        Annotated[
            str, Meta(min_length=1, max_length=200, description="Only of this yool, or of those it is the beginning of")
        ]
        | None
    ) = None
    failed: Annotated[bool, Meta(description="Only executions that failed")] = False
    tuple_id: (
        Annotated[str, Meta(max_length=80, description="Only of this task, by its id or the first digits of it")] | None
    ) = None
    since: SinceField = None
    all: Annotated[bool, Meta(description="Include receipts of whole tasks and of accepting them")] = False
    limit: Annotated[int, Meta(ge=1, le=MAX_LISTED, description="Maximum number of receipts")] = 50
    cursor: Annotated[str, Meta(max_length=40, description="Cursor of the previous answer")] | None = None
    max_tokens: Annotated[int, Meta(ge=1, description="Maximum size of the answer, in tokens")] | None = None


class ReceiptRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    yool: str
    tuple_id: str
    """The task in which the step was executed, or answered from the cache."""
    step: int | None = None
    """Index of the step, from 0; left out for a receipt of a whole task."""
    exit: int
    hit: bool
    """True if the step was answered from the cache by this receipt, and cost nothing."""
    ended_at: str
    """When it ended; of a hit, when it answered."""
    wall_ms: int
    usd: float
    tokens: int
    artifacts: dict[str, int] = {}
    """Number of artifacts by their kind."""
    error: str | None = None


class ReceiptsAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    as_of: str
    run_id: str | None = None
    """The run that was listed; left out for all runs."""
    receipts: list[ReceiptRow]
    """Newest first."""
    cursor: str | None = None
    """Cursor of the next page, if there may be one; a page may be empty where a filter matches few."""


@operation(
    "receipt.list",
    route=Route("GET", "/receipt"),
    command=Command(
        "receipt list",
        section="work",
        example="engrambus receipt list --failed --since PT1H",
        renderer="work:receipt_list",
        option_names={"tuple_id": "--tuple"},
        rank=49,
    ),
    absent_from={"mcp": "a list is for people and programs; agents observe the tuples they dispatched"},
)
def receipt_list(context: Context, request: ReceiptList) -> ReceiptsAnswer:
    """List receipts: what the steps of a run did, which failed, which were cached, and what they cost."""
    position = _read_cursor(request.cursor)
    run = _run_in_sight(context, request.run)
    rows: list[tuple[ReceiptPosition, ReceiptRow]] = []
    with context.tuple_space.space.store.read() as view:
        matches = _filter(context, view, request)
        for listed in islice(_newest(view, run, position), MAX_EXAMINED):
            position = listed.position
            if matches(listed):
                rows.append((position, _row(listed)))
            if len(rows) == request.limit:
                break
        has_more = bool(view.newest_receipts(run, limit=1, before=position))
        empty = ReceiptsAnswer(as_of=print_time(view.as_of), run_id=run, receipts=[])
    return _within(empty, rows, position if has_more else None, request.max_tokens)


def _newest(view: WorkView, run: str | None, before: ReceiptPosition | None) -> Iterator[ListedReceipt]:
    """Yield what `newest_receipts` returns, a page at a time."""
    while page := view.newest_receipts(run, limit=PAGE, before=before):
        yield from page
        before = page[-1].position


def _run_in_sight(context: Context, run: str | None) -> str | None:
    """Return the run to list; None for all, which only an admin sees."""
    if run is None:
        return context.run_seen

    def exists(run_id: str) -> bool:
        with context.store.read() as view:
            return is_ulid(run_id) and view.run(run_id) is not None

    return visible_run(context.caller, run, exists)


def _filter(context: Context, view: WorkView, request: ReceiptList) -> Callable[[ListedReceipt], bool]:
    """Return the function that tells whether a receipt is listed."""
    from engrambus.knowledge.engrams import read_moment

    since_us = read_moment(request.since, view.as_of, "since")
    wanted = None if request.tuple_id is None else visible_tuple(view, context.caller, request.tuple_id).id

    def matches(listed: ListedReceipt) -> bool:
        receipt = listed.receipt
        return (
            (request.all or listed.step is not None)
            and (not request.failed or receipt.exit != 0)
            and wanted in (None, listed.tuple_id)
            and (request.yool is None or f"{receipt.yool}.".startswith(f"{request.yool}."))
            and (since_us is None or _ended_us(listed) >= since_us)
        )

    return matches


def _ended_us(listed: ListedReceipt) -> int:
    return parse_time(listed.receipt.ended_at) if listed.used_us is None else listed.used_us


def _row(listed: ListedReceipt) -> ReceiptRow:
    receipt, is_hit = listed.receipt, listed.is_hit
    kinds: dict[str, int] = {}
    for artifact in receipt.artifacts:
        kinds[artifact.kind] = kinds.get(artifact.kind, 0) + 1
    return ReceiptRow(
        id=receipt.id,
        yool=receipt.yool,
        tuple_id=listed.tuple_id,
        step=listed.step,
        exit=receipt.exit,
        hit=is_hit,
        ended_at=receipt.ended_at if listed.used_us is None else print_time(listed.used_us),
        wall_ms=0 if is_hit else receipt.cost.wall_ms,
        usd=0.0 if is_hit else receipt.cost.usd,
        tokens=0 if is_hit else receipt.cost.tokens,
        artifacts=kinds,
        error=receipt.error,
    )


def _within(
    empty: ReceiptsAnswer,
    rows: list[tuple[ReceiptPosition, ReceiptRow]],
    end: ReceiptPosition | None,
    max_tokens: int | None,
) -> ReceiptsAnswer:
    """Return the answer with as many rows as fit, and the cursor behind the last one; `end` is that of all rows."""
    listed = [row for _, row in rows]
    if max_tokens is not None:
        # With the longest cursor, so that the one it gets cannot make it too large.
        longest = msgspec.structs.replace(empty, cursor="9" * MAX_CURSOR_DIGITS + "." + "9" * MAX_CURSOR_DIGITS)
        listed = take_within(longest, listed, max_tokens, at_least=min(1, len(rows)))
        if len(listed) < len(rows):
            end = rows[len(listed) - 1][0]
    cursor = None if end is None else f"{end.number}.{end.use}"
    return msgspec.structs.replace(empty, receipts=listed, cursor=cursor)


def _read_cursor(cursor: str | None) -> ReceiptPosition | None:
    """Return the position that the last page ended with."""
    if cursor is None:
        return None
    parts = cursor.split(".")
    if len(parts) != 2 or not all(
        part.isascii() and part.isdigit() and len(part) <= MAX_CURSOR_DIGITS for part in parts
    ):
        raise FieldValue("This cursor did not come from an earlier answer.", field="cursor")
    return ReceiptPosition(*map(int, parts))
