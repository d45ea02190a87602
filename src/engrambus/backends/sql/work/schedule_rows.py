"""Rows of schedules among the tables of work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from engrambus.backends.sql.work.database import WorkDatabase
from engrambus.space.schedules import (
    NEVER_US,
    Schedule,
    ScheduleAdded,
    ScheduleFact,
    SchedulePosition,
    ScheduleRemoved,
    ScheduleState,
    after_clock_corrected,
    after_fact,
    new_schedule,
)

# Sorted, so that a row is the same whether its fact was just made or read from the journal.
_encode = msgspec.json.Encoder(order="sorted").encode
_decode_added = msgspec.json.Decoder(ScheduleAdded).decode
_decode_state = msgspec.json.Decoder(ScheduleState).decode
_START = SchedulePosition(-1, "")


class ScheduleRows:
    """The schedules of a store."""

    def __init__(self, database: WorkDatabase) -> None:
        self._database = database

    def apply(self, fact: ScheduleFact, at_us: int) -> None:
        """Apply one fact."""
        if isinstance(fact, ScheduleAdded):
            schedule = new_schedule(fact, at_us)
            values = (
                fact.name,
                fact.run,
                fact.added_by,
                schedule.state.look_us,
                _encode(fact),
                _encode(schedule.state),
            )
            self._database.run("insert_schedule", *values)
        elif isinstance(fact, ScheduleRemoved):
            self._database.run("delete_schedule", fact.name)
        else:
            row = self._row("schedule", fact.name)
            self._write(fact.name, after_fact(_decode_state(row[1]), fact, at_us))

    def correct_times(self, at_us: int) -> None:
        """Have the times of schedules computed again after a correction of the clock."""
        for schedule in [*self.list(limit=-1)]:
            self._write(schedule.name, after_clock_corrected(schedule, at_us))

    def find(self, name: str) -> Schedule | None:
        """Return the schedule of that name."""
        row = self._row("schedule", name)
        return None if row is None else _read_row(row)

    def list(
        self,
        *,
        limit: int,
        run: str | None = None,
        added_by: str | None = None,
        after: SchedulePosition | None = None,
        until_us: int | None = None,
    ) -> Iterator[Schedule]:
        """Yield schedules by the time of their next look, then by name; a limit of -1 is none."""
        values = (*(after or _START), NEVER_US if until_us is None else until_us, run, added_by, limit)
        return map(_read_row, self._database.rows("schedules", *values))

    def count(self, added_by: str | None = None) -> int:
        """Return the number of schedules, of someone or of all."""
        row = self._row("schedule_count") if added_by is None else self._row("schedule_count_of", added_by)
        count: int = row[0]
        return count

    def next_look_us(self) -> int | None:
        """Return when a schedule has to be looked at next."""
        look_us: int | None = self._row("next_look", NEVER_US)[0]
        return look_us

    def _write(self, name: str, state: ScheduleState) -> None:
        self._database.run("update_schedule", state.look_us, _encode(state), name)

    def _row(self, name: str, *values: object) -> Any:
        return self._database.row(name, *values)


def _read_row(row: Any) -> Schedule:
    added, state = row
    schedule = new_schedule(_decode_added(added), 0)
    return msgspec.structs.replace(schedule, state=_decode_state(state))
