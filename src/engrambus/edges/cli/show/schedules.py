"""Lines for people: schedules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from engrambus.core import short_id
from engrambus.edges.cli.screen import counted, dim, pairs, safe, safe_line, table

if TYPE_CHECKING:
    from engrambus.operations.schedules import (
        AddedSchedule,
        RemovedSchedule,
        ScheduleRow,
        SchedulesAnswer,
        ShownSchedule,
    )


def schedule_added(answer: AddedSchedule) -> Iterator[str]:
    if not answer.new:
        yield dim("It was there already.")
    yield from schedule_row(answer.schedule)


def schedule_row(schedule: ScheduleRow) -> Iterator[str]:
    """Show when a schedule is due, and what has become of it."""
    yield f"{click.style(safe(schedule.name), bold=True)}  {safe(schedule.when)}  {_next(schedule)}"
    yield from (f"  {line}" for line in _history(schedule))


def schedule_list(answer: SchedulesAnswer) -> Iterator[str]:
    if not answer.schedules:
        yield "No schedules."
        return
    head, *lines = table(
        ["SCHEDULE", "WHEN", "NEXT", "LAST", "TASK"],
        [
            [
                schedule.name,
                schedule.when,
                _next(schedule),
                f"{schedule.last_at[:19]}Z" if schedule.last_at else "",
                short_id(schedule.last_tuple) if schedule.last_tuple else "",
            ]
            for schedule in answer.schedules
        ],
    )
    yield head
    for line, schedule in zip(lines, answer.schedules, strict=True):
        yield line
        yield from (f"  {detail}" for detail in _troubles(schedule))
    if answer.cursor is not None:
        yield dim(f"More: --cursor {safe(answer.cursor)}")


def schedule_details(answer: ShownSchedule) -> Iterator[str]:
    schedule = answer.schedule
    yield from schedule_row(schedule)
    rows = [
        ("lane", schedule.lane),
        ("steps", ", ".join(schedule.yools)),
        ("added by", schedule.added_by),
        ("catch-up", schedule.catch_up),
        ("overlap", schedule.overlap),
    ]
    yield from pairs(pair for pair in rows if pair[1])
    for time in answer.upcoming:
        yield f"  {time.at[:19]}Z  {safe(time.local)}"


def schedule_removed(answer: RemovedSchedule) -> Iterator[str]:
    yield f"{safe(answer.name)} is removed; the tasks that it has put stay."


def _next(schedule: ScheduleRow) -> str:
    return f"{schedule.next_due[:19]}Z" if schedule.next_due else schedule.state


def _history(schedule: ScheduleRow) -> Iterator[str]:
    if schedule.last_at and schedule.last_tuple:
        newest = f"{short_id(schedule.last_tuple)} at {schedule.last_at[:19]}Z"
        yield f"{counted(schedule.emitted, 'task')}, the last {newest}"
    yield from _troubles(schedule)


def _troubles(schedule: ScheduleRow) -> Iterator[str]:
    if schedule.skipped:
        yield f"{counted(schedule.skipped, 'time')} skipped: the previous task had not ended"
    if schedule.missed:
        yield f"{counted(schedule.missed, 'time')} missed: nobody was there"
    if schedule.refused is not None:
        refused = schedule.refused
        retry = f", again at {refused.again_at[:19]}Z" if refused.again_at else ""
        yield (
            click.style(f"refused, {refused.code}: ", fg="red")
            + safe_line(refused.detail)
            + dim(
                f"  ({counted(refused.tries, 'try')}{retry})"
                if refused.tries == 1
                else f"  ({refused.tries} tries{retry})"
            )
        )
