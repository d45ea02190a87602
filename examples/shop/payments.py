"""Charging customers through a payment provider that sometimes times out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from shop.ledger import Entry, Ledger

ATTEMPTS = 3
PAUSE = 0.2


class ProviderTimeout(Exception):
    """The provider did not answer in time; it may have charged the card or not."""


class CardDeclined(Exception):
    """The provider refused the card."""


@dataclass(frozen=True)
class Receipt:
    """The provider's record of a charge or a refund."""

    provider_id: str
    cents: int


class Provider(Protocol):
    """The payment provider."""

    def charge(self, card: str, cents: int) -> Receipt:
        """Take money from a card."""
        ...

    def refund(self, provider_id: str, cents: int) -> Receipt:
        """Give money back for an earlier charge."""
        ...


@dataclass
class Payments:
    """Charges and refunds, both written into the ledger."""

    provider: Provider
    ledger: Ledger
    sleep: Callable[[float], None] = time.sleep

    def charge(self, order: str, card: str, cents: int) -> Receipt:
        """Take an order's money from a card."""
        if cents <= 0:
            raise ValueError("an order costs something")
        receipt = self._with_retries(lambda: self.provider.charge(card, cents))
        self.ledger.post("sales", "in", cents, order)
        return receipt

    def give_back(self, order: str, receipt: Receipt, cents: int) -> Entry:
        """Return money for an order: reserved first, so that the till is never overdrawn."""
        reference = f"refund:{order}"
        self.ledger.reserve("sales", cents, reference)
        try:
            self._with_retries(lambda: self.provider.refund(receipt.provider_id, cents))
        except CardDeclined:
            self.ledger.release(reference)
            raise
        return self.ledger.capture(reference)

    def _with_retries(self, call: Callable[[], Receipt]) -> Receipt:
        """Try again after a timeout, a little later each time."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return call()
            except ProviderTimeout:
                if attempt == ATTEMPTS:
                    raise
                self.sleep(PAUSE * attempt)
        raise AssertionError("unreachable")


def total(receipts: list[Receipt]) -> int:
    """Return the sum of a list of receipts, in cents."""
    return sum(receipt.cents for receipt in receipts)
