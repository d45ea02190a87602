"""Making room: what receipts no longer have to keep goes, what engrams point at stays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from engrambus.evidence.pointers import BodyAddress, Pointer, TestAddress, parse_ref
from engrambus.gateway.context import Context
from engrambus.gateway.declare import ADMINS, Command, operation
from engrambus.gateway.ports import View
from engrambus.policy import OUTBOX, PROJECT_SPACE

if TYPE_CHECKING:
    from engrambus.gateway.ports import Store

_AT_THE_MACHINE = {"http": "those at the machine do this", "mcp": "those at the machine do this"}
PAGE = 1000


class CollectGarbage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    dry_run: Annotated[bool, Meta(description="Only tell what would go")] = False


class FreedRow(Struct, frozen=True, kw_only=True):
    why: str
    """`artifact`: past the hot days; `printed`: past the warm days; `room`: the oldest, for want of room; `left`: what
    killed workers left behind, which no receipt names."""
    bodies: int
    bytes: int


class GarbageAnswer(Struct, frozen=True, kw_only=True):
    dry_run: bool
    receipts: int
    """Receipts there are; all of them stay."""
    freed: list[FreedRow]
    pinned: int
    """Bodies that stay because engrams point at them."""
    total_bytes: int
    """What the catalog took before."""
    after_bytes: int
    """What it takes now, or would."""
    free_bytes: int
    """What is free on the disk then."""
    rotated: bool
    """Whether the journal of work goes on in a new file."""
    enough: bool
    """Whether the catalog is within its cap and the disk above its floor then."""


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
    absent_from=_AT_THE_MACHINE,
)
def collect_garbage(context: Context, request: CollectGarbage) -> GarbageAnswer:
    """Free disk space: delete stored output that no receipt has to keep."""
    done = context.tuple_space.collector.collect(dry_run=request.dry_run, on_progress=context.tuple_space.told)
    return GarbageAnswer(
        dry_run=done.dry_run,
        receipts=done.receipts,
        freed=[FreedRow(why=each.why, bodies=each.bodies, bytes=each.bytes) for each in done.freed],
        pinned=done.pinned,
        total_bytes=done.total_bytes,
        after_bytes=done.after_bytes,
        free_bytes=done.free_bytes,
        rotated=done.rotated,
        enough=done.enough,
    )


def pointed_at(store: Store) -> set[str]:
    """The digests of bodies, and the ids of receipts, that engrams point at."""
    with store.read() as view:
        found = set()
        for pointer in _pointers(view):
            address = parse_ref(pointer.ref)
            if isinstance(address, BodyAddress):
                found.add(address.digest)
            elif isinstance(address, TestAddress):
                found.add(address.receipt)
        return found


def _pointers(view: View) -> Iterator[Pointer]:
    spaces = [PROJECT_SPACE, OUTBOX, *(f"r{number}" for number in range(1, view.counts().runs + 1))]
    for space in spaces:
        before: int | None = None
        while page := view.newest((space,), kind=None, limit=PAGE, before=before):
            for engram in view.engrams(page):
                yield from (pointer for pointer in engram.pointers if pointer.type in ("artifact", "test"))
            before = min(page)
