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
        """What an account holds, without what is reserved."""
        settled = sum(self._signed(entry) for entry in self.entries if entry.account == account)
        reserved = sum(
            held.cents
            for held in self.reservations.values()
            if held.account == account and not held.captured and not held.released
        )
        return settled - reserved

    def reserve(self, account: str, cents: int, reference: str) -> Reservation:
        """Set money aside; the same reference is set aside once."""
        if cents <= 0:
            raise LedgerError("Only a positive amount can be reserved.")
        known = self.reservations.get(reference)
        if known is not None:
            if known.cents != cents or known.account != account:
                raise LedgerError(f"Reference {reference} was reserved differently.")
            return known
        if self.balance(account) < cents:
            raise LedgerError(f"Account {account} does not hold {cents} cents.")
        held = Reservation(account=account, cents=cents, reference=reference)
        self.reservations[reference] = held
        return held

    def capture(self, reference: str) -> Entry:
        """Turn a reservation into an entry."""
        held = self._open(reference)
        held.captured = True
        return self.post(held.account, "out", held.cents, reference)

    def release(self, reference: str) -> None:
        """Give reserved money back to its account."""
        self._open(reference).released = True

    def post(self, account: str, direction: Direction, cents: int, reference: str) -> Entry:
        """Write an entry. It is the caller who makes sure that a reference is posted once."""
        entry = Entry(account, direction, cents, reference, datetime.now(UTC))
        self.entries.append(entry)
        return entry

    def history(self, account: str) -> Iterator[Entry]:
        """The entries of an account, newest first."""
        return (entry for entry in reversed(self.entries) if entry.account == account)

    def _open(self, reference: str) -> Reservation:
        held = self.reservations.get(reference)
        if held is None or held.captured or held.released:
            raise LedgerError(f"Nothing is reserved under {reference}.")
        return held

    @staticmethod
    def _signed(entry: Entry) -> int:
        return entry.cents if entry.direction == "in" else -entry.cents
