"""Refunds: which orders qualify, how much is paid back, and how many approvals that needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, timedelta

from shop.ledger import Entry
from shop.payments import Payments, Receipt

WINDOW = timedelta(days=30)
APPROVAL_LIMIT = 500_00
"""Refunds above this many cents need a second approval."""


class RefundRefused(Exception):
    """The shop does not refund this."""


@dataclass(frozen=True)
class Order:
    """A purchase."""

    number: str
    customer: str
    cents: int
    bought: date
    receipt: Receipt


@dataclass
class Approvals:
    """Employees who approved refunds, by order."""

    employees: dict[str, set[str]] = field(default_factory=dict)

    def agree(self, order: Order, employee: str) -> None:
        """Record the approval of an employee."""
        self.employees.setdefault(order.number, set()).add(employee)

    def count(self, order: Order) -> int:
        """Return the number of different employees who approved."""
        return len(self.employees.get(order.number, ()))


@dataclass
class Refunds:
    """Rules for refunds, and their payment."""

    payments: Payments
    approvals: Approvals
    paid: dict[str, int] = field(default_factory=dict)

    def refund(self, order: Order, cents: int, today: date) -> Entry:
        """Give money back for an order."""
        self._check_window(order, today)
        self._check_amount(order, cents)
        self._check_approvals(order, cents)
        entry = self.payments.give_back(order.number, order.receipt, cents)
        self.paid[order.number] = self.paid.get(order.number, 0) + cents
        return entry

    def open_amount(self, order: Order) -> int:
        """Return the cents that can still be refunded."""
        return order.cents - self.paid.get(order.number, 0)

    def _check_window(self, order: Order, today: date) -> None:
        if today - order.bought > WINDOW:
            raise RefundRefused(f"Order {order.number} is older than {WINDOW.days} days.")

    def _check_amount(self, order: Order, cents: int) -> None:
        if not 0 < cents <= self.open_amount(order):
            raise RefundRefused(f"Order {order.number} has {self.open_amount(order)} cents left to refund.")

    def _check_approvals(self, order: Order, cents: int) -> None:
        needed = 2 if cents > APPROVAL_LIMIT else 1
        if self.approvals.count(order) < needed:
            raise RefundRefused(f"Order {order.number} needs {needed} approvals.")
