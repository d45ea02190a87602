"""Garbage collection: delete stored output and artifacts, except what engrams point at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct, convert

from engrambus.evidence.pointers import BodyAddress, Pointer, TestAddress, parse_ref
from engrambus.gateway.context import Context
from engrambus.gateway.declare import ADMINS, Command, operation
from engrambus.gateway.ports import View
from engrambus.policy import OUTBOX, PROJECT_SPACE, unconfirmed_space

if TYPE_CHECKING:
    from engrambus.gateway.ports import Store

_LOCAL_ONLY = {"http": "run on the machine that holds the project", "mcp": "run on the machine that holds the project"}
MAX_DAYS, MAX_MB = 36_500, 1_000_000_000
PAGE = 1000
"""Engrams read at a time."""


class CollectGarbage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    dry_run: Annotated[bool, Meta(description="Only report what would be deleted")] = False
    hot_days: (
        Annotated[int, Meta(ge=0, le=MAX_DAYS, description="Days to keep artifacts, instead of the policy's")] | None
    ) = None
    warm_days: (
        Annotated[int, Meta(ge=0, le=MAX_DAYS, description="Days to keep output, instead of the policy's")] | None
    ) = None
    max_mb: (
        Annotated[
            int,
            Meta(ge=0, le=MAX_MB, description="Megabytes the catalog may take, instead of the policy's max_total_mb"),
        ]
        | None
    ) = None


class BodyRow(Struct, frozen=True, kw_only=True):
    why: str
    """Deleted: `artifact`: older than the hot days; `printed`: output older than the warm days; `room`: the oldest when
    space was short; `left`: remains of killed workers.

    Kept: `pinned` by engrams; `running`: of unfinished tasks; `fresh`: stored by a caller or read in the last hour;
    `unnamed`: no receipt names it yet; `scratch`: folders of running steps; `kept`: nothing requires its deletion."""
    bodies: int
    bytes: int


class GarbageAnswer(Struct, frozen=True, kw_only=True):
    dry_run: bool
    receipts: int
    """Receipts of the project; none is ever deleted."""
    rewritten: int
    """Files of receipts that were missing or differed from the journal, and were written again."""
    freed: list[BodyRow]
    kept: list[BodyRow]
    """What stays, by what protects it."""
    pinned: int
    """Bodies kept because engrams point at them."""
    total_bytes: int
    """Size of the catalog before."""
    after_bytes: int
    """Size of the catalog afterwards."""
    other_bytes: int
    """Size of everything that is no output or artifact: journals, indexes, receipts."""
    free_bytes: int
    """Free space on the disk afterwards."""
    rotated: bool
    """True if the journal of work continues in a new file."""
    max_total_mb: int
    """The limit that held for this collection."""
    free_mb_floor: int
    enough: bool
    """True if the catalog is then within its size limit and the disk above its floor of free space."""


@operation(
    "gc",
    roles=ADMINS,
    writes=True,
    command=Command(
        "gc",
        section="maintenance",
        example="engrambus gc --dry-run",
        renderer="maintenance:garbage_report",
        rank=50,
        override="maintenance:gc",
    ),
    absent_from=_LOCAL_ONLY,
)
def collect_garbage(context: Context, request: CollectGarbage) -> GarbageAnswer:
    """Free disk space: delete stored output that no receipt has to keep."""
    from engrambus.space.work import RetentionOverrides

    overrides = RetentionOverrides(hot_days=request.hot_days, warm_days=request.warm_days, max_total_mb=request.max_mb)
    report = context.tuple_space.collector.collect(
        overrides, dry_run=request.dry_run, on_progress=context.tuple_space.on_progress
    )
    return convert(report, GarbageAnswer, from_attributes=True)


def pinned_by_engrams(store: Store) -> set[str]:
    """Return the digests of bodies, and the ids of receipts, that engrams point at."""
    pinned = set()
    with store.read() as view:
        for pointer in _pointers(view):
            address = parse_ref(pointer.ref)
            if isinstance(address, BodyAddress):
                pinned.add(address.digest)
            elif isinstance(address, TestAddress):
                pinned.add(address.receipt)
    return pinned


def _pointers(view: View) -> Iterator[Pointer]:
    """Yield the pointers of all engrams that can lead to a body."""
    spaces = [PROJECT_SPACE, OUTBOX, *(f"r{number}" for number in range(1, view.counts().runs + 1))]
    for space in (*spaces, *map(unconfirmed_space, spaces)):
        oldest: int | None = None
        while page := view.newest((space,), kind=None, limit=PAGE, older_than=oldest):
            for engram in view.engrams(page):
                yield from (pointer for pointer in engram.pointers if pointer.type in ("artifact", "test"))
            oldest = min(page)
