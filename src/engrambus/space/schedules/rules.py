"""Rules of schedules: adding, pausing, resuming and removing them, and emitting what is due.

As in `space.tuples`, each function looks at a view under the write lock and returns facts and an answer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from engrambus.core import SECOND_US, canonical
from engrambus.errors import (
    EngramBusError,
    FieldValue,
    RunEnded,
    ScheduleExists,
    ScheduleName,
    ScheduleNotFound,
    ScheduleTuple,
    TooManySchedules,
    TupleTooLarge,
)
from engrambus.space.schedules.facts import (
    ScheduleAdded,
    ScheduleEmitted,
    ScheduleMoved,
    SchedulePaused,
    ScheduleRefused,
    ScheduleRemoved,
    ScheduleResumed,
    ScheduleSkipped,
)
from engrambus.space.schedules.ports import ScheduleView
from engrambus.space.schedules.timing import next_after, read_timing, times_until
from engrambus.space.schedules.values import (
    GRACE_US,
    MAX_CATCH_UP,
    MAX_SCHEDULES,
    MAX_SCHEDULES_OF_AGENT,
    MAX_TEMPLATE_BYTES,
    CatchUp,
    Emission,
    EmissionPass,
    Overlap,
    Schedule,
)
from engrambus.space.tuples import ENDED, CheckedTuple, PutResult, SpaceSettings, TuplePut, put, read_tuple

Admit = Callable[[CheckedTuple], int | None]
"""Refuses a tuple, or returns the number of retries its yools allow."""

POINTER = "schedule:"
"""Beginning of the entry in `src_ptr` that says which schedule put a tuple."""
MAX_EMITTED_PER_COMMIT = 256
FIRST_RETRY_US = 60 * SECOND_US
MAX_RETRY_US = 3600 * SECOND_US
MAX_DETAIL = 500
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_TEMPLATE_FIELDS = frozenset({"lane", "payload", "map_pos", "agent_terms", "src_ptr", "flags", "priority", "schema"})


def add(
    view: ScheduleView,
    *,
    name: str,
    run: str,
    added_by: str,
    authority: Mapping[str, Any],
    is_admin: bool,
    template: Mapping[str, Any],
    cron: str | None = None,
    every: str | None = None,
    at: str | None = None,
    zone: str | None = None,
    catch_up: CatchUp = "one",
    overlap: Overlap | None = None,
    admit: Admit,
) -> tuple[list[Any], bool]:
    """Add a schedule; return whether it is new. The same schedule added again is left as it is."""
    _check_name(name)
    if catch_up == "all" and overlap == "skip":
        raise FieldValue(
            "All missed times can be caught up with only if their tuples may wait together.",
            field="overlap",
            limit="queue",
            used="skip",
        )
    overlap = overlap or ("queue" if catch_up == "all" else "skip")
    timing, first_us = read_timing(cron=cron, every=every, at=at, zone=zone, now_us=view.as_of)
    template = _check_template(template)
    added = ScheduleAdded(
        name=name,
        run=run,
        added_by=added_by,
        authority=dict(authority),
        timing=timing,
        template=template,
        catch_up=catch_up,
        overlap=overlap,
        next_us=first_us,
    )
    existing = view.schedule(name)
    if existing is not None:
        if _is_same(existing, added):
            return [], False
        raise ScheduleExists(
            field="name", used=name, hint="Choose another name, or remove it: engrambus schedule remove NAME."
        )
    _check_count(view, added_by, is_admin)
    admit(_draft(view, added.name, template, authority))
    return [added], True


def _check_name(name: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise ScheduleName(
            "A name has 1 to 64 lower-case letters, digits, dots, hyphens and underscores.",
            field="name",
            used=name[:80],
            limit=64,
        )


def _check_template(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that every tuple of the schedule has; refuse those that cannot be the same for all."""
    for field in template:
        if field not in _TEMPLATE_FIELDS:
            raise ScheduleTuple(
                f"The tuples of a schedule have no `{field[:40]}` in common.",
                field=field[:80],
                limit=", ".join(sorted(_TEMPLATE_FIELDS)),
            )
    terms = template.get("agent_terms")
    for term in ("deadline_iso", "not_before_iso"):
        if isinstance(terms, Mapping) and term in terms:
            raise ScheduleTuple(
                f"A schedule says when its tuples are put; `{term}` would be the same for all of them.",
                field=f"agent_terms.{term}",
            )
    size = len(canonical(dict(template)))
    if size > MAX_TEMPLATE_BYTES:
        raise TupleTooLarge(
            field="payload", limit=MAX_TEMPLATE_BYTES, used=size, hint="Store large input as a file and put its path."
        )
    return dict(template)


