"""The row of `work_state`: how far the tables of a project's work have come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from engrambus.backends.postgres.connections import ProjectSession
from engrambus.backends.postgres.server_clock import ServerClock
from engrambus.backends.postgres.work.database import work_queries
from engrambus.backends.sql.work.state import PendingFigures, WorkIndexState, new_shape
from engrambus.core.journal import JournalPosition
from engrambus.core.project_clock import ClockMark

_encode = msgspec.json.Encoder().encode
_decode_figures = msgspec.json.Decoder(PendingFigures).decode
_decode_clock = msgspec.json.Decoder(ClockMark | None).decode
_decode_indexed = msgspec.json.Decoder(tuple[str, ...]).decode


def read_state(session: ProjectSession, indexed: tuple[str, ...], clock: ServerClock) -> WorkIndexState | None:
    """Return the state in a snapshot; None if the tables must be made, or have not all indexed fields."""
    return _read(session.execute(work_queries()["state"]).fetchone(), indexed, clock)


def lock_state(session: ProjectSession, indexed: tuple[str, ...], clock: ServerClock) -> WorkIndexState | None:
    """Wait for the other writers of the project, and return the state as they left it."""
    return _read(session.execute(work_queries()["lock_state"]).fetchone(), indexed, clock)


def insert_state(session: ProjectSession, indexed: tuple[str, ...], start: JournalPosition) -> WorkIndexState:
    """Write the state of empty tables."""
    state = WorkIndexState(
        position=start, synced_bytes=start.offset, boot_id="", indexed=indexed, shape=new_shape(), is_from_start=True
    )
    values = (_encode(indexed).decode(), *_position(start), start.offset, state.shape)
    session.execute(work_queries()["insert_state"], values)
    return state


def save_state(session: ProjectSession, state: WorkIndexState) -> None:
    """Write the state."""
    session.execute(work_queries()["update_state"], _columns(state))


def commit_lines(
    session: ProjectSession,
    state: WorkIndexState,
    lines: Sequence[bytes],
    notification: tuple[str, list[int], list[str]],
) -> None:
    """Append the lines that lead to a state, write the state and notify waiters: all by one statement."""
    last = state.position.seq
    numbers = [*range(last - len(lines) + 1, last + 1)]
    session.execute(work_queries()["commit_lines"], (*_columns(state), numbers, [*lines], *notification))


def _columns(state: WorkIndexState) -> tuple[Any, ...]:
    return (
        *_position(state.position),
        *(state.synced_bytes, state.ordinal, state.receipts, state.links, state.runs, state.epoch, state.boot),
        *(state.counter, state.rules, _encode(state.figures)),
    )


def is_same(known: WorkIndexState, state: WorkIndexState) -> bool:
    """True if nobody has changed the tables since a state was known: no line was added, and no group closed."""
    return known.position == state.position and known.shape == state.shape and known.indexed == state.indexed


def with_numbers_of(state: WorkIndexState, known: WorkIndexState) -> WorkIndexState:
    """Return a state with the numbers that an earlier one knows: these never change, other caches do."""
    if known.position.seq > state.position.seq:
        return state
    state.run_numbers, state.needs_numbers = known.run_numbers, known.needs_numbers
    state.group_numbers, state.sibling_numbers = known.group_numbers, known.sibling_numbers
    state.group_fields = known.group_fields
    return state


def _position(position: JournalPosition) -> tuple[Any, ...]:
    return position.offset, position.seq, position.checksum, position.at_us, _encode(position.clock)


def _read(row: Any, indexed: tuple[str, ...], clock: ServerClock) -> WorkIndexState | None:
    if row is None:
        return None
    clock.observe(row[17], row[18])
    present = _decode_indexed(row[0].encode())
    if not set(indexed) <= set(present):
        return None
    return WorkIndexState(
        indexed=present,
        position=JournalPosition(offset=row[1], seq=row[2], checksum=row[3], at_us=row[4], clock=_decode_clock(row[5])),
        synced_bytes=row[6],
        boot_id="",
        ordinal=row[7],
        receipts=row[8],
        links=row[9],
        runs=row[10],
        epoch=row[11],
        boot=row[12],
        counter=row[13],
        rules=row[14],
        figures=_decode_figures(row[15]),
        shape=row[16],
    )
