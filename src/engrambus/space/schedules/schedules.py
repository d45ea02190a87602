"""The schedules of one project, as programs use them. Every change is one commit of the journal of work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import msgspec

from engrambus.errors import HookRefusal
from engrambus.space.schedules import rules
from engrambus.space.schedules.ports import SchedulePosition, ScheduleStore, ScheduleView
from engrambus.space.schedules.values import EmissionPass, Schedule
from engrambus.space.tuples import PutResult, TuplePut, TupleSpace

SCHEDULES_PER_COMMIT = 64
"""Schedules that one commit looks at: others that want to write wait no longer than for these."""


class Schedules:
    """The schedules of one project. Safe to share between threads, and between processes."""

    def __init__(self, space: TupleSpace, has_run_ended: Callable[[str], bool] = lambda run: False) -> None:
        """`has_run_ended` tells whether a run takes no more tuples."""
        self._space = space
        self._has_run_ended = has_run_ended

    @property
    def store(self) -> ScheduleStore:
        """The store of the tuples and schedules: every back end of the work plane has both."""
        return cast(ScheduleStore, self._space.store)

    def add(self, **fields: Any) -> bool:
        """Add a schedule (see `rules.add`); return whether it is new."""
        return self.store.commit(lambda view: rules.add(view, admit=self._space.admit, **fields))

    def get(self, name: str, *, added_by: str | None = None, run: str | None = None) -> Schedule:
        """Return a schedule, or refuse; someone sees only schedules of that author and run."""
        with self.store.read() as view:
            return rules.visible_schedule(view, name, added_by=added_by, run=run)

    def find_all(
        self,
        *,
        limit: int = 100,
        run: str | None = None,
        added_by: str | None = None,
        after: SchedulePosition | None = None,
    ) -> list[Schedule]:
        """Return schedules by the time of their next look; paused and ended ones last."""
        with self.store.read() as view:
            return view.list_schedules(limit=limit, run=run, added_by=added_by, after=after)

    def pause(self, name: str, *, by: str, **sight: str | None) -> None:
        """Pause a schedule."""
        self._change(name, sight, lambda view, schedule: rules.pause(schedule, by=by))

    def resume(self, name: str, *, by: str, **sight: str | None) -> None:
        """Let a paused schedule go on."""
        self._change(name, sight, lambda view, schedule: rules.resume(view, schedule, by=by))

    def remove(self, name: str, *, by: str, **sight: str | None) -> None:
        """Remove a schedule; its tuples stay."""
        self._change(name, sight, lambda view, schedule: rules.remove(schedule, by=by))

    def emit_now(self, name: str, *, idempotency: tuple[str, str] | None = None, **sight: str | None) -> PutResult:
        """Put a tuple of a schedule at once; a refusal is raised."""
        self._space.check_disk_space()

        def decide(view: ScheduleView) -> tuple[list[Any], PutResult]:
            schedule = _visible(view, name, sight)
            return rules.emit_now(
                view, schedule, settings=self._space.settings, admit=self._space.admit, idempotency=idempotency
            )

        return self._space.around("out", lambda: self.store.commit(decide))

    def next_look_us(self) -> tuple[int | None, int]:
        """Return when a schedule has to be looked at next, and the time now. Reads without the lock."""
        with self.store.read() as view:
            return view.next_look_us(), view.as_of

    def emit_due(self) -> EmissionPass:
        """Emit everything that is due; return what was emitted, and when to look again."""
        passes: list[EmissionPass] = []
        while True:
            with self.store.read() as view:  # without the lock: every worker looks
                next_us, now_us = view.next_look_us(), view.as_of
                due = view.list_schedules(limit=SCHEDULES_PER_COMMIT, until_us=now_us)
            if not due:
                return _sum(passes, next_us)
            self._space.check_disk_space()
            ended = {run for run in {schedule.run for schedule in due} if self._has_run_ended(run)}

            if self._space.is_hooked("out"):
                passes += [self._emit_hooked(schedule, ended) for schedule in due]
            else:
                passes.append(self.store.commit(partial(self._emit, ended=ended)))

    def _emit(self, view: ScheduleView, *, ended: set[str], **options: Any) -> tuple[list[Any], EmissionPass]:
        return rules.emit_due(
            view,
            settings=self._space.settings,
            admit=self._space.admit,
            ended_runs=ended,
            limit=SCHEDULES_PER_COMMIT,
            **options,
        )

    def _emit_hooked(self, schedule: Schedule, ended: set[str]) -> EmissionPass:
        """Emit what is due of one schedule between the hooks of `out`; a veto is recorded as any other refusal."""
        # decision 114: hooks are never called under the write lock, so they are shown what would be put now.
        with self.store.read() as view:
            facts, _ = self._emit(view, ended=ended, only=schedule.name)
        drafts = [msgspec.json.decode(fact.tuple) for fact in facts if isinstance(fact, TuplePut)]
        emit = partial(self._emit, ended=ended, only=schedule.name)
        if not drafts:
            return self.store.commit(emit)
        try:
            return self._space.around(
                "out", lambda: self.store.commit(emit), drafts=drafts, authority=schedule.authority, run=schedule.run
            )
        except HookRefusal as refusal:
            return self.store.commit(partial(emit, refusal=refusal))

    def _change(
        self,
        name: str,
        sight: Mapping[str, str | None],
        decide: Callable[[ScheduleView, Schedule], list[Any]],
    ) -> None:
        self.store.commit(lambda view: (decide(view, _visible(view, name, sight)), None))


def _visible(view: ScheduleView, name: str, sight: Mapping[str, str | None]) -> Schedule:
    return rules.visible_schedule(view, name, added_by=sight.get("added_by"), run=sight.get("run"))


def _sum(passes: list[EmissionPass], next_us: int | None) -> EmissionPass:
    return EmissionPass(
        emissions=tuple(emission for part in passes for emission in part.emissions),
        refused=tuple(name for part in passes for name in part.refused),
        looked_at=sum(part.looked_at for part in passes),
        next_us=next_us,
    )
