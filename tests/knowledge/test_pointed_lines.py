"""Engrams are found by the words of the lines they point at, in real repositories."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engrambus import Bus
from engrambus.app import init_project
from engrambus.settings import Settings
from tests.projects import commit_files, make_repository

VENDOR = """class VendorClient:
    def charge_customer(self, invoice):
        ledger = open_ledger(invoice.currency)
        return ledger.post(invoice.total, retries=MAX_ATTEMPTS)


def unrelated():
    return "zeppelin"
"""


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[Bus]:
    """A project with a file of code and a document."""
    repository = make_repository(tmp_path / "repository")
    commit_files(
        repository.path,
        {
            "src/vendor.py": VENDOR,
            "docs/guide.md": "# Guide\n\nHarbours close in winter.\n",
            "src/long.py": long_file(),
        },
    )
    settings = Settings.from_environment({"HOME": str(tmp_path)})
    init_project(repository.path, settings)
    with Bus.open(repository.path, settings=settings) as opened:
        yield opened


def long_file() -> str:
    return "".join(f"name{number} = quantity{number}\n" for number in range(300)) + "balance = final_total\n"


def claims(bus: Bus, question: str) -> list[str]:
    return [engram.claim for engram in bus.query_engrams(question).engrams]


def test_identifiers_in_the_lines_find_the_claim_whole_and_in_parts(bus: Bus) -> None:  # EB-12
    bus.put_engram("Payments are booked once.", at=["src/vendor.py:2-4"])
    for question in ("open ledger", "MAX_ATTEMPTS", "attempts", "chargeCustomer", "currencies", "VendorClient charge"):
        assert claims(bus, question) == ["Payments are booked once."], question


def test_words_of_other_lines_do_not_find_it(bus: Bus) -> None:  # EB-12
    bus.put_engram("Payments are booked once.", at=["src/vendor.py:2-4"])
    assert claims(bus, "zeppelin") == []


def test_a_pointer_to_a_whole_file_is_not_found_by_all_its_words(bus: Bus) -> None:  # EB-12
    bus.put_engram("Payments are booked once.", at=["src/vendor.py"])
    assert claims(bus, "zeppelin") == []


def test_words_of_the_claim_count_more_than_those_of_the_lines(bus: Bus) -> None:  # EB-13
    bus.put_engram("The ledger is append-only.", at=["docs/guide.md:1"])
    bus.put_engram("Payments are booked once.", at=["src/vendor.py:2-4"])
    assert claims(bus, "ledger") == ["The ledger is append-only.", "Payments are booked once."]


def test_many_lines_count_less_than_few(bus: Bus) -> None:  # EB-13
    bus.put_engram("Totals are computed here.", at=["src/long.py:301"])
    bus.put_engram("Names are listed here.", at=["src/long.py:100-301"])
    assert claims(bus, "final balance")[0] == "Totals are computed here."


def test_the_words_are_hidden_with_the_engram_and_gone_when_it_is_forgotten(bus: Bus) -> None:  # EB-20
    engram = bus.put_engram("Payments are booked once.", at=["src/vendor.py:2-4"])
    bus.forget_engram(engram.id)
    assert claims(bus, "ledger") == []


def test_a_confirmation_with_new_lines_brings_their_words(bus: Bus, tmp_path: Path) -> None:  # BX-01
    engram = bus.put_engram("Payments are booked once.", at=["src/vendor.py:2-4"])
    changed = VENDOR.replace("open_ledger(invoice.currency)", "find_account(invoice.country)")
    commit_files(tmp_path / "repository", {"src/vendor.py": changed})
    bus.confirm_engram(engram.id, at=["src/vendor.py:2-4"])
    assert claims(bus, "find account country") == ["Payments are booked once."]
    assert claims(bus, "currency") == []
