"""A tiny history whose answers are known by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.projects import git

BILLING = '''\
"""Bills."""


class Ledger:
    """Keep the balance of every account."""

    limit = 500

    def post(self, amount):
        """Write an amount into the journal."""
        self.rows.append(amount)
        return self.balance()

    def balance(self):
        return sum(self.rows)


def refund(ledger, amount):
    """Give money back to a customer."""
    return ledger.post(-amount)


def invoice_number(year, counter):
    return f"{year}-{counter:05d}"
'''

SHIPPING = """\
def parcel_weight(boxes):
    return sum(box.grams for box in boxes)


def print_label(address):
    street = address.street
    return street.upper()
"""


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six commits: two before the middle, four after it."""
    folder = tmp_path_factory.mktemp("histories") / "shop"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")

    def commit(subject: str, **files: str) -> None:
        for name, text in files.items():
            (folder / f"{name}.py").write_text(text, "utf-8")
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", subject)

    commit("Add the ledger and refunds", billing=BILLING)
    commit("Ship parcels with printed labels", shipping=SHIPPING)
    call = "return ledger.post(-amount)"
    signed = BILLING.replace(call, f"if amount < 0:\n        raise ValueError\n    {call}")
    commit("Refuse a negative refund of money (#12)", billing=signed)
    git(folder, "mv", "billing.py", "bills.py")
    git(folder, "commit", "-q", "-m", "Move the bills to another file")
    (folder / "bills.py").write_text(signed.replace("05d", "06d").replace("limit = 500", "limit = 900"), "utf-8")
    git(folder, "commit", "-q", "-a", "-m", "Count invoices with six digits and raise the limit")
    (folder / "shipping.py").write_text(SHIPPING.replace("upper", "title"), "utf-8")
    git(folder, "commit", "-q", "-a", "-m", "Fix typo")
    return folder
