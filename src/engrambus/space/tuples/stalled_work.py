"""Work that nobody could claim now although it waits: paused, limited, blocked or delayed, and what changes that."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

import msgspec

from engrambus.core import print_time, short_id
from engrambus.space.tuples.blocks import describe_block
from engrambus.space.tuples.limits import LimitRule, limit_blocks, subject_of, subject_of_body
from engrambus.space.tuples.patterns import TuplePattern
from engrambus.space.tuples.ports import WorkView
from engrambus.space.tuples.values import TASK_LANE, TupleRecord

MAX_NAMED = 5
"""Blocked tuples that are named each with a line of its own."""
MAX_LOOKED_AT = 10_000
"""Unfinished tuples that are looked at to count those that are held back."""


class StalledWork(msgspec.Struct, frozen=True, kw_only=True):
    """Tuples that wait and that no worker may claim now, for one reason."""

    reason: str
    """`limit`, `blocked` or `delayed`."""
    tuples: int
    why: str
    next: str
    """The command that changes it, or shows more."""

    @property
    def summary(self) -> str:
        """What is left, why, and what changes it, in one line."""
        count = "1 tuple is left" if self.tuples == 1 else f"{self.tuples:,} tuples are left"
        return f"{count}: {self.why}: {self.next}"


def stalled_work(view: WorkView, pattern: TuplePattern) -> list[StalledWork]:
    """Return what is held back in the lanes and the run of a pattern: by limits and pauses, blocked, and delayed."""
    return [*_held_by_limits(view, pattern), *_blocked(view, pattern), *_delayed(view, pattern)]


def why_stalled(view: WorkView, record: TupleRecord) -> StalledWork | None:
    """Return why a tuple cannot be claimed now, and what changes that; None if it could, or soon will be retried."""
    if record.state == "blocked":
        return _one_blocked(view, record)
    if record.state == "waiting" and view.as_of < record.ready_us == record.not_before_us:
        return _until(record.ready_us, 1, f"engrambus why {short_id(record.id)}")
    for block in limit_blocks(view, subject_of(record)) if record.state == "waiting" else ():
        return StalledWork(reason="limit", tuples=1, why=block.summary, next=release_command(block.rule))
    return None


def release_command(rule: LimitRule) -> str:
    """Return the command that ends a pause, or shows a limit."""
    if rule.paused is None:
        return "engrambus limit list  (what is used of each limit)"
    match = rule.match
    fields = (("lane", match.lane), ("run", match.run), ("authority", match.authority), ("key", match.key))
    return "engrambus unpause " + " ".join(f"--{name} {quote(value)}" for name, value in fields if value is not None)


def _held_by_limits(view: WorkView, pattern: TuplePattern) -> Iterator[StalledWork]:
    """Yield a line for each rule that holds tuples back, those of folded batches included."""
    if not view.limit_rules():
        return
    found: dict[str, tuple[LimitRule, str, int]] = {}

    def count(record: TupleRecord, body: bytes, tuples: int) -> None:
        for block in limit_blocks(view, subject_of_body(body, record.lane, record.run)):
            name = block.rule.match.id
            earlier = found.get(name)
            found[name] = block.rule, block.summary, tuples + (0 if earlier is None else earlier[2])

    for record in _waiting(view, pattern) if any(use.waiting for use in view.limit_uses()) else ():
        if record.ready_us <= view.as_of:
            count(record, record.body, 1)
    for batch in view.folded_batches(None):
        root = view.find(batch.id)
        if root is not None and _is_in(pattern, batch.lane, batch.run):
            count(root, batch.template, batch.folded)
    for rule, why, tuples in found.values():
        yield StalledWork(reason="limit", tuples=tuples, why=why, next=release_command(rule))


def _blocked(view: WorkView, pattern: TuplePattern) -> Iterator[StalledWork]:
    run = pattern.equal_to("run")
    listed = view.list_blocked(run if isinstance(run, str) else None, limit=MAX_LOOKED_AT)
    blocked = [record for record in listed if _is_in(pattern, record.lane, record.run)]
    yield from (_one_blocked(view, record) for record in blocked[:MAX_NAMED])
    if len(blocked) > MAX_NAMED:
        following = f"engrambus why {short_id(blocked[MAX_NAMED].id)}"
        yield StalledWork(reason="blocked", tuples=len(blocked) - MAX_NAMED, why="blocked as well", next=following)


def _one_blocked(view: WorkView, record: TupleRecord) -> StalledWork:
    """Return what blocks a tuple first, and the command for that."""
    tuple_id = short_id(record.id)
    why, following = "blocked", f"engrambus why {tuple_id}"
    for item in view.blocks(record.id)[:1]:
        line, remedy = describe_block(view, item)
        why = line.rstrip(".")
        if item.on is None:
            following = f"engrambus task unblock {tuple_id}"
        elif remedy is not None:
            following = f"engrambus task unblock {tuple_id} {remedy}" if remedy.startswith("--") else remedy
    return StalledWork(reason="blocked", tuples=1, why=f"{tuple_id}: {why}", next=following)


def _delayed(view: WorkView, pattern: TuplePattern) -> Iterator[StalledWork]:
    """Yield a line for each lane with tuples that are not due yet."""
    if not any(_is_in(pattern, counts.lane, None) for counts in view.delayed_counts()):
        return
    first: dict[str, TupleRecord] = {}
    tuples: dict[str, int] = {}
    for record in _waiting(view, pattern):
        if record.ready_us > view.as_of:
            tuples[record.lane] = tuples.get(record.lane, 0) + 1
            if record.lane not in first or record.ready_us < first[record.lane].ready_us:
                first[record.lane] = record
    for lane, record in first.items():
        yield _until(record.ready_us, tuples[lane], f"engrambus why {short_id(record.id)}")


def _until(ready_us: int, tuples: int, following: str) -> StalledWork:
    return StalledWork(reason="delayed", tuples=tuples, why=f"not before {print_time(ready_us)}", next=following)


def _waiting(view: WorkView, pattern: TuplePattern) -> Iterator[TupleRecord]:
    for record in view.list_unfinished(limit=MAX_LOOKED_AT):
        if record.state == "waiting" and _is_in(pattern, record.lane, record.run):
            yield record


def _is_in(pattern: TuplePattern, lane: str, run: str | None) -> bool:
    """True if a lane and a run are those of a pattern; tasks of agents are no work of workers."""
    is_run = run is None or pattern.for_field("run").matches({"run": run})
    return lane != TASK_LANE and is_run and pattern.for_field("lane").matches({"lane": lane})
