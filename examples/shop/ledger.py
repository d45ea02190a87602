"""The ledger: every movement of money, in the order it happened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

Direction = Literal["in", "out"]


class LedgerError(Exception):
    """The ledger does not take this entry."""


@dataclass(frozen=True)
class Entry:
    """One movement of money, in cents."""

    account: str
    direction: Direction
    cents: int
    reference: str
    at: datetime


@dataclass
class Reservation:
    """Money set aside until it is captured or released."""

    account: str
    cents: int
    reference: str
    captured: bool = False
    released: bool = False


@dataclass
class Ledger:
    """Entries and reservations of one shop, kept in memory."""

    entries: list[Entry] = field(default_factory=list)
    reservations: dict[str, Reservation] = field(default_factory=dict)

    def balance(self, account: str) -> int:
        """Return the balance of an account, without reserved money."""
        posted = sum(self._signed(entry) for entry in self.entries if entry.account == account)
        reserved = sum(
            reservation.cents
            for reservation in self.reservations.values()
            if reservation.account == account and not reservation.captured and not reservation.released
        )
        return posted - reserved

    def reserve(self, account: str, cents: int, reference: str) -> Reservation:
        """Set money aside; the same reference is set aside once."""
        if cents <= 0:
            raise LedgerError("Only a positive amount can be reserved.")
        existing = self.reservations.get(reference)
        if existing is not None:
            if existing.cents != cents or existing.account != account:
                raise LedgerError(f"Reference {reference} was reserved differently.")
            return existing
        if self.balance(account) < cents:
            raise LedgerError(f"Account {account} does not hold {cents} cents.")
        reservation = Reservation(account=account, cents=cents, reference=reference)
        self.reservations[reference] = reservation
        return reservation

    def capture(self, reference: str) -> Entry:
        """Turn a reservation into an entry."""
        reservation = self._open(reference)
        reservation.captured = True
        return self.post(reservation.account, "out", reservation.cents, reference)

    def release(self, reference: str) -> None:
        """Give reserved money back to its account."""
        self._open(reference).released = True

    def post(self, account: str, direction: Direction, cents: int, reference: str) -> Entry:
        """Write an entry. The caller makes sure that a reference is posted once."""
        entry = Entry(account, direction, cents, reference, datetime.now(UTC))
        self.entries.append(entry)
        return entry

    def history(self, account: str) -> Iterator[Entry]:
        """Return the entries of an account, newest first."""
        return (entry for entry in reversed(self.entries) if entry.account == account)

    def _open(self, reference: str) -> Reservation:
        reservation = self.reservations.get(reference)
        if reservation is None or reservation.captured or reservation.released:
            raise LedgerError(f"Nothing is reserved under {reference}.")
        return reservation

    @staticmethod
    def _signed(entry: Entry) -> int:
        return entry.cents if entry.direction == "in" else -entry.cents
