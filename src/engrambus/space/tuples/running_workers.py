"""Running workers: what each can run, and which waiting tuples none of them can run.

decision 100: workers announce themselves to the store for a while and renew that; what is announced is no part of the
journal, because it means nothing once its process has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from engrambus.core import canonical, digest, parse_time, print_second
from engrambus.space.catalog import Catalog
from engrambus.space.tuples.enqueue import GC_LANE, INTERNAL_AUTHORITY
from engrambus.space.tuples.facts import Fact, TuplePut
from engrambus.space.tuples.next_steps import CanRun, may_run
from engrambus.space.tuples.patterns import TuplePattern
from engrambus.space.tuples.ports import RunningWorker, WaitingGroup, WorkView
from engrambus.space.tuples.rules import read_tuple, with_free_id
from engrambus.space.tuples.values import TASK_LANE, SpaceSettings, TupleRecord

ALARM_YOOL = "op.worker.alarm"
"""Yool that the alarm tuple names; nobody runs it, it is for a reader."""


class UnclaimedWork(msgspec.Struct, frozen=True, kw_only=True):
    """Tuples of a lane that wait for a yool which no running worker can run."""

    lane: str
    yool: str
    """Its full name, or the name in the payload if the catalog does not declare it."""
    is_declared: bool
    """False if it is not in the catalog any more."""
    tuples: int
    since_us: int
    """Time since which the oldest of them waits."""
    workers: int
    """Running workers of the lane, which all lack its code."""
    oldest: TupleRecord

    @property
    def summary(self) -> str:
        """What is wrong, in one sentence."""
        count = "1 tuple needs" if self.tuples == 1 else f"{self.tuples:,} tuples need"
        if not self.is_declared:
            reason = "which is not in the catalog"
        elif not self.workers:
            reason = "and no worker runs in that lane"
        else:
            which = "the running worker" if self.workers == 1 else f"none of the {self.workers} running workers"
            reason = f"and {which} {'lacks' if self.workers == 1 else 'has'} its code"
        return f"lane {self.lane}: {count} {self.yool} since {print_second(self.since_us)}, {reason}"

    @property
    def next_step(self) -> str:
        """What to do about it."""
        if not self.is_declared:
            return "Declare it again (engrambus catalog build), or end them: engrambus cancel ID."
        return (
            f"Start a worker with its code: engrambus worker --lane {self.lane} --import MODULE, "
            "or install the package that has it as an entry point engrambus.yools."
        )


class LeftWork(msgspec.Struct, frozen=True, kw_only=True):
    """Tuples of a lane that a worker leaves waiting, because it has no code for their next steps."""

    lane: str
    yools: tuple[str, ...]
    """Full names, or the names in the payload of those that the catalog does not declare."""
    tuples: int
    is_declared: bool
    """False if none of them is in the catalog any more."""

    @property
    def summary(self) -> str:
        """What is left and why, in one sentence."""
        count = "1 tuple needs" if self.tuples == 1 else f"{self.tuples:,} tuples need"
        what = f"{count} {' or '.join(self.yools)}"
        if not self.is_declared:
            return f"{what}, not in the catalog: engrambus catalog build, or engrambus cancel ID"
        return f"{what}, which no code here carries out: --import MODULE"


def left_work(
    groups: Iterable[WaitingGroup], pattern: TuplePattern, can_run: CanRun, catalog: Catalog
) -> list[LeftWork]:
    """Return what waits in the lanes and the run of a pattern, and has no code here."""
    lanes, runs = pattern.for_field("lane"), pattern.for_field("run")
    left_by_need: dict[tuple[str, tuple[str, ...]], LeftWork] = {}
    for group in groups:
        matches = lanes.matches({"lane": group.lane}) and runs.matches({"run": group.run})
        if not matches or group.lane == TASK_LANE or may_run(group.yools, can_run):
            continue
        entries = [catalog.get(name) for name in group.yools]
        yools = tuple(
            name if entry is None else entry.full_name for name, entry in zip(group.yools, entries, strict=True)
        )
        earlier = left_by_need.get((group.lane, yools))
        left_by_need[group.lane, yools] = LeftWork(
            lane=group.lane,
            yools=yools,
            tuples=group.tuples + (earlier.tuples if earlier is not None else 0),
            is_declared=any(entry is not None for entry in entries),
        )
    return [left_by_need[key] for key in sorted(left_by_need)]


def unclaimed_work(
    groups: Iterable[WaitingGroup],
    workers: Sequence[RunningWorker],
    catalog: Catalog,
    *,
    now_us: int,
    settings: SpaceSettings,
) -> list[UnclaimedWork]:
    """Return what waits for code that no running worker has, by lane and yool.

    Tuples without steps, and those of the product's own lanes, wait for a reader or for room on the disk instead.
    """
    unclaimed: dict[tuple[str, str], UnclaimedWork] = {}
    for group in groups:
        if group.lane in (settings.alarm_lane, GC_LANE, TASK_LANE):
            continue
        entries = {name: catalog.get(name) for name in group.yools}
        names = {name: entry.full_name if entry is not None else name for name, entry in entries.items()}
        of_lane = [worker for worker in workers if worker.works_in(group.lane, group.run)]
        if any(entries[name] is not None and names[name] in worker.yools for worker in of_lane for name in names):
            continue
        for name, full_name in names.items():
            work = UnclaimedWork(
                lane=group.lane,
                yool=full_name,
                is_declared=entries[name] is not None,
                tuples=group.tuples,
                since_us=_waits_since(group.oldest, now_us),
                workers=len(of_lane),
                oldest=group.oldest,
            )
            key = group.lane, full_name
            unclaimed[key] = _added(unclaimed[key], work) if key in unclaimed else work
    return [unclaimed[key] for key in sorted(unclaimed)]


def _waits_since(record: TupleRecord, now_us: int) -> int:
    return min(now_us, max(parse_time(record.tuple.created_at), record.ready_us))


def _added(first: UnclaimedWork, second: UnclaimedWork) -> UnclaimedWork:
    """Return two groups for the same yool as one."""
    older = min(first, second, key=lambda work: work.since_us)
    return msgspec.structs.replace(
        older, tuples=first.tuples + second.tuples, workers=max(first.workers, second.workers)
    )


def alarm_key(work: UnclaimedWork) -> str:
    """Return the key under which one alarm is put for a lane and a yool, until another tuple waits the longest."""
    content = [work.lane, work.yool, work.oldest.id, work.since_us]
    return f"unclaimed {digest(canonical(content))}"


def raise_unclaimed_alarm(view: WorkView, work: UnclaimedWork, settings: SpaceSettings) -> tuple[list[Fact], None]:
    """Put an alarm tuple for work that no running worker can run, unless it was put before."""
    key = alarm_key(work)
    if view.idempotent_put(key) is not None:
        return [], None
    args = {
        "lane": work.lane,
        "yool": work.yool,
        "tuples": work.tuples,
        "since": print_second(work.since_us),
        "hint": work.next_step,
    }
    fields = {
        "lane": settings.alarm_lane,
        "payload": [{"yool": ALARM_YOOL, "args": args}],
        "src_ptr": [f"tuple://{work.oldest.id}"],
        "priority": 100,
    }
    draft = read_tuple(fields, INTERNAL_AUTHORITY, view.as_of)
    draft = with_free_id(draft, lambda id: view.find(id) is not None)
    put = TuplePut(
        id=draft.id,
        run=work.oldest.run,
        tuple=msgspec.Raw(draft.body),
        idempotency_key=key,
        request_digest=digest(key.encode()),
    )
    return [put], None