def _is_same(existing: Schedule, added: ScheduleAdded) -> bool:
    same = ("run", "added_by", "authority", "template", "catch_up", "overlap")
    timings = existing.timing, added.timing
    return all(getattr(existing, name) == getattr(added, name) for name in same) and all(
        getattr(timings[0], name) == getattr(timings[1], name) for name in ("cron", "zone", "every_us", "at_us")
    )


def _check_count(view: ScheduleView, added_by: str, is_admin: bool) -> None:
    hint = "Remove some: engrambus schedule remove NAME."
    if (count := view.schedule_count()) >= MAX_SCHEDULES:
        raise TooManySchedules(
            f"A project has at most {MAX_SCHEDULES:,} schedules.",
            field="name",
            limit=MAX_SCHEDULES,
            used=count,
            hint=hint,
        )
    if not is_admin and (count := view.schedule_count(added_by)) >= MAX_SCHEDULES_OF_AGENT:
        raise TooManySchedules(
            f"An agent has at most {MAX_SCHEDULES_OF_AGENT} schedules.",
            field="name",
            limit=MAX_SCHEDULES_OF_AGENT,
            used=count,
            hint=hint,
        )


def visible_schedule(view: ScheduleView, name: str, *, added_by: str | None, run: str | None) -> Schedule:
    """Return the schedule of that name, or refuse; someone sees only schedules of that author and run."""
    schedule = view.schedule(name)
    if schedule is None or added_by not in (None, schedule.added_by) or run not in (None, schedule.run):
        raise ScheduleNotFound(field="name", used=name[:80], hint="List them: engrambus schedule list.")
    return schedule


def pause(schedule: Schedule, *, by: str) -> list[Any]:
    """Pause a schedule; one that is paused stays so."""
    return [] if schedule.state.paused else [SchedulePaused(name=schedule.name, by=by)]


def resume(view: ScheduleView, schedule: Schedule, *, by: str) -> list[Any]:
    """Resume a paused schedule; the times in between are not caught up with."""
    if not schedule.state.paused:
        return []
    timing, state = schedule.timing, schedule.state
    # Its only time is not lost by a pause.
    is_once = timing.at_us is not None
    next_us = state.due_us if is_once else next_after(timing, view.as_of, _start_us(view, schedule))
    return [ScheduleResumed(name=schedule.name, by=by, next_us=next_us)]


def remove(schedule: Schedule, *, by: str) -> list[Any]:
    """Remove a schedule; its tuples stay."""
    return [ScheduleRemoved(name=schedule.name, by=by)]


def emit_now(
    view: ScheduleView,
    schedule: Schedule,
    *,
    settings: SpaceSettings,
    admit: Admit,
    idempotency: tuple[str, str] | None = None,
) -> tuple[list[Any], PutResult]:
    """Put a tuple of a schedule at once, also of a paused one; its next time stays as it is."""
    draft = _draft(view, schedule.name, schedule.template, schedule.authority)
    facts, (answer,) = put(
        view, [draft], run=schedule.run, settings=settings, admit=admit, idempotency=idempotency, every_run=True
    )
    if not answer.new:
        return [*facts], answer
    return [*facts, ScheduleEmitted(name=schedule.name, tuples=[answer.id])], answer


def emit_due(
    view: ScheduleView,
    *,
    settings: SpaceSettings,
    admit: Admit,
    ended_runs: Collection[str],
    limit: int,
    only: str | None = None,
    refusal: EngramBusError | None = None,
) -> tuple[list[Any], EmissionPass]:
    """Emit what is due, for up to `limit` schedules; a refusal is recorded and does not stop the others.

    With `only` it is the schedule of that name; `refusal` is why a hook does not let it emit.
    """
    facts: list[Any] = []
    waiting: Counter[str] = Counter()
    emissions: list[Emission] = []
    refused: list[str] = []
    looked_at = 0
    for schedule in _due(view, limit, only):
        try:
            new = _emit(view, schedule, settings, admit, ended_runs, waiting)
            if refusal is not None and any(isinstance(fact, TuplePut) for fact in new):
                raise refusal
        except EngramBusError as problem:
            new = [_refused(view, schedule, problem)]
            refused.append(schedule.name)
        facts += new
        # The tuples of one commit count each other against the limit of their lane.
        waiting[schedule.template.get("lane", "")] += sum(isinstance(fact, TuplePut) for fact in new)
        looked_at += 1
        emitted = [fact for fact in new if isinstance(fact, ScheduleEmitted)]
        emissions += (Emission(name=fact.name, tuples=tuple(fact.tuples)) for fact in emitted)
        if sum(len(emission.tuples) for emission in emissions) >= MAX_EMITTED_PER_COMMIT:
            break
    return facts, EmissionPass(emissions=tuple(emissions), refused=tuple(refused), looked_at=looked_at)


