"""A position in a journal, as the row of a database that says how far its tables have come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from engrambus.core.journal import JournalPosition
from engrambus.core.project_clock import ClockMark

_encode_clock = msgspec.json.Encoder().encode
_decode_clock = msgspec.json.Decoder(ClockMark | None).decode


def encode_clock(position: JournalPosition) -> bytes:
    """Return what a position says about the machine's clock, as it is stored."""
    return _encode_clock(position.clock)


def read_position(columns: Sequence[Any]) -> JournalPosition:
    """Return the position from its columns in the state row: offset, number, checksum, time and clock."""
    offset, seq, checksum, at_us, clock = columns
    return JournalPosition(offset=offset, seq=seq, checksum=checksum, at_us=at_us, clock=_decode_clock(clock))
