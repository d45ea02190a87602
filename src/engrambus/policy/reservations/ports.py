"""A reservation as a store holds it, and the reads that the rules about reservations need."""

from __future__ import annotations

from typing import Protocol

import msgspec

from engrambus.core import TimeReads
from engrambus.policy.identity import IdentityReads
from engrambus.policy.reservations.facts import ReservationChanged, ReservationMade


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """Paths that one agent, or a person, works on for a while."""

    reservation_id: str
    run: str
    agent: str
    paths: tuple[str, ...]
    reason: str
    expires_us: int
    process: str | None = None
    """The process that the holder works in, if it has one of its own."""


class ReservationReads(Protocol):
    """Reads of reservations."""

    def reservations(self) -> list[Reservation]:
        """Return the reservations of all runs that have neither expired nor ended, oldest first."""
        ...


class ReservationView(IdentityReads, ReservationReads, TimeReads, Protocol):
    """The store at one moment, as the rules about reservations read it."""


def as_made(fact: ReservationMade) -> Reservation:
    """Return the reservation that a fact begins."""
    return Reservation(
        reservation_id=fact.reservation_id,
        run=fact.run,
        agent=fact.agent,
        paths=fact.paths,
        reason=fact.reason,
        expires_us=fact.expires_us,
        process=fact.process,
    )


def as_changed(reservation: Reservation, fact: ReservationChanged) -> Reservation:
    """Return a reservation as a fact has changed it."""
    return msgspec.structs.replace(
        reservation, paths=fact.paths, reason=fact.reason, expires_us=fact.expires_us, process=fact.process
    )
