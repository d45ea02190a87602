"""Transitions: how facts change a schedule. Every back end applies facts with these functions."""

from __future__ import annotations

from msgspec.structs import replace

from engrambus.space.schedules.facts import (
    ScheduleAdded,
    ScheduleEmitted,
    ScheduleFact,
    ScheduleMoved,
    SchedulePaused,
    ScheduleRefused,
    ScheduleResumed,
    ScheduleSkipped,
)
from engrambus.space.schedules.values import NEVER_US, LastRefusal, Schedule, ScheduleState


def new_schedule(fact: ScheduleAdded, at_us: int) -> Schedule:
    """Return the schedule that was just added."""
    return Schedule(
        name=fact.name,
        run=fact.run,
        added_by=fact.added_by,
        authority=fact.authority,
        timing=fact.timing,
        template=fact.template,
        catch_up=fact.catch_up,
        overlap=fact.overlap,
        state=ScheduleState(added_us=at_us, due_us=fact.next_us, look_us=fact.next_us, start_us=fact.timing.start_us),
    )


def after_fact(state: ScheduleState, fact: ScheduleFact, at_us: int) -> ScheduleState:
    """Return the state of a schedule after a fact about it."""
    match fact:
        case ScheduleEmitted():
            state = replace(
                state,
                last_due_us=fact.due_us,
                last_us=at_us,
                last_tuple=fact.tuples[-1],
                emitted=state.emitted + len(fact.tuples),
                missed=state.missed + fact.missed,
                refusal=None,
            )
            return state if fact.due_us is None else _due_at(state, fact.next_us)
        case ScheduleSkipped():
            skipped, missed = (fact.times, 0) if fact.reason == "overlap" else (0, fact.times)
            state = replace(state, skipped=state.skipped + skipped, missed=state.missed + missed, refusal=None)
            return _due_at(state, fact.next_us)
        case ScheduleRefused():
            tries = 1 if state.refusal is None else state.refusal.tries + 1
            refusal = LastRefusal(code=fact.code, detail=fact.detail, at_us=at_us, tries=tries)
            return replace(state, refusal=refusal, look_us=fact.retry_us)
        case SchedulePaused():
            return replace(state, paused=True, look_us=NEVER_US)
        case ScheduleResumed():
            return _due_at(replace(state, paused=False), fact.next_us)
        case ScheduleMoved():
            return _due_at(replace(state, start_us=fact.start_us), fact.next_us)
        case _:
            return state


def after_clock_corrected(schedule: Schedule, at_us: int) -> ScheduleState:
    """Return the state of a schedule after the project's clock was set back to `at_us`."""
    state = schedule.state
    if state.paused or schedule.has_ended:
        return state
    if schedule.timing.at_us is not None:
        return _due_at(state, state.due_us)
    # decision 111: times are computed where the rule is, never while facts are applied.
    return replace(state, due_us=None, look_us=at_us)


def _due_at(state: ScheduleState, next_us: int | None) -> ScheduleState:
    look_us = NEVER_US if next_us is None or state.paused else next_us
    return replace(state, due_us=next_us, look_us=look_us)
