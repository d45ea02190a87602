"""Journal facts about reservations. The end of a run and the removal of an agent end its reservations without one."""

from __future__ import annotations

from typing import Literal

import msgspec

Cause = Literal["released", "process_ended"]


class ReservationMade(
    msgspec.Struct, frozen=True, kw_only=True, tag="reservation.made", tag_field="fact", omit_defaults=True
):
    """An agent, or a person, reserved paths until a moment."""

    reservation_id: str
    run: str
    agent: str
    """The holder."""
    paths: tuple[str, ...]
    reason: str
    expires_us: int = msgspec.field(name="expires_at")
    by: str
    process: str | None = None
    """The process that the holder works in; the reservation ends with it."""


class ReservationChanged(
    msgspec.Struct, frozen=True, kw_only=True, tag="reservation.changed", tag_field="fact", omit_defaults=True
):
    """The holder renewed a reservation, or released some of its paths."""

    reservation_id: str
    run: str
    paths: tuple[str, ...]
    reason: str
    expires_us: int = msgspec.field(name="expires_at")
    by: str
    process: str | None = None


class ReservationReleased(
    msgspec.Struct, frozen=True, kw_only=True, tag="reservation.released", tag_field="fact", omit_defaults=True
):
    """A reservation ended before it expired."""

    reservation_id: str
    run: str
    agent: str
    """The holder."""
    by: str
    cause: Cause = "released"