def _due(view: ScheduleView, limit: int, only: str | None) -> list[Schedule]:
    if only is None:
        return view.list_schedules(limit=limit, until_us=view.as_of)
    schedule = view.schedule(only)
    return [schedule] if schedule is not None and schedule.state.look_us <= view.as_of else []


def _emit(
    view: ScheduleView,
    schedule: Schedule,
    settings: SpaceSettings,
    admit: Admit,
    ended_runs: Collection[str],
    waiting: Mapping[str, int],
) -> list[Any]:
    """Return the facts of a look at one schedule whose time has come."""
    # decision 111: tuples and the next time are one line of the journal, so each time has its tuple exactly once.
    now_us, timing, state = view.as_of, schedule.timing, schedule.state
    start_us = _start_us(view, schedule)
    next_us = next_after(timing, now_us, start_us)
    if state.due_us is None:
        return [ScheduleMoved(name=schedule.name, next_us=next_us, start_us=start_us)]
    times, has_more = times_until(timing, state.due_us, now_us, limit=MAX_CATCH_UP, start_us=start_us)
    if not times:  # another release of the time zones has moved it
        return [ScheduleMoved(name=schedule.name, next_us=next_us, start_us=start_us)]
    if schedule.catch_up == "none" and now_us - times[-1] > GRACE_US:
        return [_skipped(schedule, times, "missed", next_us)]
    if schedule.overlap == "skip" and _is_unfinished(view, state.last_tuple):
        return [_skipped(schedule, times, "overlap", next_us)]
    if schedule.run in ended_runs:
        raise RunEnded(f"The run '{schedule.run}' has ended.", hint="Remove the schedule, and add it in another run.")
    count = len(times) if schedule.catch_up == "all" else 1
    drafts = [_draft(view, schedule.name, schedule.template, schedule.authority)] * count
    puts, answers = put(view, drafts, run=schedule.run, settings=settings, admit=admit, also_waiting=waiting)
    emitted = ScheduleEmitted(
        name=schedule.name,
        due_us=times[-1],
        tuples=[answer.id for answer in answers],
        missed=len(times) - count + has_more,
        next_us=next_us,
    )
    return [*puts, emitted]


def _skipped(schedule: Schedule, times: Sequence[int], reason: str, next_us: int | None) -> ScheduleSkipped:
    return ScheduleSkipped(name=schedule.name, due_us=times[-1], reason=reason, times=len(times), next_us=next_us)


def _is_unfinished(view: ScheduleView, tuple_id: str | None) -> bool:
    record = None if tuple_id is None else view.find(tuple_id)
    return record is not None and record.state not in ENDED and record.state != "taken"


def _refused(view: ScheduleView, schedule: Schedule, refusal: EngramBusError) -> ScheduleRefused:
    """Return the fact of a refused try, with the time of the next.

    That is later each time, up to an hour, but not after the schedule's next time.
    """
    tries = 0 if schedule.state.refusal is None else schedule.state.refusal.tries
    retry_us = view.as_of + min(MAX_RETRY_US, FIRST_RETRY_US << min(tries, 6))
    next_us = next_after(schedule.timing, view.as_of, _start_us(view, schedule))
    return ScheduleRefused(
        name=schedule.name,
        due_us=schedule.state.due_us or view.as_of,
        code=refusal.code,
        detail=refusal.detail[:MAX_DETAIL],
        retry_us=retry_us if next_us is None else min(retry_us, next_us),
    )


def _start_us(view: ScheduleView, schedule: Schedule) -> int:
    """Return the time from which intervals are counted; now, if a wrong clock had set one that is still to come."""
    return min(schedule.state.start_us, view.as_of)


def _draft(view: ScheduleView, name: str, template: Mapping[str, Any], authority: Mapping[str, Any]) -> CheckedTuple:
    pointers = template.get("src_ptr", [])
    fields = {**template, "src_ptr": [*pointers, f"{POINTER}{name}"] if isinstance(pointers, list) else pointers}
    return read_tuple(fields, authority, view.as_of)


def upcoming(schedule: Schedule, now_us: int, count: int) -> list[int]:
    """Return the next times of a schedule, the next one first."""
    state = schedule.state
    if state.paused or state.due_us is None:
        return []
    times = [state.due_us]
    while len(times) < count:
        after = next_after(schedule.timing, max(times[-1], now_us), state.start_us)
        if after is None or after <= times[-1]:
            break
        times.append(after)
    return times
